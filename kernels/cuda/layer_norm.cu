// Layer norm: a block for each row; the gradients of weight and bias as sums over each column.
#include "spool/kernels/cuda/moments.cuh"
#include "spool/kernels/norm.h"

namespace spool::kernels::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_kernel(const T* x, std::int64_t rows, std::int64_t d, const accumulate_t<T>* weight, const accumulate_t<T>* bias,
                      double eps, T* y, accumulate_t<T>* mean, accumulate_t<T>* inv_std) {
  using S = accumulate_t<T>;
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* row = x + r * d;
    double sum = 0, squares = 0;
    for (std::int64_t i = threadIdx.x; i < d; i += blockDim.x) sum += static_cast<double>(row[i]);
    const double m = block_sum(sum) / static_cast<double>(d);
    for (std::int64_t i = threadIdx.x; i < d; i += blockDim.x) {
      const double difference = static_cast<double>(row[i]) - m;
      squares += difference * difference;
    }
    const double s = 1 / ::sqrt(block_sum(squares) / static_cast<double>(d) + eps);
    for (std::int64_t i = threadIdx.x; i < d; i += blockDim.x) {
      const S normal = static_cast<S>((static_cast<double>(row[i]) - m) * s);
      y[r * d + i] = static_cast<T>(normal * (weight ? weight[i] : S(1)) + (bias ? bias[i] : S(0)));
    }
    if (threadIdx.x == 0) {
      mean[r] = static_cast<S>(m);
      inv_std[r] = static_cast<S>(s);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_backward_kernel(const T* x, const T* g, std::int64_t rows, std::int64_t d, const accumulate_t<T>* weight,
                               const accumulate_t<T>* mean, const accumulate_t<T>* inv_std, T* gx) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const double m = static_cast<double>(mean[r]), s = static_cast<double>(inv_std[r]);
    const auto normal = [&](std::int64_t i) { return (static_cast<double>(x[r * d + i]) - m) * s; };
    const auto weighted = [&](std::int64_t i) {
      return static_cast<double>(g[r * d + i]) * (weight ? static_cast<double>(weight[i]) : 1);
    };
    double sum = 0, dot = 0;
    for (std::int64_t i = threadIdx.x; i < d; i += blockDim.x) {
      sum += weighted(i);
      dot += weighted(i) * normal(i);
    }
    sum = block_sum(sum);
    dot = block_sum(dot);
    for (std::int64_t i = threadIdx.x; i < d; i += blockDim.x)
      gx[r * d + i] = static_cast<T>(s * (weighted(i) - (sum + normal(i) * dot) / static_cast<double>(d)));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_columns_kernel(const T* x, const T* g, Channels shape, const accumulate_t<T>* mean, const accumulate_t<T>* inv_std,
                              accumulate_t<T>* gw, accumulate_t<T>* gb, Pair* scratch, unsigned* tickets) {
  using S = accumulate_t<T>;
  const std::int64_t c = channel_of_thread();
  Pair total{};
  if (!over_channel(shape, total, scratch, tickets, [&](Pair& part, std::int64_t row) {
        const std::int64_t at = row * shape.channels + c;
        const double d = static_cast<double>(g[at]);
        part.sum += d;
        part.dot += d * static_cast<double>((static_cast<S>(x[at]) - mean[row]) * inv_std[row]);
      }))
    return;
  if (gw) gw[c] = static_cast<S>(total.dot);
  if (gb) gb[c] = static_cast<S>(total.sum);
}

unsigned row_threads(std::int64_t d) {
  unsigned threads = 32;
  while (threads < kThreads && threads < d) threads *= 2;
  return threads;
}

}  // namespace

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& inv_std) {
  const std::int64_t rows = x.shape()[0], d = x.shape()[1];
  if (x.numel() == 0) return;
  Context& c = begin("layer_norm", {&x, &weight, &bias, &y, &mean, &inv_std});
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    launch(c, layer_norm_kernel<T>, grid_for(c, rows, 1), row_threads(d), data<const T>(x), rows, d, data<const S>(weight),
           data<const S>(bias), eps, data<T>(y), data<S>(mean), data<S>(inv_std));
  });
}

void layer_norm_backward(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                         Tensor& gx, Tensor& gw, Tensor& gb) {
  const std::int64_t rows = x.shape()[0], d = x.shape()[1];
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    if (gx.defined() && x.numel() > 0) {
      Context& c = begin("layer_norm", {&x, &gy, &weight, &mean, &inv_std, &gx});
      launch(c, layer_norm_backward_kernel<T>, grid_for(c, rows, 1), row_threads(d), data<const T>(x), data<const T>(gy), rows, d,
             data<const S>(weight), data<const S>(mean), data<const S>(inv_std), data<T>(gx));
    }
    if (!gw.defined() && !gb.defined()) return;
    Context& c = begin("layer_norm", {&x, &gy, &mean, &inv_std, &gw, &gb});
    const Channels columns(x);  // [rows, D]: the columns are its channels
    const ChannelPlan plan = plan_channels(c, columns);
    const Scratch scratch(c, plan.scratch * sizeof(Pair));
    launch(c, layer_norm_columns_kernel<T>, plan.grid, plan.block, data<const T>(x), data<const T>(gy), columns,
           data<const S>(mean), data<const S>(inv_std), data<S>(gw), data<S>(gb), scratch.as<Pair>(), c.tickets);
  });
}

}  // namespace spool::kernels::cuda
