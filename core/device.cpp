#include "spool/core/device.h"

#include <fmt/format.h>

#include "spool/core/errors.h"

namespace spool {

std::string to_string(Device device) { return device.is_cuda() ? fmt::format("cuda:{}", device.index) : "cpu"; }

bool cuda_available() { return false; }

Device default_device() { return cuda_available() ? Device::cuda() : Device::cpu(); }

void check_usable(Device device) {
  if (device.is_cuda())
    throw DeviceError(
        "", fmt::format("{} was asked for, but this build of Spool has no CUDA backend: use Device::cpu()", to_string(device)));
}

}  // namespace spool
