// What the parts of the emulator share.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "emulator.h"

namespace emulator {

// One lock for everything: the emulator is used by few threads, for short.
std::recursive_mutex& lock();
Counters& mutable_counters();

// --- device memory (memory.cpp)
void* allocate_device(std::size_t bytes, int device);  // null when the device is full
bool free_device(void* p);
// Whether [p, p + bytes) lies in one living allocation of this device.
bool is_device_range(const void* p, std::size_t bytes, int device);
std::size_t free_memory(int device);
std::size_t total_memory();
// While one lives, this thread may read and write the device's memory; nobody may at other times.
class DeviceAccess {
 public:
  explicit DeviceAccess(int device, const char* who);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  int device_;
};
bool is_pinned(const void* p, std::size_t bytes);

// --- running kernels (threads.cpp)
// Runs a kernel now. Returns what went wrong, or nothing.
std::string run_grid(dim3 grid, dim3 block, const std::function<void()>& body);

// --- streams (streams.cpp)
enum class Work { kernel, library, copy_to_device, copy_to_host, fill, event };
// Puts work at the end of the stream, or into the graph that is being captured from it.
void enqueue(cudaStream_t stream, Work kind, const char* name, std::function<std::string()> work);
// Runs everything that the stream holds. The error of the first piece of work that failed stays, as on a GPU.
cudaError_t run_stream(cudaStream_t stream);
cudaError_t run_device(int device);
bool is_stream(cudaStream_t stream);
bool is_capturing(cudaStream_t stream);
int device_of(cudaStream_t stream);
int current_device();
int device_count();
cudaError_t sticky_error();
cudaError_t remember(cudaError_t error);  // for cudaGetLastError; returns it

}  // namespace emulator

struct CUstream_st;
