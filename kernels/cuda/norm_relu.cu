// Batch norm with ReLU and max-pooling: the forward pass reads x once and writes the result; the backward pass first sums over what came through (of a pool, only the maxima),
// then writes the gradient of x.
#include "spool/kernels/norm_relu.h"

#include "spool/kernels/cuda/image.cuh"
#include "spool/kernels/cuda/moments.cuh"

namespace spool::kernels::cuda {
namespace {

// As select(), but NaN passes.
template <class S>
__device__ S relu(S v) {
  return v <= S(0) ? S(0) : v;
}

// Whether y = normal * weight + bias of this channel can be solved for `normal` without losing digits; bf16 has none to lose.
template <class T, class S>
__device__ bool solvable(const ChannelNorm<S>& norm, std::int64_t c) {
  const double w = ::fabs(static_cast<double>(norm.weight_of(c))), b = ::fabs(static_cast<double>(norm.bias_of(c)));
  return !std::is_same_v<T, bfloat16> && w >= 1e-3 && b <= 8 * w;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_relu_kernel(const T* x, const T* residual, Channels shape, ChannelNorm<accumulate_t<T>> norm, T* y) {
  using S = accumulate_t<T>;
  const std::int64_t n = shape.count() * shape.channels;
  for (std::int64_t i = first_index(); i < n; i += index_step()) {
    S value = norm(static_cast<S>(x[i]), i / shape.inner % shape.channels);
    if (residual) value += static_cast<S>(residual[i]);
    y[i] = static_cast<T>(relu(value));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_relu_sums_kernel(const T* x, const T* y, const T* g, Channels shape, ChannelNorm<accumulate_t<T>> norm, bool plain,
                          ChannelSums<accumulate_t<T>> out, Pair* scratch, unsigned* tickets) {
  using S = accumulate_t<T>;
  const std::int64_t c = channel_of_thread();
  const bool from_y = c < shape.channels && plain && solvable<T>(norm, c);
  Pair total{};
  if (over_channel(shape, total, scratch, tickets, [&](Pair& part, std::int64_t i) {
        const std::int64_t at = shape.at(i, c);
        if (y[at] <= T(0)) return;
        const double d = static_cast<double>(g[at]);
        const S normal =
            from_y ? (static_cast<S>(y[at]) - norm.bias_of(c)) / norm.weight_of(c) : norm.normal(static_cast<S>(x[at]), c);
        part.sum += d;
        part.dot += d * static_cast<double>(normal);
      }))
    out.store(c, total);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_relu_backward_kernel(const T* x, const T* y, const T* g, Channels shape, ChannelNorm<accumulate_t<T>> norm,
                              const Pair* sums, bool training, T* gx, T* gresidual) {
  using S = accumulate_t<T>;
  const std::int64_t n = shape.count() * shape.channels;
  const double count = static_cast<double>(shape.count());
  for (std::int64_t i = first_index(); i < n; i += index_step()) {
    const T passed = y[i] <= T(0) ? T(0) : g[i];
    if (gresidual) gresidual[i] = passed;
    if (gx)
      gx[i] = static_cast<T>(
          norm.gradient(static_cast<S>(passed), static_cast<S>(x[i]), i / shape.inner % shape.channels, training, sums, count));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) norm_relu_pool_kernel(const T* x, Image in, ChannelNorm<accumulate_t<T>> norm,
                                                                  Size2 kernel, T* y, std::uint8_t* index, Image out) {
  using S = accumulate_t<T>;
  for (std::int64_t i = first_index(); i < out.numel(); i += index_step()) {
    const Pixel o(out, i);
    S best{};
    int place = -1;
    for (int u = 0; u < kernel.h; ++u)
      for (int v = 0; v < kernel.w; ++v) {
        // Rounded as an operation of its own would have, so that the maximum is the same.
        const S value = static_cast<S>(
            static_cast<T>(relu(norm(static_cast<S>(x[in.at(o.n, o.c, o.h * kernel.h + u, o.w * kernel.w + v)]), o.c))));
        if (place < 0 || (!(value <= best) && best == best)) {
          best = value;
          place = u * static_cast<int>(kernel.w) + v;
        }
      }
    y[i] = static_cast<T>(best);
    index[i] = best <= S(0) ? kNoMaximum : static_cast<std::uint8_t>(place);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_relu_pool_sums_kernel(const T* x, Image in, const T* y, const std::uint8_t* index, const T* g, Channels shape,
                               ChannelNorm<accumulate_t<T>> norm, Size2 kernel, Image pooled, ChannelSums<accumulate_t<T>> out,
                               Pair* scratch, unsigned* tickets) {
  using S = accumulate_t<T>;
  const std::int64_t c = channel_of_thread();
  const bool from_y = c < shape.channels && solvable<T>(norm, c);
  Pair total{};
  if (over_channel(shape, total, scratch, tickets, [&](Pair& part, std::int64_t i) {
        const std::int64_t at = shape.at(i, c);
        const std::int64_t place = index[at];
        if (place == kNoMaximum) return;
        S normal;
        if (from_y) {
          normal = (static_cast<S>(y[at]) - norm.bias_of(c)) / norm.weight_of(c);
        } else {
          const Pixel o(pooled, at);
          normal = norm.normal(
              static_cast<S>(x[in.at(o.n, c, o.h * kernel.h + place / kernel.w, o.w * kernel.w + place % kernel.w)]), c);
        }
        const double d = static_cast<double>(g[at]);
        part.sum += d;
        part.dot += d * static_cast<double>(normal);
      }))
    out.store(c, total);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_relu_pool_backward_kernel(const T* x, Image in, const std::uint8_t* index, const T* g, Image pooled,
                                   ChannelNorm<accumulate_t<T>> norm, Size2 kernel, const Pair* sums, bool training, T* gx) {
  using S = accumulate_t<T>;
  const double count = static_cast<double>(in.n * in.h * in.w);
  for (std::int64_t i = first_index(); i < in.numel(); i += index_step()) {
    const Pixel p(in, i);
    const std::int64_t h = p.h / kernel.h, w = p.w / kernel.w;
    S passed = 0;
    if (h < pooled.h && w < pooled.w) {
      const std::int64_t at = pooled.at(p.n, p.c, h, w);
      if (index[at] == p.h % kernel.h * kernel.w + p.w % kernel.w) passed = static_cast<S>(g[at]);
    }
    gx[i] = static_cast<T>(norm.gradient(passed, static_cast<S>(x[i]), p.c, training, sums, count));
  }
}

}  // namespace

void batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& mean, const Tensor& inv_std, const Tensor& weight,
                     const Tensor& bias, Tensor& y) {
  if (x.numel() == 0) return;
  Context& c = begin("batch_norm_relu", {&x, &residual, &mean, &inv_std, &weight, &bias, &y});
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, norm_relu_kernel<T>, grid_for(c, x.numel()), kThreads, data<const T>(x), data<const T>(residual), Channels(x),
           ChannelNorm<accumulate_t<T>>(mean, inv_std, weight, bias), data<T>(y));
  });
}

void batch_norm_relu_backward(const Tensor& x, const Tensor& y, const Tensor& gy, const Tensor& weight, const Tensor& bias,
                              const Tensor& mean, const Tensor& inv_std, bool training, bool plain, Tensor& gx, Tensor& gw,
                              Tensor& gb, Tensor& gresidual) {
  const Channels shape(x);
  if (shape.channels == 0) return;
  const Scratch sums(spool::cuda::context(x), static_cast<std::size_t>(shape.channels) * sizeof(Pair));
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    const ChannelNorm<S> norm(mean, inv_std, weight, bias);
    if (training || gw.defined() || gb.defined()) {
      Context& c =
          begin("batch_norm_relu", {plain && !std::is_same_v<T, bfloat16> ? &y : &x, &y, &gy, &mean, &inv_std, &gw, &gb});
      const ChannelPlan plan = plan_channels(c, shape);
      const Scratch scratch(c, plan.scratch * sizeof(Pair));
      launch(c, norm_relu_sums_kernel<T>, plan.grid, plan.block, data<const T>(x), data<const T>(y), data<const T>(gy), shape,
             norm, plain, ChannelSums<S>{sums.as<Pair>(), data<S>(gw), data<S>(gb)}, scratch.as<Pair>(), c.tickets);
    }
    if ((!gx.defined() && !gresidual.defined()) || x.numel() == 0) return;
    Context& c = begin("batch_norm_relu", {&x, &y, &gy, &mean, &inv_std, &weight, &gx, &gresidual});
    launch(c, norm_relu_backward_kernel<T>, grid_for(c, x.numel()), kThreads, data<const T>(x), data<const T>(y),
           data<const T>(gy), shape, norm, sums.as<const Pair>(), training, data<T>(gx), data<T>(gresidual));
  });
}

void batch_norm_relu_pool(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias,
                          Size2 kernel, Tensor& y, Tensor& index) {
  if (y.numel() == 0) return;
  Context& c = begin("batch_norm_relu_max_pool2d", {&x, &mean, &inv_std, &weight, &bias, &y, &index});
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, norm_relu_pool_kernel<T>, grid_for(c, y.numel()), kThreads, data<const T>(x), Image(x),
           ChannelNorm<accumulate_t<T>>(mean, inv_std, weight, bias), kernel, data<T>(y), data<std::uint8_t>(index), Image(y));
  });
}

void batch_norm_relu_pool_backward(const Tensor& x, const Tensor& y, const Tensor& index, const Tensor& gy, const Tensor& weight,
                                   const Tensor& bias, const Tensor& mean, const Tensor& inv_std, bool training, Size2 kernel,
                                   Tensor& gx, Tensor& gw, Tensor& gb) {
  const Channels shape(y);  // the sums run over the maxima
  if (shape.channels == 0) return;
  const Scratch sums(spool::cuda::context(x), static_cast<std::size_t>(shape.channels) * sizeof(Pair));
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    const ChannelNorm<S> norm(mean, inv_std, weight, bias);
    if (training || gw.defined() || gb.defined()) {
      Context& c = begin("batch_norm_relu_max_pool2d", {&y, &index, &gy, &mean, &inv_std, &gw, &gb});
      const ChannelPlan plan = plan_channels(c, shape);
      const Scratch scratch(c, plan.scratch * sizeof(Pair));
      launch(c, norm_relu_pool_sums_kernel<T>, plan.grid, plan.block, data<const T>(x), Image(x), data<const T>(y),
             data<const std::uint8_t>(index), data<const T>(gy), shape, norm, kernel, Image(y),
             ChannelSums<S>{sums.as<Pair>(), data<S>(gw), data<S>(gb)}, scratch.as<Pair>(), c.tickets);
    }
    if (!gx.defined() || x.numel() == 0) return;
    Context& c = begin("batch_norm_relu_max_pool2d", {&x, &index, &gy, &mean, &inv_std, &weight, &gx});
    launch(c, norm_relu_pool_backward_kernel<T>, grid_for(c, x.numel()), kThreads, data<const T>(x), Image(x),
           data<const std::uint8_t>(index), data<const T>(gy), Image(y), norm, kernel, sums.as<const Pair>(), training,
           data<T>(gx));
  });
}

}  // namespace spool::kernels::cuda
