// Per-channel sums over x [rows, C] or [outer, C, inner], for batch norm and its fused kind. Blocks share the elements of 32 channels; the last to finish merges their parts in order.
#pragma once
#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels::cuda {

// x [N, C, ...] as [outer, C, inner]: channels-last images have inner = 1.
struct Channels {
  std::int64_t outer, channels, inner;
  explicit Channels(const Tensor& x) : outer(x.shape()[0]), channels(x.shape()[1]), inner(1) {
    for (int d = 2; d < x.dim(); ++d) (x.dim() == 4 ? outer : inner) *= x.shape()[d];
  }
  SPOOL_HD std::int64_t count() const { return outer * inner; }
  // Element i of channel c.
  SPOOL_HD std::int64_t at(std::int64_t i, std::int64_t c) const {
    return inner == 1 ? i * channels + c : (i / inner * channels + c) * inner + i % inner;
  }
};

// Count, mean and sum of squared deviations of a set; sets are merged as Chan, Golub and LeVeque (1979) do, so no large sums are subtracted.
struct Moments {
  double n, mean, squares;
  __device__ void add(double x) {
    n += 1;
    const double delta = x - mean;
    mean += delta / n;
    squares += delta * (x - mean);
  }
  __device__ static Moments merge(Moments a, Moments b) {
    if (a.n == 0) return b;
    if (b.n == 0) return a;
    const double total = a.n + b.n, delta = b.mean - a.mean;
    return {total, a.mean + delta * (b.n / total), a.squares + b.squares + delta * delta * (a.n * b.n / total)};
  }
};
struct Pair {
  double sum, dot;
  __device__ static Pair merge(Pair a, Pair b) { return {a.sum + b.sum, a.dot + b.dot}; }
};

inline constexpr unsigned kChannelWidth = 32, kChannelHeight = kThreads / kChannelWidth;

struct ChannelPlan {
  dim3 grid, block{kChannelWidth, kChannelHeight};
  std::size_t scratch;  // parts in the scratch memory
};
inline ChannelPlan plan_channels(const Context& c, const Channels& x) {
  ChannelPlan plan;
  const unsigned columns = blocks_for(x.channels, kChannelWidth);
  std::int64_t parts = std::int64_t{c.multiprocessors} * 4 / (columns ? columns : 1), useful = x.count() / (kChannelHeight * 8);
  parts = parts < useful ? parts : useful;
  parts = parts < 1 || columns > Context::kTickets ? 1 : parts > 512 ? 512 : parts;
  plan.grid = dim3(columns, static_cast<unsigned>(parts));
  plan.scratch = static_cast<std::size_t>(parts * x.channels);
  return plan;
}

__device__ inline std::int64_t channel_of_thread() { return static_cast<std::int64_t>(blockIdx.x) * kChannelWidth + threadIdx.x; }

// Runs add(part, i) for every element i of this thread's channel, merges the parts of all threads and blocks, and gives the total to the threads of the last block's first row:
// true for these. Every thread of the grid must call it. `scratch` holds gridDim.y parts for each channel.
template <class Part, class F>
__device__ bool over_channel(const Channels& x, Part& total, Part* scratch, unsigned* tickets, const F& add) {
  SPOOL_SHARED(Part, parts, kThreads);
  const std::int64_t channel = channel_of_thread();
  const bool alive = channel < x.channels;
  const unsigned me = threadIdx.y * kChannelWidth + threadIdx.x;
  const auto merge_rows = [&](Part part) {
    __syncthreads();
    parts[me] = part;
    __syncthreads();
    for (unsigned reach = kChannelHeight / 2; reach > 0; reach /= 2) {
      if (threadIdx.y < reach) parts[me] = Part::merge(parts[me], parts[me + reach * kChannelWidth]);
      __syncthreads();
    }
    return parts[threadIdx.x];
  };
  Part part{};
  if (alive)
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * kChannelHeight + threadIdx.y; i < x.count();
         i += gridDim.y * kChannelHeight)
      add(part, i);
  total = merge_rows(part);
  if (gridDim.y > 1) {
    if (alive && threadIdx.y == 0) scratch[blockIdx.y * x.channels + channel] = total;
    if (!last_block(tickets + blockIdx.x, gridDim.y)) return false;
    part = Part{};
    if (alive)
      for (unsigned p = threadIdx.y; p < gridDim.y; p += kChannelHeight)
        part = Part::merge(part, scratch[p * x.channels + channel]);
    total = merge_rows(part);
  }
  return alive && threadIdx.y == 0;
}

// Batch norm of a channel, and its gradient.
template <class S>
struct ChannelNorm {
  const S *mean, *inv_std, *weight, *bias;
  ChannelNorm(const Tensor& m, const Tensor& s, const Tensor& w, const Tensor& b)
      : mean(data<const S>(m)), inv_std(data<const S>(s)), weight(data<const S>(w)), bias(data<const S>(b)) {}
  __device__ S weight_of(std::int64_t c) const { return weight ? weight[c] : S(1); }
  __device__ S bias_of(std::int64_t c) const { return bias ? bias[c] : S(0); }
  __device__ S normal(S x, std::int64_t c) const { return (x - mean[c]) * inv_std[c]; }
  __device__ S operator()(S x, std::int64_t c) const { return (x - mean[c]) * (inv_std[c] * weight_of(c)) + bias_of(c); }
  // Of x, from the gradient g of the result and, where mean and inv_std came from x (`training`), the sums over the channel's `count` elements.
  __device__ S gradient(S g, S x, std::int64_t c, bool training, const Pair* sums, double count) const {
    if (training) g = g - static_cast<S>(sums[c].sum / count) - normal(x, c) * static_cast<S>(sums[c].dot / count);
    return g * (inv_std[c] * weight_of(c));
  }
};

// Where the sums over a channel go: to the kernel that follows, and to the gradients of weight and bias where these are wanted.
template <class S>
struct ChannelSums {
  Pair* sums;
  S *gw, *gb;
  __device__ void store(std::int64_t c, Pair total) const {
    sums[c] = total;
    if (gw) gw[c] = static_cast<S>(total.dot);
    if (gb) gb[c] = static_cast<S>(total.sum);
  }
};

template <class S>
struct RunningStatistics {
  S *mean, *var;  // either both or none
  double momentum;
};

// mean and inv_std of every channel of x, and the running statistics.
template <class T>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(const T* x, Channels shape, double eps, accumulate_t<T>* mean, accumulate_t<T>* inv_std,
                   RunningStatistics<accumulate_t<T>> running, Moments* scratch, unsigned* tickets) {
  using S = accumulate_t<T>;
  const std::int64_t c = channel_of_thread();
  Moments m{};
  if (!over_channel(shape, m, scratch, tickets,
                    [&](Moments& part, std::int64_t i) { part.add(static_cast<double>(x[shape.at(i, c)])); }))
    return;
  mean[c] = static_cast<S>(m.mean);
  inv_std[c] = static_cast<S>(1 / ::sqrt(m.squares / m.n + eps));
  if (!running.mean) return;
  const double keep = 1 - running.momentum;
  running.mean[c] = static_cast<S>(keep * static_cast<double>(running.mean[c]) + running.momentum * m.mean);
  running.var[c] = static_cast<S>(keep * static_cast<double>(running.var[c]) + running.momentum * (m.squares / (m.n - 1)));
}

}  // namespace spool::kernels::cuda
