// Pooling: a thread for each output, neighbours along the channels, which lie side by side. Gradients are gathered, so that overlapping windows add up in one order.
//
// These are kernels of our own because cuDNN's pooling does not say where a maximum was: one byte for each output instead of keeping x and y.
#include "spool/kernels/pool.h"

#include "spool/kernels/cuda/image.cuh"

namespace spool::kernels::cuda {
namespace {

template <class T>
using compare_t = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

template <class T, class I>
__global__ void __launch_bounds__(kThreads) max_pool_kernel(const T* x, Image in, T* y, I* index, Image out, PoolParams p) {
  for (std::int64_t i = first_index(); i < out.numel(); i += index_step()) {
    const Pixel o(out, i);
    compare_t<T> best{};
    std::int64_t place = -1;
    for (std::int64_t u = 0; u < p.kernel.h; ++u) {
      const std::int64_t h = o.h * p.stride.h - p.padding.h + u * p.dilation.h;
      if (h < 0 || h >= in.h) continue;
      for (std::int64_t v = 0; v < p.kernel.w; ++v) {
        const std::int64_t w = o.w * p.stride.w - p.padding.w + v * p.dilation.w;
        if (w < 0 || w >= in.w) continue;
        const auto value = static_cast<compare_t<T>>(x[in.at(o.n, o.c, h, w)]);
        if (place < 0 || (!(value <= best) && best == best)) {  // a NaN is not <= anything, and nothing displaces it
          best = value;
          place = u * p.kernel.w + v;
        }
      }
    }
    y[i] = static_cast<T>(best);
    index[i] = static_cast<I>(place);
  }
}

// The windows of one dimension that can hold position `at`: with tap = 0 the last of them.
struct Windows {
  std::int64_t first, last;
  SPOOL_HD Windows(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                   std::int64_t count) {
    const std::int64_t reach = dilation * (kernel - 1), begin = at + padding - reach;
    first = begin <= 0 ? 0 : (begin + stride - 1) / stride;
    last = (at + padding) / stride;
    if (last >= count) last = count - 1;
  }
};

template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    max_pool_backward_kernel(const T* g, const I* index, Image out, T* gx, Image in, PoolParams p) {
  for (std::int64_t i = first_index(); i < in.numel(); i += index_step()) {
    const Pixel x(in, i);
    const Windows rows(x.h, p.kernel.h, p.stride.h, p.padding.h, p.dilation.h, out.h),
        columns(x.w, p.kernel.w, p.stride.w, p.padding.w, p.dilation.w, out.w);
    accumulate_t<T> sum = 0;
    for (std::int64_t r = rows.first; r <= rows.last; ++r) {
      const std::int64_t u = x.h + p.padding.h - r * p.stride.h;
      if (u % p.dilation.h) continue;
      for (std::int64_t c = columns.first; c <= columns.last; ++c) {
        const std::int64_t v = x.w + p.padding.w - c * p.stride.w;
        if (v % p.dilation.w) continue;
        const std::int64_t at = out.at(x.n, x.c, r, c);
        if (index[at] == static_cast<I>(u / p.dilation.h * p.kernel.w + v / p.dilation.w))
          sum += static_cast<accumulate_t<T>>(g[at]);
      }
    }
    gx[i] = static_cast<T>(sum);
  }
}

template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    max_pool_gather_kernel(const T* x, Image in, const I* index, T* y, Image out, PoolParams p) {
  for (std::int64_t i = first_index(); i < out.numel(); i += index_step()) {
    const Pixel o(out, i);
    const std::int64_t place = index[i];
    y[i] = x[in.at(o.n, o.c, o.h * p.stride.h - p.padding.h + place / p.kernel.w * p.dilation.h,
                   o.w * p.stride.w - p.padding.w + place % p.kernel.w * p.dilation.w)];
  }
}

// The part of one dimension that a window covers, and by what its mean is divided.
struct Range {
  std::int64_t begin, end, divisor;
};

struct AverageWindows {
  std::int64_t size, kernel, stride, padding, count;
  bool include_pad;
  SPOOL_HD Range operator()(std::int64_t i) const {
    const std::int64_t from = i * stride - padding, to = from + kernel < size + padding ? from + kernel : size + padding;
    const std::int64_t first = from > 0 ? from : 0, end = to < size ? to : size;
    return {first, end, include_pad ? to - from : end - first};
  }
  SPOOL_HD std::int64_t first_with(std::int64_t at) const { return Windows(at, kernel, stride, padding, 1, count).first; }
};
struct AdaptiveWindows {
  std::int64_t size, count;
  SPOOL_HD Range operator()(std::int64_t i) const {
    const std::int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
    return {begin, end, end - begin};
  }
  // Windows begin in ascending order; the one before i * count / size cannot reach it.
  SPOOL_HD std::int64_t first_with(std::int64_t at) const {
    const std::int64_t guess = at * count / size;
    return guess > 0 ? guess - 1 : 0;
  }
};

template <class T, class W>
__global__ void __launch_bounds__(kThreads) mean_pool_kernel(const T* x, Image in, T* y, Image out, W rows, W columns) {
  for (std::int64_t i = first_index(); i < out.numel(); i += index_step()) {
    const Pixel o(out, i);
    const Range r = rows(o.h), c = columns(o.w);
    accumulate_t<T> total = 0;
    for (std::int64_t h = r.begin; h < r.end; ++h) {
      accumulate_t<T> sum = 0;
      for (std::int64_t w = c.begin; w < c.end; ++w) sum += static_cast<accumulate_t<T>>(x[in.at(o.n, o.c, h, w)]);
      total += sum;
    }
    y[i] = static_cast<T>(total / static_cast<accumulate_t<T>>(r.divisor * c.divisor));
  }
}

template <class T, class W>
__global__ void __launch_bounds__(kThreads) mean_pool_backward_kernel(const T* g, Image out, T* gx, Image in, W rows, W columns) {
  for (std::int64_t i = first_index(); i < in.numel(); i += index_step()) {
    const Pixel x(in, i);
    accumulate_t<T> sum = 0;
    for (std::int64_t a = rows.first_with(x.h); a < out.h; ++a) {
      const Range r = rows(a);
      if (r.begin > x.h) break;
      if (x.h >= r.end) continue;
      for (std::int64_t b = columns.first_with(x.w); b < out.w; ++b) {
        const Range c = columns(b);
        if (c.begin > x.w) break;
        if (x.w >= c.end) continue;
        sum += static_cast<accumulate_t<T>>(g[out.at(x.n, x.c, a, b)]) / static_cast<accumulate_t<T>>(r.divisor * c.divisor);
      }
    }
    gx[i] = static_cast<T>(sum);
  }
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

template <class W>
void mean_pool(const Tensor& x, Tensor& y, const W& rows, const W& columns) {
  if (y.numel() == 0) return;
  Context& c = begin("avg_pool2d", {&x, &y});
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, mean_pool_kernel<T, W>, grid_for(c, y.numel()), kThreads, data<const T>(x), Image(x), data<T>(y), Image(y), rows,
           columns);
  });
}
template <class W>
void mean_pool_backward(const Tensor& gy, Tensor& gx, const W& rows, const W& columns) {
  if (gx.numel() == 0) return;
  Context& c = begin("avg_pool2d", {&gy, &gx});
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, mean_pool_backward_kernel<T, W>, grid_for(c, gx.numel()), kThreads, data<const T>(gy), Image(gy), data<T>(gx),
           Image(gx), rows, columns);
  });
}

AverageWindows rows_of(const Tensor& x, const Tensor& y, const PoolParams& p) {
  return {x.shape()[2], p.kernel.h, p.stride.h, p.padding.h, y.shape()[2], p.count_include_pad};
}
AverageWindows columns_of(const Tensor& x, const Tensor& y, const PoolParams& p) {
  return {x.shape()[3], p.kernel.w, p.stride.w, p.padding.w, y.shape()[3], p.count_include_pad};
}

}  // namespace

void max_pool2d(const Tensor& x, Tensor& y, Tensor& index, const PoolParams& p) {
  if (y.numel() == 0) return;
  Context& c = begin("max_pool2d", {&x, &y, &index});
  with_types(y, index, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    launch(c, max_pool_kernel<T, I>, grid_for(c, y.numel()), kThreads, data<const T>(x), Image(x), data<T>(y), data<I>(index),
           Image(y), p);
  });
}

void max_pool2d_backward(const Tensor& gy, const Tensor& index, Tensor& gx, const PoolParams& p) {
  if (gx.numel() == 0) return;
  Context& c = begin("max_pool2d", {&gy, &index, &gx});
  with_types(gx, index, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    launch(c, max_pool_backward_kernel<T, I>, grid_for(c, gx.numel()), kThreads, data<const T>(gy), data<const I>(index),
           Image(gy), data<T>(gx), Image(gx), p);
  });
}

void max_pool2d_gather(const Tensor& x, const Tensor& index, Tensor& y, const PoolParams& p) {
  if (y.numel() == 0) return;
  Context& c = begin("max_pool2d", {&y, &index, &y});
  with_types(y, index, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    launch(c, max_pool_gather_kernel<T, I>, grid_for(c, y.numel()), kThreads, data<const T>(x), Image(x), data<const I>(index),
           data<T>(y), Image(y), p);
  });
}

void avg_pool2d(const Tensor& x, Tensor& y, const PoolParams& p) { mean_pool(x, y, rows_of(x, y, p), columns_of(x, y, p)); }
void avg_pool2d_backward(const Tensor& gy, Tensor& gx, const PoolParams& p) {
  mean_pool_backward(gy, gx, rows_of(gx, gy, p), columns_of(gx, gy, p));
}
void adaptive_avg_pool2d(const Tensor& x, Tensor& y) {
  mean_pool(x, y, AdaptiveWindows{x.shape()[2], y.shape()[2]}, AdaptiveWindows{x.shape()[3], y.shape()[3]});
}
void adaptive_avg_pool2d_backward(const Tensor& gy, Tensor& gx) {
  mean_pool_backward(gy, gx, AdaptiveWindows{gx.shape()[2], gy.shape()[2]}, AdaptiveWindows{gx.shape()[3], gy.shape()[3]});
}

}  // namespace spool::kernels::cuda
