// What there is to ask and to set about CUDA devices. All of it can be called in a build without CUDA too, which then has no devices.
#pragma once
#include <cstdint>
#include <string>

#include "spool/core/allocator.h"
#include "spool/core/device.h"

namespace spool {

// How many devices there are; 0 where no driver is, or this build has no CUDA backend.
int cuda_device_count();
// "NVIDIA H200", or "CPU". Throws DeviceError for a device that is absent.
std::string device_name(Device device);

// Waits until the device has done all that it was given. Errors that were found on the device since (a label out of range, a kernel that failed) are thrown here,
// and by whatever else waits: item(), printing, to(Device::cpu()). From the error until then no optimizer changes anything on the device.
void synchronize(Device device);

// The caching allocator of a device; of the CPU these are the functions of allocator.h.
MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);
void empty_cache(Device device);
std::string memory_summary(Device device);

// What the backend has given the devices to do since the program began: the currency of a fast training step.
struct CudaWork {
  std::uint64_t launches = 0;          // of our kernels, and calls of cuBLAS and cuDNN
  std::uint64_t bytes = 0;             // the operands of each launch, counted once
  std::uint64_t bytes_to_device = 0;   // copied from host memory
  std::uint64_t bytes_to_host = 0;     // and back
  std::uint64_t synchronisations = 0;  // how often the host waited
  std::uint64_t reports = 0;           // errors found on a device, and thrown by what waited
};
CudaWork cuda_work();

// Numbers of f32 matrix products and convolutions on tensor cores: with TF32 they are rounded to 10 bits of mantissa first. Off unless asked.
void set_allow_tf32(bool allow);
bool allow_tf32();
// Whether cuDNN may only use algorithms that give the same bits every time (on unless told otherwise), and whether it tries them out to find the fastest (off).
void set_cudnn_deterministic(bool deterministic);
bool cudnn_deterministic();
void set_cudnn_benchmark(bool benchmark);
bool cudnn_benchmark();

}  // namespace spool
