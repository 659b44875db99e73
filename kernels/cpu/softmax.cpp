// Softmax and losses over classes for f32 along contiguous rows; other types and orders run the reference loops, line by line.
#include "spool/kernels/softmax.h"

#include <cmath>
#include <vector>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/pack.h"
#include "spool/kernels/ref/softmax.h"

namespace spool::kernels::cpu {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

std::int64_t row_grain(std::int64_t n) { return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, n)); }

// Eigen's exp clamps its argument so that exp(-inf) is a tiny positive number, and may lose NaN: rows that hold either go the slow way.
struct RowStatistics {
  float maximum = 0;
  bool finite = true;
  RowStatistics(const float* x, std::int64_t n) {
    float largest = x[0], smallest = x[0], check = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      largest = x[k] > largest ? x[k] : largest;
      smallest = x[k] < smallest ? x[k] : smallest;
      check += x[k] * 0.0f;  // NaN as soon as one element is NaN or infinite
    }
    maximum = largest;
    finite = check == 0 && largest - smallest < 80;
  }
};

// out = exp(x - maximum); returns the sum.
float exponentials(const float* x, float* out, std::int64_t n, const RowStatistics& s) {
  Row y(out, n);
  const ConstRow in(x, n);
  if (s.finite) {
    y = (in - s.maximum).exp();
    return y.sum();
  }
  double sum = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    out[k] = std::exp(x[k] - s.maximum);
    sum += static_cast<double>(out[k]);
  }
  return static_cast<float>(sum);
}

void softmax_rows(const float* x, float* y, std::int64_t rows, std::int64_t n, bool log) {
  parallel_for(rows, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* in = x + r * n;
      float* out = y + r * n;
      const RowStatistics s(in, n);
      const float sum = exponentials(in, out, n, s);
      if (log) {
        const float log_sum = std::log(sum);
        for (std::int64_t k = 0; k < n; ++k) out[k] = in[k] - s.maximum - log_sum;
      } else {
        const float scale = 1 / sum;
        for (std::int64_t k = 0; k < n; ++k) out[k] *= scale;
      }
    }
  });
}

void softmax_backward_rows(const float* y, const float* g, float* gx, std::int64_t rows, std::int64_t n, bool log) {
  parallel_for(rows, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const ConstRow ys(y + r * n, n), gs(g + r * n, n);
      Row out(gx + r * n, n);
      if (log) {
        const float sum = gs.sum();
        for (std::int64_t k = 0; k < n; ++k) out[k] = gs[k] - std::exp(ys[k]) * sum;
      } else {
        out = ys * (gs - (ys * gs).sum());
      }
    }
  });
}

bool contiguous_rows(const Tensor& x, const ref::Lines& lines) {
  return x.dtype() == DType::f32 && lines.inner == 1 && lines.n > 0;
}

}  // namespace

void softmax(const Tensor& x, Tensor& y, int dim, bool log) {
  const ref::Lines lines(x, dim);
  if (contiguous_rows(x, lines))
    return softmax_rows(static_cast<const float*>(x.raw_data()), static_cast<float*>(y.raw_data()), lines.outer, lines.n, log);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) { ref::softmax<T>(x, y, dim, log); });
}

void softmax_backward(const Tensor& y, const Tensor& gy, Tensor& gx, int dim, bool log) {
  const ref::Lines lines(y, dim);
  if (contiguous_rows(y, lines))
    return softmax_backward_rows(static_cast<const float*>(y.raw_data()), static_cast<const float*>(gy.raw_data()),
                                 static_cast<float*>(gx.raw_data()), lines.outer, lines.n, log);
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) { ref::softmax_backward<T>(y, gy, gx, dim, log); });
}

void row_loss(const Tensor& x, const Tensor& target, const Tensor& weight, Tensor& loss, Tensor& divisor,
              const RowLossParams& p) {
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) { ref::row_loss<T>(x, target, weight, loss, divisor, p); });
}

void row_loss_backward(const Tensor& x, const Tensor& target, const Tensor& weight, const Tensor& g, const Tensor& divisor,
                       Tensor& gx, const RowLossParams& p) {
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) { ref::row_loss_backward<T>(x, target, weight, g, divisor, gx, p); });
}

void find_bad_label(const Tensor& target, std::int64_t classes, std::int64_t ignore_index, std::int64_t& position) {
  const auto* labels = static_cast<const std::int64_t*>(target.raw_data());
  position = -1;
  for (std::int64_t i = 0; i < target.numel(); ++i)
    if ((labels[i] < 0 || labels[i] >= classes) && labels[i] != ignore_index) {
      position = i;
      return;
    }
}

}  // namespace spool::kernels::cpu
