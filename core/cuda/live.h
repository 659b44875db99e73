// What changes from one replay of a captured training step to the next. Kernels read it from device memory, where the step itself counts it up.
#pragma once
#include <cstdint>

namespace spool::cuda {

struct Live {
  static constexpr int kRates = 32;
  std::int64_t steps = 0;     // of the optimizer since the capture
  std::uint64_t draws = 0;    // of the generator since the capture
  double rates[kRates] = {};  // learning rates of the parameter groups that have gradients
  friend bool operator==(const Live&, const Live&) = default;
};

}  // namespace spool::cuda
