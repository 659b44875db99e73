// What nvcc adds to C++. Force-included into every .cu file of an emulated build, which thereby becomes plain C++ against the real CUDA headers: the
// built-in variables, barriers, shuffles, atomics and the launch of a kernel, as far as Spool's kernels use them.
#pragma once
#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace emulator {

// Where the running thread stands in its grid.
struct Position {
  uint3 thread{}, block{};
  dim3 block_size, grid_size;
};
extern Position here;

void block_barrier();
// Hands `value` to the warp and returns what lane `from` handed over. Every lane of the warp must call it.
std::uint64_t warp_exchange(std::uint64_t value, unsigned from);
// The block's shared memory that belongs to this declaration: the same for all threads of a block, filled with junk when a block begins.
void* shared_memory(const void* declaration, std::size_t bytes);

// Puts a kernel at the end of the stream. A grid or block that no GPU would take is left for cudaGetLastError to report.
void enqueue_kernel(const char* name, dim3 grid, dim3 block, cudaStream_t stream, std::function<void()> body);

template <class... P>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, std::type_identity_t<P>... args) {
  enqueue_kernel(name, grid, block, stream, [=] { kernel(args...); });
}

template <class T>
T shuffle(T value, unsigned from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(static_cast<Bits>(warp_exchange(std::bit_cast<Bits>(value), from)));
}

}  // namespace emulator

#define threadIdx (emulator::here.thread)
#define blockIdx (emulator::here.block)
#define blockDim (emulator::here.block_size)
#define gridDim (emulator::here.grid_size)
#undef __launch_bounds__
#define __launch_bounds__(...)

inline void __syncthreads() { emulator::block_barrier(); }
// Memory is consistent here: blocks run one after the other.
inline void __threadfence() {}

template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulator::shuffle(value, (threadIdx.x % 32) ^ static_cast<unsigned>(mask));
}

inline unsigned atomicAdd(unsigned* p, unsigned v) {
  const unsigned old = *p;
  *p = old + v;
  return old;
}
inline unsigned long long atomicMin(unsigned long long* p, unsigned long long v) {
  const unsigned long long old = *p;
  *p = v < old ? v : old;
  return old;
}
inline unsigned atomicCAS(unsigned* p, unsigned expected, unsigned v) {
  const unsigned old = *p;
  if (old == expected) *p = v;
  return old;
}
