#include "spool/kernels/cuda/loops.cuh"
#include "spool/kernels/norm.h"

namespace spool::kernels::cuda {
namespace {

__global__ void dropout_mask_kernel(bool* mask, std::int64_t n, std::uint64_t threshold, Generator::Draw draw, const Live* live) {
  if (live) draw.stream += live->draws;
  for (std::int64_t b = first_index(); 4 * b < n; b += index_step()) {
    const Philox r = draw(static_cast<std::uint64_t>(b));
    for (int k = 0; k < 4 && 4 * b + k < n; ++k) mask[4 * b + k] = r.words[k] >= threshold;
  }
}

template <class T>
struct KeepScaled {
  accumulate_t<T> scale;
  __device__ T operator()(T x, bool keep) const { return keep ? static_cast<T>(static_cast<accumulate_t<T>>(x) * scale) : T{}; }
};

}  // namespace

void dropout_mask(Tensor& mask, double p, Generator::Draw draw) {
  if (mask.numel() == 0) return;
  Context& c = begin("dropout", {&mask});
  // Of a 32-bit word; p = 1 is beyond every word.
  launch(c, dropout_mask_kernel, grid_for(c, mask.numel(), 4 * kThreads), kThreads, data<bool>(mask), mask.numel(),
         static_cast<std::uint64_t>(p * 0x1p32), draw, live());
}

void masked_scale(const Tensor& x, const Tensor& mask, double scale, Tensor& y) {
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    map<T, T, bool>("dropout", KeepScaled<T>{static_cast<accumulate_t<T>>(scale)}, y, x, mask);
  });
}

}  // namespace spool::kernels::cuda
