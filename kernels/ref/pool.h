// Pooling, as kernels/pool.h defines it, one output after the other.
#pragma once
#include <algorithm>

#include "spool/kernels/pool.h"
#include "spool/kernels/ref/view.h"

namespace spool::kernels::ref {

// Calls f(n, c, i, j) for every element of an image.
template <class F>
void for_each_pixel(const Tensor& t, const F& f) {
  const Shape& s = t.shape();
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t c = 0; c < s[1]; ++c)
      for (std::int64_t i = 0; i < s[2]; ++i)
        for (std::int64_t j = 0; j < s[3]; ++j) f(n, c, i, j);
}

template <class T, class I>
void max_pool2d(const Tensor& x, Tensor& y, Tensor& index, const PoolParams& p) {
  const View<const T> xs(x);
  const View<T> ys(y);
  const View<I> at(index);
  for_each_pixel(y, [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    T best{};
    std::int64_t place = -1;
    for (std::int64_t u = 0; u < p.kernel.h; ++u)
      for (std::int64_t v = 0; v < p.kernel.w; ++v) {
        const std::int64_t h = i * p.stride.h - p.padding.h + u * p.dilation.h,
                           w = j * p.stride.w - p.padding.w + v * p.dilation.w;
        if (h < 0 || h >= x.shape()[2] || w < 0 || w >= x.shape()[3]) continue;
        const T value = xs(n, c, h, w);
        if (place < 0 || (!(value <= best) && best == best)) {  // a NaN is not <= anything, and nothing displaces it
          best = value;
          place = u * p.kernel.w + v;
        }
      }
    ys(n, c, i, j) = best;
    at(n, c, i, j) = static_cast<I>(place);
  });
}

template <class T, class I>
void max_pool2d_backward(const Tensor& gy, const Tensor& index, Tensor& gx, const PoolParams& p) {
  const View<const T> gs(gy);
  const View<const I> at(index);
  const View<T> xs(gx);
  for_each_pixel(gx, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    double sum = 0;
    for (std::int64_t u = 0; u < p.kernel.h; ++u)
      for (std::int64_t v = 0; v < p.kernel.w; ++v) {
        const std::int64_t i = h + p.padding.h - u * p.dilation.h, j = w + p.padding.w - v * p.dilation.w;
        if (i < 0 || j < 0 || i % p.stride.h || j % p.stride.w) continue;
        const std::int64_t oi = i / p.stride.h, oj = j / p.stride.w;
        if (oi < gy.shape()[2] && oj < gy.shape()[3] && at(n, c, oi, oj) == static_cast<I>(u * p.kernel.w + v))
          sum += static_cast<double>(gs(n, c, oi, oj));
      }
    xs(n, c, h, w) = static_cast<T>(sum);
  });
}

template <class T, class I>
void max_pool2d_gather(const Tensor& x, const Tensor& index, Tensor& y, const PoolParams& p) {
  const View<const T> xs(x);
  const View<const I> at(index);
  const View<T> ys(y);
  for_each_pixel(y, [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    const std::int64_t place = at(n, c, i, j);
    ys(n, c, i, j) = xs(n, c, i * p.stride.h - p.padding.h + place / p.kernel.w * p.dilation.h,
                        j * p.stride.w - p.padding.w + place % p.kernel.w * p.dilation.w);
  });
}

// The part of one dimension that a window covers, and by what its mean is divided.
struct Range {
  std::int64_t begin, end, divisor;
};
inline Range average_range(std::int64_t i, std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                           bool include_pad) {
  const std::int64_t from = i * stride - padding, to = std::min(from + kernel, size + padding);
  const std::int64_t begin = std::max<std::int64_t>(from, 0), end = std::min(to, size);
  return {begin, end, include_pad ? to - from : end - begin};
}
inline Range adaptive_range(std::int64_t i, std::int64_t size, std::int64_t outputs) {
  const std::int64_t begin = i * size / outputs, end = ((i + 1) * size + outputs - 1) / outputs;
  return {begin, end, end - begin};
}

// rows(i) and columns(j) give the Range of a window.
template <class T, class Rows, class Columns>
void mean_windows(const Tensor& x, Tensor& y, const Rows& rows, const Columns& columns) {
  const View<const T> xs(x);
  const View<T> ys(y);
  for_each_pixel(y, [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    const Range r = rows(i), q = columns(j);
    double sum = 0;
    for (std::int64_t h = r.begin; h < r.end; ++h)
      for (std::int64_t w = q.begin; w < q.end; ++w) sum += static_cast<double>(xs(n, c, h, w));
    ys(n, c, i, j) = static_cast<T>(sum / static_cast<double>(r.divisor * q.divisor));
  });
}

template <class T, class Rows, class Columns>
void mean_windows_backward(const Tensor& gy, Tensor& gx, const Rows& rows, const Columns& columns) {
  const View<const T> gs(gy);
  const View<T> xs(gx);
  for_each_pixel(gx, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    double sum = 0;
    for (std::int64_t i = 0; i < gy.shape()[2]; ++i) {
      const Range r = rows(i);
      if (h < r.begin || h >= r.end) continue;
      for (std::int64_t j = 0; j < gy.shape()[3]; ++j) {
        const Range q = columns(j);
        if (w >= q.begin && w < q.end) sum += static_cast<double>(gs(n, c, i, j)) / static_cast<double>(r.divisor * q.divisor);
      }
    }
    xs(n, c, h, w) = static_cast<T>(sum);
  });
}

}  // namespace spool::kernels::ref
