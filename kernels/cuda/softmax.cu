// Softmax along a dimension. Lines that lie in one piece get a block each, others a thread each, side by side with their neighbours in memory.
#include "spool/kernels/softmax.h"

#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels::cuda {
namespace {

// A dense tensor of any order as [outer, n, inner] around one dimension.
struct DenseLines {
  std::int64_t outer = 0, n = 1, inner = 1;
  DenseLines(const Tensor& x, int dim) {
    if (x.dim()) n = x.shape()[dim];
    if (n > 1) inner = x.strides()[dim];
    if (x.numel()) outer = x.numel() / (n * inner);
  }
};

struct Larger {
  template <class S>
  __device__ S operator()(S a, S b) const {
    return b > a ? b : a;
  }
};

// What the threads of a line do: all of a block, or one.
struct BlockLine {
  std::int64_t first, step;
  __device__ BlockLine() : first(threadIdx.x), step(blockDim.x) {}
  template <class S>
  __device__ S largest(S v) const {
    return block_combine(v, Larger{});
  }
  template <class S>
  __device__ S sum(S v) const {
    return block_sum(v);
  }
};
struct ThreadLine {
  std::int64_t first = 0, step = 1;
  template <class S>
  __device__ S largest(S v) const {
    return v;
  }
  template <class S>
  __device__ S sum(S v) const {
    return v;
  }
};

template <class T, class Line>
__device__ void softmax_line(const Line& line, const T* x, T* y, std::int64_t n, std::int64_t inner, bool log) {
  using S = accumulate_t<T>;
  // NaN in the line is never larger, and comes back through the sum; with +inf, or nothing but -inf, the differences are NaN.
  S largest = static_cast<S>(x[0]);
  for (std::int64_t k = line.first; k < n; k += line.step) largest = Larger{}(largest, static_cast<S>(x[k * inner]));
  largest = line.largest(largest);
  S sum = 0;
  for (std::int64_t k = line.first; k < n; k += line.step) sum += std::exp(static_cast<S>(x[k * inner]) - largest);
  sum = line.sum(sum);
  const S log_sum = std::log(sum);
  for (std::int64_t k = line.first; k < n; k += line.step) {
    const S difference = static_cast<S>(x[k * inner]) - largest;
    y[k * inner] = static_cast<T>(log ? difference - log_sum : std::exp(difference) / sum);
  }
}

template <class T, class Line>
__device__ void softmax_backward_line(const Line& line, const T* y, const T* g, T* gx, std::int64_t n, std::int64_t inner,
                                      bool log) {
  using S = accumulate_t<T>;
  S sum = 0;
  for (std::int64_t k = line.first * inner; k < n * inner; k += line.step * inner)
    sum += static_cast<S>(g[k]) * (log ? S(1) : static_cast<S>(y[k]));
  sum = line.sum(sum);
  for (std::int64_t k = line.first * inner; k < n * inner; k += line.step * inner) {
    const S v = static_cast<S>(y[k]), d = static_cast<S>(g[k]);
    gx[k] = static_cast<T>(log ? d - std::exp(v) * sum : v * (d - sum));
  }
}

// Calls f(line, offset of its first element) for the lines of this block or thread.
template <bool whole_blocks, class F>
__device__ void for_each_line(const DenseLines& l, const F& f) {
  if constexpr (whole_blocks) {
    for (std::int64_t o = blockIdx.x; o < l.outer; o += gridDim.x) f(BlockLine(), o * l.n);
  } else {
    for (std::int64_t i = first_index(); i < l.outer * l.inner; i += index_step())
      f(ThreadLine(), i / l.inner * l.n * l.inner + i % l.inner);
  }
}

template <class T, bool whole_blocks>
__global__ void __launch_bounds__(kThreads) softmax_kernel(const T* x, T* y, DenseLines l, bool log) {
  for_each_line<whole_blocks>(l,
                              [&](const auto& line, std::int64_t at) { softmax_line(line, x + at, y + at, l.n, l.inner, log); });
}

template <class T, bool whole_blocks>
__global__ void __launch_bounds__(kThreads) softmax_backward_kernel(const T* y, const T* g, T* gx, DenseLines l, bool log) {
  for_each_line<whole_blocks>(
      l, [&](const auto& line, std::int64_t at) { softmax_backward_line(line, y + at, g + at, gx + at, l.n, l.inner, log); });
}

// Runs f(grid, threads, whole blocks?) for lines of this kind.
template <class F>
void with_lines(const Context& c, const DenseLines& l, const F& f) {
  if (l.inner > 1 || l.n == 1) return f(grid_for(c, l.outer * l.inner), kThreads, std::false_type{});
  unsigned threads = 32;
  while (threads < kThreads && threads < l.n) threads *= 2;
  f(grid_for(c, l.outer, 1), threads, std::true_type{});
}

}  // namespace

void softmax(const Tensor& x, Tensor& y, int dim, bool log) {
  if (x.numel() == 0) return;
  const DenseLines l(x, dim);
  Context& c = begin(log ? "log_softmax" : "softmax", {&x, &y});
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    with_lines(c, l, [&](unsigned grid, unsigned threads, auto whole) {
      launch(c, softmax_kernel<T, decltype(whole)::value>, grid, threads, data<const T>(x), data<T>(y), l, log);
    });
  });
}

void softmax_backward(const Tensor& y, const Tensor& gy, Tensor& gx, int dim, bool log) {
  if (y.numel() == 0) return;
  const DenseLines l(y, dim);
  Context& c = begin(log ? "log_softmax" : "softmax", {&y, &gy, &gx});
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    with_lines(c, l, [&](unsigned grid, unsigned threads, auto whole) {
      launch(c, softmax_backward_kernel<T, decltype(whole)::value>, grid, threads, data<const T>(y), data<const T>(gy),
             data<T>(gx), l, log);
    });
  });
}

}  // namespace spool::kernels::cuda
