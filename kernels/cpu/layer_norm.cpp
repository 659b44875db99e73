// Layer norm for f32 and bf16, a row at a time; f64 runs the reference loops.
#include <cmath>
#include <vector>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/pack.h"
#include "spool/kernels/norm.h"
#include "spool/kernels/ref/norm.h"

namespace spool::kernels::cpu {
namespace {

using Lanes = Pack<float>;

template <class T>
SPOOL_INLINE Lanes load16(const T* p, std::int64_t n) {
  return load<T>(reinterpret_cast<const std::byte*>(p), sizeof(T), n);
}

// The sum of f(i, lanes) over a row, where f gives 16 terms from element i on; those beyond the row are dropped. In f32 over 1024 elements, in double beyond.
template <class F>
double row_sum(std::int64_t d, const F& f) {
  double total = 0;
  for (std::int64_t block = 0; block < d; block += 1024) {
    const std::int64_t end = std::min(block + 1024, d);
    Lanes sum{};
    std::int64_t i = block;
    for (; i + 16 <= end; i += 16) sum = sum + f(i, 16);
    for (int k = 0; k < 16; ++k) total += static_cast<double>(sum.v[k]);
    if (i < end) {
      const Lanes last = f(i, end - i);
      for (int k = 0; k < end - i; ++k) total += static_cast<double>(last.v[k]);
    }
  }
  return total;
}

// Calls f(i, lanes) along a row.
template <class F>
void along_row(std::int64_t d, const F& f) {
  std::int64_t i = 0;
  for (; i + 16 <= d; i += 16) f(i, std::int64_t{16});
  if (i < d) f(i, d - i);
}

SPOOL_INLINE Lanes all(double value) { return {Lanes::Vector{} + static_cast<float>(value)}; }

std::int64_t row_grain(std::int64_t d) { return std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, d)); }

const float* optional(const Tensor& t) { return t.defined() ? static_cast<const float*>(t.raw_data()) : nullptr; }

template <class T>
void forward_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y, Tensor& mean,
                  Tensor& inv_std) {
  const std::int64_t d = x.shape()[1];
  const auto* xs = static_cast<const T*>(x.raw_data());
  auto* ys = static_cast<T*>(y.raw_data());
  auto *means = static_cast<float*>(mean.raw_data()), *inverses = static_cast<float*>(inv_std.raw_data());
  const float *w = optional(weight), *b = optional(bias);
  parallel_for(x.shape()[0], row_grain(d), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = xs + r * d;
      T* out = ys + r * d;
      const Lanes m =
          all(row_sum(d, [&](std::int64_t i, std::int64_t n) { return load16(row + i, n); }) / static_cast<double>(d));
      const double squares = row_sum(d, [&](std::int64_t i, std::int64_t n) {
        const Lanes t = load16(row + i, n) - m;
        return t * t;
      });
      const Lanes s = all(1 / std::sqrt(squares / static_cast<double>(d) + eps));
      means[r] = m.v[0];
      inverses[r] = s.v[0];
      along_row(d, [&](std::int64_t i, std::int64_t n) {
        Lanes t = (load16(row + i, n) - m) * s;
        if (w) t = t * load16(w + i, n);
        if (b) t = t + load16(b + i, n);
        store<T>(t, reinterpret_cast<std::byte*>(out + i), sizeof(T), n);
      });
    }
  });
}

template <class T>
void backward_rows(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std, Tensor& gx,
                   Tensor& gw, Tensor& gb) {
  const std::int64_t rows = x.shape()[0], d = x.shape()[1];
  const auto *xs = static_cast<const T*>(x.raw_data()), *gs = static_cast<const T*>(gy.raw_data());
  const auto *means = static_cast<const float*>(mean.raw_data()), *inverses = static_cast<const float*>(inv_std.raw_data());
  const float* w = optional(weight);
  if (gx.defined()) {
    auto* out = static_cast<T*>(gx.raw_data());
    parallel_for(rows, row_grain(d), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T *row = xs + r * d, *g = gs + r * d;
        const Lanes m = all(static_cast<double>(means[r])), s = all(static_cast<double>(inverses[r]));
        const auto weighted = [&](std::int64_t i, std::int64_t n) {
          return w ? load16(g + i, n) * load16(w + i, n) : load16(g + i, n);
        };
        const auto normal = [&](std::int64_t i, std::int64_t n) { return (load16(row + i, n) - m) * s; };
        const Lanes sum = all(row_sum(d, weighted) / static_cast<double>(d));
        const Lanes dot = all(row_sum(d, [&](std::int64_t i, std::int64_t n) { return weighted(i, n) * normal(i, n); }) /
                              static_cast<double>(d));
        along_row(d, [&](std::int64_t i, std::int64_t n) {
          store<T>(s * (weighted(i, n) - sum - normal(i, n) * dot), reinterpret_cast<std::byte*>(out + r * d + i), sizeof(T), n);
        });
      }
    });
  }
  if (!gw.defined() && !gb.defined()) return;
  // Columns, shared among the threads, so that each sum has one order.
  parallel_for(d, std::max<std::int64_t>(16, 16384 / std::max<std::int64_t>(1, rows)), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(static_cast<std::size_t>(end - begin)), dots(sums);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T *row = xs + r * d + begin, *g = gs + r * d + begin;
      const float m = means[r], s = inverses[r];
      double *ps = sums.data(), *pd = dots.data();
      for (std::int64_t i = 0; i < end - begin; ++i) {
        const auto gi = static_cast<float>(g[i]);
        ps[i] += static_cast<double>(gi);
        pd[i] += static_cast<double>(gi * ((static_cast<float>(row[i]) - m) * s));
      }
    }
    for (std::int64_t i = begin; i < end; ++i) {
      ref::set_item<float>(gb, i, sums[static_cast<std::size_t>(i - begin)]);
      ref::set_item<float>(gw, i, dots[static_cast<std::size_t>(i - begin)]);
    }
  });
}

}  // namespace

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& inv_std) {
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, double>)
      ref::layer_norm<T>(x, weight, bias, eps, y, mean, inv_std);
    else
      forward_rows<T>(x, weight, bias, eps, y, mean, inv_std);
  });
}

void layer_norm_backward(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                         Tensor& gx, Tensor& gw, Tensor& gb) {
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, double>)
      ref::layer_norm_backward<T>(x, gy, weight, mean, inv_std, gx, gw, gb);
    else
      backward_rows<T>(x, gy, weight, mean, inv_std, gx, gw, gb);
  });
}

}  // namespace spool::kernels::cpu
