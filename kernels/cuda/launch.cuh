// Launching kernels, and the few things that they share.
#pragma once
#include <cstdint>
#include <type_traits>

#include "spool/core/cuda/context.cuh"
#include "spool/core/tensor.h"

// Shared memory of a block: SPOOL_SHARED(double, partial, 256) declares partial[256].
#if defined(__CUDACC__)
#define SPOOL_SHARED(T, name, n) __shared__ T name[n]
#else
#define SPOOL_SHARED(T, name, n)     \
  static const char name##_site = 0; \
  T* const name = static_cast<T*>(emulator::shared_memory(&name##_site, sizeof(T) * (n)))
#endif

namespace spool::kernels::cuda {

using spool::cuda::begin;
using spool::cuda::Context;
using spool::cuda::Scratch;

inline constexpr unsigned kThreads = 256;

// Runs the kernel on the context's stream. begin() has announced it.
template <class... P>
void launch(Context& c, void (*kernel)(P...), dim3 grid, dim3 block, std::type_identity_t<P>... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#if defined(__CUDACC__)
  kernel<<<grid, block, 0, c.stream>>>(args...);
#else
  emulator::launch(spool::cuda::running_operation(), kernel, grid, block, c.stream, args...);
#endif
  spool::cuda::finish(c);
}

inline unsigned blocks_for(std::int64_t n, std::int64_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}
// Blocks of a loop over n elements in strides of the grid: enough to fill the device, not more.
inline unsigned grid_for(const Context& c, std::int64_t n, std::int64_t per_block = kThreads) {
  const std::int64_t most = std::int64_t{c.multiprocessors} * 32, wanted = (n + per_block - 1) / per_block;
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

// The element index of this thread, and how far its next one is.
__device__ inline std::int64_t first_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t index_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

using spool::cuda::Live;
// What the kernels of a captured step read; null in an ordinary one.
inline const Live* live() { return spool::cuda::capture() ? spool::cuda::capture()->live : nullptr; }

template <class T>
T* data(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.raw_data()) : nullptr;
}

// Whether this block is the last of the `blocks` that draw from the ticket: it then sees what the others wrote before, and leaves the ticket at 0 for the
// next kernel. Every thread of the block must call it.
__device__ inline bool last_block(unsigned* ticket, unsigned blocks) {
  SPOOL_SHARED(bool, last, 1);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last[0] = atomicAdd(ticket, 1u) == blocks - 1;
    if (last[0]) *ticket = 0;
  }
  __syncthreads();
  __threadfence();
  return last[0];
}

// combine() over the values of all threads of a row of the block, in a fixed order; every thread gets the result. Rows have a power of two of threads, at most kThreads.
template <class T, class F>
__device__ T block_combine(T value, F combine) {
  SPOOL_SHARED(T, partial, kThreads);
  T* row = partial + threadIdx.y * blockDim.x;
  __syncthreads();  // the last use of the same memory may not be over
  row[threadIdx.x] = value;
  __syncthreads();
  for (unsigned reach = blockDim.x / 2; reach > 0; reach /= 2) {
    if (threadIdx.x < reach) row[threadIdx.x] = combine(row[threadIdx.x], row[threadIdx.x + reach]);
    __syncthreads();
  }
  return row[0];
}
struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
template <class T>
__device__ T block_sum(T value) {
  return block_combine(value, Plus{});
}

}  // namespace spool::kernels::cuda
