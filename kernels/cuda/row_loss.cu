// Cross-entropy and negative log-likelihood over rows of classes: a warp for each row; the last block to finish adds the rows up.
#include "spool/kernels/cuda/launch.cuh"
#include "spool/kernels/softmax.h"

namespace spool::kernels::cuda {
namespace {

constexpr unsigned kRows = kThreads / 32;  // of a block

template <class S, class F>
__device__ S warp_combine(S value, F combine) {
  for (int distance = 16; distance > 0; distance /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
struct Larger {
  template <class S>
  __device__ S operator()(S a, S b) const {
    return b > a ? b : a;
  }
};

// How much class c counts in a row with this label.
template <class S>
struct Share {
  const S* weight;
  S keep, spread;
  __device__ S of_class(std::int64_t c) const { return weight ? weight[c] : S(1); }
  __device__ S operator()(std::int64_t c, std::int64_t label) const {
    return spread * of_class(c) + (c == label ? keep * of_class(label) : S(0));
  }
};
template <class S>
Share<S> share_of(const Tensor& weight, std::int64_t classes, double smoothing) {
  return {data<const S>(weight), static_cast<S>(1 - smoothing), static_cast<S>(smoothing / static_cast<double>(classes))};
}

// The largest element of a row and the logarithm of the sum of exp(x - largest), in every lane.
template <class T, class S>
__device__ void log_sum(const T* row, std::int64_t classes, S& largest, S& log_of_sum) {
  largest = static_cast<S>(row[0]);
  for (std::int64_t c = threadIdx.x; c < classes; c += 32) largest = Larger{}(largest, static_cast<S>(row[c]));
  largest = warp_combine(largest, Larger{});
  S sum = 0;
  for (std::int64_t c = threadIdx.x; c < classes; c += 32) sum += std::exp(static_cast<S>(row[c]) - largest);
  log_of_sum = std::log(warp_combine(sum, Plus{}));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    row_loss_kernel(const T* x, const std::int64_t* target, Share<accumulate_t<T>> q, T* loss, accumulate_t<T>* divisor,
                    std::int64_t rows, std::int64_t classes, RowLossParams p, double* partial, unsigned* ticket,
                    spool::cuda::Report* report) {
  using S = accumulate_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.y;
  S sum = 0, kept = 0;
  if (r < rows && target[r] != p.ignore_index) {
    const std::int64_t label = target[r];
    if (label < 0 || label >= classes) {
      if (threadIdx.x == 0 && atomicCAS(&report->code, 0u, spool::cuda::Report::kBadLabel) == 0) {
        report->value = label;
        report->position = r;
        report->limit = classes;
        report->ignored = p.ignore_index;
      }
    } else {
      S largest = 0, log_of_sum = 0;
      const T* row = x + r * classes;
      if (p.from_logits) log_sum<T, S>(row, classes, largest, log_of_sum);
      for (std::int64_t c = p.smoothing > 0 ? threadIdx.x : label + threadIdx.x; c < (p.smoothing > 0 ? classes : label + 1);
           c += 32) {
        const S share = q(c, label), value = static_cast<S>(row[c]);
        if (share != 0) sum -= share * (p.from_logits ? value - largest - log_of_sum : value);  // 0 * infinity does not count
      }
      kept = q.of_class(label);
    }
  }
  sum = warp_combine(sum, Plus{});
  if (threadIdx.x == 0 && r < rows) {
    if (!p.reduced) loss[r] = static_cast<T>(sum);
    partial[2 * r] = static_cast<double>(sum);
    partial[2 * r + 1] = static_cast<double>(kept);
  }
  if (!last_block(ticket, gridDim.x)) return;
  // Every thread adds up every kThreads-th row, then the block their sums.
  SPOOL_SHARED(double, totals, kThreads);
  SPOOL_SHARED(double, weights, kThreads);
  const unsigned me = threadIdx.y * 32 + threadIdx.x;
  double total = 0, weight = 0;
  for (std::int64_t i = me; i < rows; i += kThreads) {
    total += partial[2 * i];
    weight += partial[2 * i + 1];
  }
  totals[me] = total;
  weights[me] = weight;
  __syncthreads();
  for (unsigned reach = kThreads / 2; reach > 0; reach /= 2) {
    if (me < reach) {
      totals[me] += totals[me + reach];
      weights[me] += weights[me + reach];
    }
    __syncthreads();
  }
  if (me != 0) return;
  const double divided = p.mean ? weights[0] : 1;
  *divisor = static_cast<S>(divided);
  if (p.reduced) *loss = static_cast<T>(totals[0] / divided);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    row_loss_backward_kernel(const T* x, const std::int64_t* target, Share<accumulate_t<T>> q, const T* g,
                             const accumulate_t<T>* divisor, T* gx, std::int64_t rows, std::int64_t classes, RowLossParams p) {
  using S = accumulate_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.y;
  if (r >= rows) return;
  const std::int64_t label = target[r];
  T* out = gx + r * classes;
  if (label == p.ignore_index || label < 0 || label >= classes || *divisor == 0) {
    for (std::int64_t c = threadIdx.x; c < classes; c += 32) out[c] = T{};
    return;
  }
  const S scale = static_cast<S>(g[p.reduced ? 0 : r]) / *divisor;
  if (!p.from_logits) {
    for (std::int64_t c = threadIdx.x; c < classes; c += 32) out[c] = static_cast<T>(-q(c, label) * scale);
    return;
  }
  const T* row = x + r * classes;
  S largest = 0, log_of_sum = 0, all = 0;
  log_sum<T, S>(row, classes, largest, log_of_sum);
  for (std::int64_t c = threadIdx.x; c < classes; c += 32) all += q(c, label);
  all = warp_combine(all, Plus{});
  for (std::int64_t c = threadIdx.x; c < classes; c += 32)
    out[c] = static_cast<T>((std::exp(static_cast<S>(row[c]) - largest - log_of_sum) * all - q(c, label)) * scale);
}

}  // namespace

void row_loss(const Tensor& x, const Tensor& target, const Tensor& weight, Tensor& loss, Tensor& divisor,
              const RowLossParams& p) {
  const std::int64_t rows = x.shape()[0], classes = x.shape()[1];
  Context& c = begin("cross_entropy", {&x, &target, &weight, &loss, &divisor});
  const Scratch partial(c, static_cast<std::size_t>(2 * rows) * sizeof(double));
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    // Without rows too one block runs, and writes the sum of nothing.
    launch(c, row_loss_kernel<T>, rows ? blocks_for(rows, kRows) : 1u, dim3(32, kRows), data<const T>(x),
           data<const std::int64_t>(target), share_of<S>(weight, classes, p.smoothing), data<T>(loss), data<S>(divisor), rows,
           classes, p, partial.as<double>(), c.tickets, c.report);
  });
}

void row_loss_backward(const Tensor& x, const Tensor& target, const Tensor& weight, const Tensor& g, const Tensor& divisor,
                       Tensor& gx, const RowLossParams& p) {
  const std::int64_t rows = gx.shape()[0], classes = gx.shape()[1];
  if (rows == 0) return;
  Context& c = begin("cross_entropy", {&x, &target, &weight, &g, &divisor, &gx});
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    launch(c, row_loss_backward_kernel<T>, blocks_for(rows, kRows), dim3(32, kRows), data<const T>(x),
           data<const std::int64_t>(target), share_of<S>(weight, classes, p.smoothing), data<const T>(g), data<const S>(divisor),
           data<T>(gx), rows, classes, p);
  });
}

// row_loss() itself looks at the labels, and a wrong one is reported when the host next waits: so a training step does not wait. With SPOOL_CUDA_SYNC=1 it says so at once.
void find_bad_label(const Tensor&, std::int64_t, std::int64_t, std::int64_t& position) { position = -1; }

}  // namespace spool::kernels::cuda
