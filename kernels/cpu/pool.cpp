// Pooling: f32 and bf16 run along the channels, which lie side by side; f64 runs the reference loops.
#include "spool/kernels/pool.h"

#include <cstring>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/pack.h"
#include "spool/kernels/ref/pool.h"

namespace spool::kernels::cpu {
namespace {

// Sizes of a channels-last pair of images: x the larger, y the pooled one.
struct Sizes {
  std::int64_t n, c, h, w, oh, ow;
  Sizes(const Tensor& x, const Tensor& y)
      : n(x.shape()[0]), c(x.shape()[1]), h(x.shape()[2]), w(x.shape()[3]), oh(y.shape()[2]), ow(y.shape()[3]) {}
};

// Rows of windows per piece of work, so that a piece is worth a thread.
std::int64_t row_grain(std::int64_t elements_per_row) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements_per_row));
}

// The taps of a window that lie inside of the image, as offsets from pixel (0, 0) and places in the window.
template <class F>
void for_each_tap(const PoolParams& p, const Sizes& s, std::int64_t i, std::int64_t j, const F& f) {
  for (std::int64_t u = 0; u < p.kernel.h; ++u) {
    const std::int64_t h = i * p.stride.h - p.padding.h + u * p.dilation.h;
    if (h < 0 || h >= s.h) continue;
    for (std::int64_t v = 0; v < p.kernel.w; ++v) {
      const std::int64_t w = j * p.stride.w - p.padding.w + v * p.dilation.w;
      if (w >= 0 && w < s.w) f((h * s.w + w) * s.c, u * p.kernel.w + v);
    }
  }
}

template <class I>
SPOOL_INLINE void store_places(const Pack<float>::Mask& places, I* to, std::int64_t n) {
  typedef I Narrow __attribute__((vector_size(16 * sizeof(I))));
  const Narrow narrow = __builtin_convertvector(places.m, Narrow);
  if (n == 16)
    std::memcpy(to, &narrow, sizeof narrow);
  else
    for (std::int64_t k = 0; k < n; ++k) to[k] = narrow[k];
}

template <class T, class I>
void max_forward(const Tensor& x, Tensor& y, Tensor& index, const PoolParams& p) {
  const Sizes s(x, y);
  const auto* xs = static_cast<const T*>(x.raw_data());
  auto* ys = static_cast<T*>(y.raw_data());
  auto* at = static_cast<I*>(index.raw_data());
  constexpr std::int64_t item = sizeof(T);
  parallel_for(s.n * s.oh, row_grain(s.ow * s.c), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* image = xs + row / s.oh * s.h * s.w * s.c;
      for (std::int64_t j = 0; j < s.ow; ++j) {
        const std::int64_t out = (row * s.ow + j) * s.c;
        for (std::int64_t c = 0; c < s.c; c += 16) {
          const std::int64_t n = std::min<std::int64_t>(16, s.c - c);
          Pack<float> best{};
          Pack<float>::Mask place{};
          bool first = true;
          for_each_tap(p, s, row % s.oh, j, [&](std::int64_t offset, std::int64_t tap) {
            const Pack<float> value = load<T>(reinterpret_cast<const std::byte*>(image + offset + c), item, n);
            const auto number = Pack<float>::Mask{}.m + static_cast<std::int32_t>(tap);
            // A NaN is not <= anything, and nothing displaces it.
            const auto wins = ~(value.v <= best.v) & (best.v == best.v);
            best.v = first ? value.v : (wins ? value.v : best.v);
            place.m = first ? number : (wins ? number : place.m);
            first = false;
          });
          store<T>(best, reinterpret_cast<std::byte*>(ys + out + c), item, n);
          store_places(place, at + out + c, n);
        }
      }
    }
  });
}

template <class T, class I>
void max_backward(const Tensor& gy, const Tensor& index, Tensor& gx, const PoolParams& p) {
  const Sizes s(gx, gy);
  const auto* gs = static_cast<const T*>(gy.raw_data());
  const auto* at = static_cast<const I*>(index.raw_data());
  auto* xs = static_cast<T*>(gx.raw_data());
  const bool tiles = p.kernel == p.stride && p.padding == Size2(0) && p.dilation == Size2(1) && s.oh * p.kernel.h <= s.h &&
                     s.ow * p.kernel.w <= s.w;
  if (tiles) {  // every pixel belongs to one window or none
    parallel_for(s.n * s.h, row_grain(s.w * s.c), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        T* out = xs + row * s.w * s.c;
        const std::int64_t h = row % s.h, i = h / p.kernel.h;
        const std::int64_t covered = i < s.oh ? s.ow * p.kernel.w : 0;
        for (std::int64_t w = 0; w < covered; ++w, out += s.c) {
          const std::int64_t window = ((row / s.h * s.oh + i) * s.ow + w / p.kernel.w) * s.c;
          const I place = static_cast<I>(h % p.kernel.h * p.kernel.w + w % p.kernel.w);
          const T* g = gs + window;
          const I* winner = at + window;
          for (std::int64_t c = 0; c < s.c; ++c) out[c] = winner[c] == place ? g[c] : T{};
        }
        std::fill_n(out, (s.w - covered) * s.c, T{});
      }
    });
    return;
  }
  // Windows may overlap: one image at a time, so that the order of additions is fixed.
  parallel_for(s.n, row_grain(s.h * s.w * s.c), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      T* image = xs + n * s.h * s.w * s.c;
      std::fill_n(image, s.h * s.w * s.c, T{});
      for (std::int64_t i = 0; i < s.oh; ++i)
        for (std::int64_t j = 0; j < s.ow; ++j) {
          const std::int64_t window = ((n * s.oh + i) * s.ow + j) * s.c;
          for_each_tap(p, s, i, j, [&](std::int64_t offset, std::int64_t tap) {
            const T* g = gs + window;
            const I* winner = at + window;
            T* out = image + offset;
            for (std::int64_t c = 0; c < s.c; ++c)
              out[c] = static_cast<T>(out[c] + (winner[c] == static_cast<I>(tap) ? g[c] : T{}));
          });
        }
    }
  });
}

// rows(i) and columns(j) give the ref::Range of a window.
template <class T, class Rows, class Columns>
void mean_forward(const Tensor& x, Tensor& y, const Rows& rows, const Columns& columns) {
  const Sizes s(x, y);
  const auto* xs = static_cast<const T*>(x.raw_data());
  auto* ys = static_cast<T*>(y.raw_data());
  constexpr std::int64_t item = sizeof(T);
  parallel_for(s.n * s.oh, row_grain(s.ow * s.c), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* image = xs + row / s.oh * s.h * s.w * s.c;
      const ref::Range r = rows(row % s.oh);
      for (std::int64_t j = 0; j < s.ow; ++j) {
        const ref::Range q = columns(j);
        const auto divisor = static_cast<float>(r.divisor * q.divisor);
        for (std::int64_t c = 0; c < s.c; c += 16) {
          const std::int64_t n = std::min<std::int64_t>(16, s.c - c);
          Pack<float> total{};
          for (std::int64_t h = r.begin; h < r.end; ++h) {  // a sum of row sums: long windows keep their digits
            Pack<float> sum{};
            for (std::int64_t w = q.begin; w < q.end; ++w)
              sum = sum + load<T>(reinterpret_cast<const std::byte*>(image + (h * s.w + w) * s.c + c), item, n);
            total = total + sum;
          }
          total.v /= divisor;
          store<T>(total, reinterpret_cast<std::byte*>(ys + (row * s.ow + j) * s.c + c), item, n);
        }
      }
    }
  });
}

template <class T, class Rows, class Columns>
void mean_backward(const Tensor& gy, Tensor& gx, const Rows& rows, const Columns& columns) {
  const Sizes s(gx, gy);
  const auto* gs = static_cast<const T*>(gy.raw_data());
  auto* xs = static_cast<T*>(gx.raw_data());
  parallel_for(s.n, row_grain(s.h * s.w * s.c), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      T* image = xs + n * s.h * s.w * s.c;
      std::fill_n(image, s.h * s.w * s.c, T{});
      for (std::int64_t i = 0; i < s.oh; ++i)
        for (std::int64_t j = 0; j < s.ow; ++j) {
          const ref::Range r = rows(i), q = columns(j);
          const float scale = 1 / static_cast<float>(r.divisor * q.divisor);
          const T* g = gs + ((n * s.oh + i) * s.ow + j) * s.c;
          for (std::int64_t h = r.begin; h < r.end; ++h)
            for (std::int64_t w = q.begin; w < q.end; ++w) {
              T* out = image + (h * s.w + w) * s.c;
              for (std::int64_t c = 0; c < s.c; ++c) out[c] = static_cast<T>(out[c] + g[c] * scale);
            }
        }
    }
  });
}

// f(type of the elements, type of the places)
template <class F>
void with_types(const Tensor& image, const Tensor& index, const F& f) {
  visit_floating(image.dtype(), [&]<class T>(TypeTag<T> type) {
    if (index.dtype() == DType::u8)
      f(type, TypeTag<std::uint8_t>{});
    else
      f(type, TypeTag<std::int32_t>{});
  });
}

struct AverageRows {
  std::int64_t size, kernel, stride, padding;
  bool include_pad;
  ref::Range operator()(std::int64_t i) const { return ref::average_range(i, size, kernel, stride, padding, include_pad); }
};
struct AdaptiveRows {
  std::int64_t size, outputs;
  ref::Range operator()(std::int64_t i) const { return ref::adaptive_range(i, size, outputs); }
};

template <class Rows>
void mean_pool(const Tensor& x, Tensor& y, const Rows& rows, const Rows& columns) {
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, double>)
      ref::mean_windows<T>(x, y, rows, columns);
    else
      mean_forward<T>(x, y, rows, columns);
  });
}
template <class Rows>
void mean_pool_backward(const Tensor& gy, Tensor& gx, const Rows& rows, const Rows& columns) {
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) {
    // Overlapping windows would round each partial sum to bf16.
    if constexpr (std::is_same_v<T, float>)
      mean_backward<T>(gy, gx, rows, columns);
    else
      ref::mean_windows_backward<T>(gy, gx, rows, columns);
  });
}

AverageRows rows_of(const Tensor& x, const PoolParams& p) {
  return {x.shape()[2], p.kernel.h, p.stride.h, p.padding.h, p.count_include_pad};
}
AverageRows columns_of(const Tensor& x, const PoolParams& p) {
  return {x.shape()[3], p.kernel.w, p.stride.w, p.padding.w, p.count_include_pad};
}

}  // namespace

void max_pool2d(const Tensor& x, Tensor& y, Tensor& index, const PoolParams& p) {
  with_types(y, index, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    if constexpr (std::is_same_v<T, double>)
      ref::max_pool2d<T, I>(x, y, index, p);
    else
      max_forward<T, I>(x, y, index, p);
  });
}

void max_pool2d_backward(const Tensor& gy, const Tensor& index, Tensor& gx, const PoolParams& p) {
  with_types(gx, index, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    if constexpr (std::is_same_v<T, float>)
      max_backward<T, I>(gy, index, gx, p);
    else
      ref::max_pool2d_backward<T, I>(gy, index, gx, p);
  });
}

void max_pool2d_gather(const Tensor& x, const Tensor& index, Tensor& y, const PoolParams& p) {
  with_types(y, index, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) { ref::max_pool2d_gather<T, I>(x, index, y, p); });
}

void avg_pool2d(const Tensor& x, Tensor& y, const PoolParams& p) { mean_pool(x, y, rows_of(x, p), columns_of(x, p)); }
void avg_pool2d_backward(const Tensor& gy, Tensor& gx, const PoolParams& p) {
  mean_pool_backward(gy, gx, rows_of(gx, p), columns_of(gx, p));
}
void adaptive_avg_pool2d(const Tensor& x, Tensor& y) {
  mean_pool(x, y, AdaptiveRows{x.shape()[2], y.shape()[2]}, AdaptiveRows{x.shape()[3], y.shape()[3]});
}
void adaptive_avg_pool2d_backward(const Tensor& gy, Tensor& gx) {
  mean_pool_backward(gy, gx, AdaptiveRows{gx.shape()[2], gy.shape()[2]}, AdaptiveRows{gx.shape()[3], gy.shape()[3]});
}

}  // namespace spool::kernels::cpu
