// Eigen's own threads would compete with ours, and its products are taken only where one thread is the right number.
#define EIGEN_DONT_PARALLELIZE
#include "spool/kernels/matmul.h"

#include <Eigen/Core>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/onednn.h"
#include "spool/kernels/ref/matmul.h"

namespace spool::kernels::cpu {
namespace {

// Multiplications up to which a product goes to Eigen, where looking up a oneDNN primitive would not pay, and up to which oneDNN gets one thread, where
// waking another would not (measured on two cores: 64 x 64 x 64 takes 7 us on one thread and 17 us on two, 96 x 96 x 96 16 us and 25 us).
constexpr std::int64_t kTiny = 64 * 64 * 64, kSmall = 1'000'000;

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColumnMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
template <class M>
using Map = Eigen::Map<const M, Eigen::Unaligned, Eigen::OuterStride<>>;

// Calls f with the matrix of one batch element as an Eigen map, row-major or column-major as its strides are.
template <class F>
void with_map(const Tensor& t, const float* data, const F& f) {
  const std::int64_t rows = t.shape()[1], columns = t.shape()[2], row_stride = t.strides()[1], column_stride = t.strides()[2];
  if (column_stride == 1 || columns == 1)
    f(Map<RowMajor>(data, rows, columns, Eigen::OuterStride<>(row_stride)));
  else
    f(Map<ColumnMajor>(data, rows, columns, Eigen::OuterStride<>(column_stride)));
}

void eigen_matmul(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  const std::int64_t m = y.shape()[1], n = y.shape()[2], k = a.shape()[2];
  const auto* pa = static_cast<const float*>(a.raw_data());
  const auto* pb = static_cast<const float*>(b.raw_data());
  auto* py = static_cast<float*>(y.raw_data());
  const std::int64_t grain = std::max<std::int64_t>(1, kTiny / std::max<std::int64_t>(1, m * n * k));
  parallel_for(y.shape()[0], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t batch = begin; batch < end; ++batch) {
      Eigen::Map<RowMajor> out(py + batch * m * n, m, n);
      if (bias.defined())
        out.rowwise() = Eigen::Map<const Eigen::RowVectorXf>(static_cast<const float*>(bias.raw_data()), n);
      else
        out.setZero();
      if (k == 0) continue;
      with_map(a, pa + batch * a.strides()[0], [&](const auto& ma) {
        with_map(b, pb + batch * b.strides()[0], [&](const auto& mb) { out.noalias() += ma * mb; });
      });
    }
  });
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  const std::int64_t products = y.shape()[1] * y.shape()[2] * a.shape()[2];
  if (y.dtype() == DType::f32 && products <= kTiny) return eigen_matmul(a, b, bias, y);
  if (products * y.shape()[0] <= kSmall) {
    const SingleThreaded guard;
    if (onednn::matmul(a, b, bias, y)) return;
  } else if (onednn::matmul(a, b, bias, y)) {
    return;
  }
  if (y.dtype() == DType::f32) return eigen_matmul(a, b, bias, y);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) { ref::matmul<T>(a, b, bias, y); });
}

}  // namespace spool::kernels::cpu
