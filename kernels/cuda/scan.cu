#include "spool/kernels/cuda/lines.cuh"
#include "spool/kernels/reduce.h"

namespace spool::kernels::cuda {
namespace {

// A block for each line: every thread adds up a piece, the pieces' totals are scanned, and each thread goes over its piece again.
template <class T, class R, class W>
__global__ void __launch_bounds__(kThreads) cumsum_kernel(Lines lines) {
  SPOOL_SHARED(W, totals, kThreads);
  std::int64_t at[2];
  lines.starts.locate(static_cast<std::uint64_t>(blockIdx.x), at);
  const T* x = static_cast<const T*>(lines.starts.data[0]) + at[0];
  R* y = static_cast<R*>(lines.starts.data[1]) + at[1];
  const std::int64_t piece = (lines.length + blockDim.x - 1) / blockDim.x;
  const std::int64_t begin = threadIdx.x * piece, end = begin + piece < lines.length ? begin + piece : lines.length;
  W sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += static_cast<W>(x[i * lines.steps[0]]);
  totals[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (unsigned t = 0; t < threadIdx.x; ++t) sum += totals[t];
  for (std::int64_t i = begin; i < end; ++i) y[i * lines.steps[1]] = static_cast<R>(sum += static_cast<W>(x[i * lines.steps[0]]));
}

}  // namespace

void cumsum(const Tensor& x, int dim, Tensor& y) {
  if (x.numel() == 0) return;
  const Lines lines = make_lines(dim, {&x, &y});
  Context& c = begin("cumsum", {&x, &y});
  const unsigned threads = lines.length < 256 ? 32 : kThreads;
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    using R = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    using W = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
    launch(c, cumsum_kernel<T, R, W>, static_cast<unsigned>(lines.starts.numel), threads, lines);
  });
}

}  // namespace spool::kernels::cuda
