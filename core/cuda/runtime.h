// The CUDA side of core, as the rest of core sees it: plain C++, without a CUDA header. Only in builds with CUDA. Device indices have been checked by check_usable.
#pragma once
#include <cstddef>
#include <string>

#include "spool/core/cuda.h"

namespace spool::cuda {

// How many devices there are; why there are none, or why `index` is not one of them, with the remedy; empty where it can be used.
int device_count();
std::string why_unusable(int index);
std::string device_name(int index);
void synchronize(int index);

// Device memory of at least `bytes` bytes, 256-aligned, contents undefined; 0 gives nullptr. A block that is given back may be handed out again at once: work
// is run in the order in which it was given, so what still uses the block comes before what will. Throws CudaError when the device is full.
void* allocate(std::size_t bytes, int index);
void deallocate(void* block, int index) noexcept;
MemoryStats memory_stats(int index);
void reset_peak_memory(int index);
void empty_cache(int index);
std::string memory_summary(int index);

CudaWork work();

}  // namespace spool::cuda
