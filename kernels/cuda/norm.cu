// Batch norm: statistics in one pass over x, then the values in another; backward likewise.
#include "spool/kernels/norm.h"

#include "spool/kernels/cuda/moments.cuh"

namespace spool::kernels::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    batch_norm_apply_kernel(const T* x, Channels shape, ChannelNorm<accumulate_t<T>> norm, T* y) {
  const std::int64_t n = shape.count() * shape.channels;
  for (std::int64_t i = first_index(); i < n; i += index_step())
    y[i] = static_cast<T>(norm(static_cast<accumulate_t<T>>(x[i]), i / shape.inner % shape.channels));
}

// Sums of g and of g times the normalised x.
template <class T>
__global__ void __launch_bounds__(kThreads)
    batch_norm_sums_kernel(const T* x, const T* g, Channels shape, ChannelNorm<accumulate_t<T>> norm,
                           ChannelSums<accumulate_t<T>> out, Pair* scratch, unsigned* tickets) {
  using S = accumulate_t<T>;
  const std::int64_t c = channel_of_thread();
  Pair total{};
  if (over_channel(shape, total, scratch, tickets, [&](Pair& part, std::int64_t i) {
        const std::int64_t at = shape.at(i, c);
        const double d = static_cast<double>(g[at]);
        part.sum += d;
        part.dot += d * static_cast<double>(norm.normal(static_cast<S>(x[at]), c));
      }))
    out.store(c, total);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    batch_norm_backward_kernel(const T* x, const T* g, Channels shape, ChannelNorm<accumulate_t<T>> norm, const Pair* sums,
                               bool training, T* gx) {
  using S = accumulate_t<T>;
  const std::int64_t n = shape.count() * shape.channels;
  const double count = static_cast<double>(shape.count());
  for (std::int64_t i = first_index(); i < n; i += index_step())
    gx[i] = static_cast<T>(
        norm.gradient(static_cast<S>(g[i]), static_cast<S>(x[i]), i / shape.inner % shape.channels, training, sums, count));
}

}  // namespace

void batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias,
                      Tensor& y) {
  if (x.numel() == 0) return;
  Context& c = begin("batch_norm", {&x, &mean, &inv_std, &weight, &bias, &y});
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, batch_norm_apply_kernel<T>, grid_for(c, x.numel()), kThreads, data<const T>(x), Channels(x),
           ChannelNorm<accumulate_t<T>>(mean, inv_std, weight, bias), data<T>(y));
  });
}

void batch_norm_stats(const Tensor& x, Tensor& running_mean, Tensor& running_var, double momentum, double eps, Tensor& mean,
                      Tensor& inv_std) {
  if (x.numel() == 0) return;
  Context& c = begin("batch_norm", {&x, &running_mean, &running_var, &mean, &inv_std});
  const Channels shape(x);
  const ChannelPlan plan = plan_channels(c, shape);
  const Scratch scratch(c, plan.scratch * sizeof(Moments));
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    launch(c, moments_kernel<T>, plan.grid, plan.block, data<const T>(x), shape, eps, data<S>(mean), data<S>(inv_std),
           RunningStatistics<S>{data<S>(running_mean), data<S>(running_var), momentum}, scratch.as<Moments>(), c.tickets);
  });
}

void batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var,
                      double momentum, double eps, Tensor& y, Tensor& mean, Tensor& inv_std) {
  batch_norm_stats(x, running_mean, running_var, momentum, eps, mean, inv_std);
  batch_norm_apply(x, mean, inv_std, weight, bias, y);
}

void batch_norm_backward(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                         bool training, Tensor& gx, Tensor& gw, Tensor& gb) {
  const Channels shape(x);
  if (shape.channels == 0) return;
  const bool summed = training || gw.defined() || gb.defined();
  Context& device = spool::cuda::context(x);
  const Scratch sums(device, static_cast<std::size_t>(shape.channels) * sizeof(Pair));
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    const ChannelNorm<S> norm(mean, inv_std, weight, {});
    if (summed) {
      Context& c = begin("batch_norm", {&x, &gy, &mean, &inv_std, &gw, &gb});
      const ChannelPlan plan = plan_channels(c, shape);
      const Scratch scratch(c, plan.scratch * sizeof(Pair));
      launch(c, batch_norm_sums_kernel<T>, plan.grid, plan.block, data<const T>(x), data<const T>(gy), shape, norm,
             ChannelSums<S>{sums.as<Pair>(), data<S>(gw), data<S>(gb)}, scratch.as<Pair>(), c.tickets);
    }
    if (!gx.defined() || x.numel() == 0) return;
    Context& c = begin("batch_norm", {&x, &gy, &mean, &inv_std, &weight, &gx});
    launch(c, batch_norm_backward_kernel<T>, grid_for(c, x.numel()), kThreads, data<const T>(x), data<const T>(gy), shape, norm,
           sums.as<const Pair>(), training, data<T>(gx));
  });
}

}  // namespace spool::kernels::cuda
