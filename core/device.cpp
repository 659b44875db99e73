#include "spool/core/device.h"

#include <fmt/format.h>

#include <atomic>

#include "spool/core/errors.h"
#if SPOOL_WITH_CUDA
#include "spool/core/cuda/runtime.h"
#endif

namespace spool {

std::string to_string(Device device) { return device.is_cuda() ? fmt::format("cuda:{}", device.index) : "cpu"; }

#if SPOOL_WITH_CUDA

bool cuda_available() { return cuda::device_count() > 0; }

void check_usable(Device device) {
  if (!device.is_cuda()) return;
  // The machine's devices do not change while the program runs, and asking the driver is slow; what was refused is asked about again.
  static std::atomic<std::uint64_t> usable{0};
  if (device.index >= 0 && device.index < 64 && (usable.load(std::memory_order_relaxed) >> device.index & 1)) return;
  if (const std::string why = cuda::why_unusable(device.index); !why.empty())
    throw DeviceError("", fmt::format("{} cannot be used: {}", to_string(device), why));
  if (device.index < 64) usable.fetch_or(std::uint64_t{1} << device.index, std::memory_order_relaxed);
}

#else

bool cuda_available() { return false; }

void check_usable(Device device) {
  if (device.is_cuda())
    throw DeviceError(
        "", fmt::format("{} was asked for, but this build of Spool has no CUDA backend: use Device::cpu()", to_string(device)));
}

#endif

Device default_device() { return cuda_available() ? Device::cuda() : Device::cpu(); }

}  // namespace spool
