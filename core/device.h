// Where a tensor's memory lives and its kernels run.
#pragma once
#include <cstdint>
#include <string>

namespace spool {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {DeviceType::cuda, static_cast<std::int8_t>(index)}; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
  friend constexpr bool operator==(Device, Device) = default;
};

// "cpu" or "cuda:0".
std::string to_string(Device device);

// Whether this build has the CUDA backend and finds a device to run it on.
bool cuda_available();

// A CUDA device when there is one, else the CPU.
Device default_device();

// Throws DeviceError, with the remedy, when the device cannot be used by this build on this machine.
void check_usable(Device device);

}  // namespace spool
