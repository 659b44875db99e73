// The emulator as its tests see it: counters, and the switches that make it behave like machines with more, less or no GPUs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

// Since the program began, or reset_counters().
struct Counters {
  std::uint64_t kernels = 0;        // launches of our own kernels
  std::uint64_t library_calls = 0;  // of cuBLAS and cuDNN that work on the device
  std::uint64_t copies_to_device = 0, bytes_to_device = 0;
  std::uint64_t copies_to_host = 0, bytes_to_host = 0;
  std::uint64_t fills = 0;             // cudaMemsetAsync, and copies within the device
  std::uint64_t allocations = 0;       // cudaMalloc
  std::uint64_t host_allocations = 0;  // cudaHostAlloc
  std::uint64_t synchronisations = 0;  // calls that made the host wait for the device
  std::uint64_t graph_launches = 0, graph_nodes = 0;
};
Counters counters();
void reset_counters();

// What the machine looks like. The defaults: two devices of 4 GiB, and a driver as new as the headers.
void set_device_count(int n);
void set_driver_version(int version);  // 0: no driver at all
void set_total_memory(std::size_t bytes);
// Blocks of a grid run in an order drawn from this seed; 0: in ascending order.
void set_block_order(std::uint64_t seed);
// The next allocation of device memory after `after` others fails, as on a GPU that is full; -1: none.
void fail_allocation(int after);

// What went wrong on the device last, as a GPU would not say it: which kernel, and why.
std::string last_failure();
// Forgets a failure, which on a GPU only ending the program does.
void recover();

}  // namespace emulator
