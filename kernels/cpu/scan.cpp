// Walks along one dimension that must see its elements in order: extremes with their indices, running sums.
#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/reduce.h"

namespace spool::kernels::cpu {
namespace {

// The tensor with only its first element along `dim`, where a walk along it starts.
Tensor starts(const Tensor& x, int dim) {
  Shape shape = x.shape();
  if (x.dim()) shape[dim] = 1;
  return alias(x, shape, x.strides(), x.offset());
}
std::int64_t length(const Tensor& x, int dim) { return x.dim() ? x.shape()[dim] : 1; }
std::int64_t step(const Tensor& x, int dim) { return x.dim() ? x.strides()[dim] : 1; }

template <class T>
bool beats(bool largest, T a, T best) {
  // Only a NaN differs from itself, and the first one stays.
  return best == best && ((largest ? a > best : a < best) || a != a);
}

template <class T>
const T* at(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}

}  // namespace

void extreme(bool largest, const Tensor& x, int dim, Tensor& values, Tensor& indices) {
  const std::int64_t n = length(x, dim), stride = step(x, dim);
  const Tensor first = starts(x, dim);
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_row({&values, &indices, &first}, [&](std::byte* const* p, const std::int64_t* s, std::int64_t columns) {
      // Columns in bunches, so that neighbours in memory are read together whichever dimension is walked along.
      constexpr std::int64_t bunch = 32;
      for (std::int64_t begin = 0; begin < columns; begin += bunch) {
        const std::int64_t some = std::min(bunch, columns - begin);
        const std::byte* row = p[2] + begin * s[2];
        T best[bunch];
        std::int64_t where[bunch] = {};
        for (std::int64_t c = 0; c < some; ++c) best[c] = *at<T>(row + c * s[2]);
        for (std::int64_t i = 1; i < n; ++i) {
          for (std::int64_t c = 0; c < some; ++c) {
            const T v = at<T>(row + c * s[2])[i * stride];
            if (beats(largest, v, best[c])) {
              best[c] = v;
              where[c] = i;
            }
          }
        }
        for (std::int64_t c = 0; c < some; ++c) {
          *reinterpret_cast<T*>(p[0] + (begin + c) * s[0]) = best[c];
          *reinterpret_cast<std::int64_t*>(p[1] + (begin + c) * s[1]) = where[c];
        }
      }
    });
  });
}

void cumsum(const Tensor& x, int dim, Tensor& y) {
  const std::int64_t n = length(x, dim), x_step = step(x, dim), y_step = step(y, dim);
  if (x.numel() == 0) return;
  const Tensor from = starts(x, dim), to = starts(y, dim);
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    using R = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    using W = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
    for_each_row({&to, &from}, [&](std::byte* const* p, const std::int64_t* s, std::int64_t columns) {
      for (std::int64_t c = 0; c < columns; ++c) {
        R* out = reinterpret_cast<R*>(p[0] + c * s[0]);
        const T* in = at<T>(p[1] + c * s[1]);
        W total = 0;
        for (std::int64_t i = 0; i < n; ++i) out[i * y_step] = static_cast<R>(total += static_cast<W>(in[i * x_step]));
      }
    });
  });
}

}  // namespace spool::kernels::cpu
