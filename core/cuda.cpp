#include "spool/core/cuda.h"

#include <atomic>

#include "spool/core/errors.h"
#if SPOOL_WITH_CUDA
#include "spool/core/cuda/runtime.h"
#endif

namespace spool {
namespace {
// Read by the backend for every call; set by the user.
std::atomic<bool> tf32{false}, deterministic{true}, benchmark{false};
}  // namespace

void set_allow_tf32(bool allow) { tf32 = allow; }
bool allow_tf32() { return tf32; }
void set_cudnn_deterministic(bool on) { deterministic = on; }
bool cudnn_deterministic() { return deterministic; }
void set_cudnn_benchmark(bool on) { benchmark = on; }
bool cudnn_benchmark() { return benchmark; }

#if SPOOL_WITH_CUDA

int cuda_device_count() { return cuda::device_count(); }

std::string device_name(Device device) {
  check_usable(device);
  return device.is_cuda() ? cuda::device_name(device.index) : "CPU";
}
void synchronize(Device device) {
  check_usable(device);
  if (device.is_cuda()) cuda::synchronize(device.index);
}
MemoryStats memory_stats(Device device) {
  check_usable(device);
  return device.is_cuda() ? cuda::memory_stats(device.index) : memory_stats();
}
void reset_peak_memory(Device device) {
  check_usable(device);
  device.is_cuda() ? cuda::reset_peak_memory(device.index) : reset_peak_memory();
}
void empty_cache(Device device) {
  check_usable(device);
  device.is_cuda() ? cuda::empty_cache(device.index) : empty_cache();
}
std::string memory_summary(Device device) {
  check_usable(device);
  return device.is_cuda() ? cuda::memory_summary(device.index) : memory_summary();
}
CudaWork cuda_work() { return cuda::work(); }

#else

int cuda_device_count() { return 0; }
std::string device_name(Device device) {
  check_usable(device);
  return "CPU";
}
void synchronize(Device device) { check_usable(device); }
MemoryStats memory_stats(Device device) {
  check_usable(device);
  return memory_stats();
}
void reset_peak_memory(Device device) {
  check_usable(device);
  reset_peak_memory();
}
void empty_cache(Device device) {
  check_usable(device);
  empty_cache();
}
std::string memory_summary(Device device) {
  check_usable(device);
  return memory_summary();
}
CudaWork cuda_work() { return {}; }

#endif

}  // namespace spool
