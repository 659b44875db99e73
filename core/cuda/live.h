// What changes from one replay of a captured training step to the next. Kernels read it from device memory, where the step itself counts it up.
#pragma once
#include <cstdint>

namespace spool::cuda {

struct Live {
  // The settings of a parameter group, which schedules and users change.
  struct Group {
    double lr = 0, momentum = 0, weight_decay = 0;
    friend bool operator==(const Group&, const Group&) = default;
  };
  static constexpr int kGroups = 32;
  std::int64_t steps = 0;      // of the optimizer since the capture
  std::uint64_t draws = 0;     // of the generator since the capture
  Group groups[kGroups] = {};  // those that have gradients
  friend bool operator==(const Live&, const Live&) = default;
};

}  // namespace spool::cuda
