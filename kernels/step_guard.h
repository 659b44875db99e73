// What a Trainer leaves to a device to watch over, so that the host need not wait for it after every step. Only in builds with CUDA.
#pragma once
#include <span>

#include "spool/core/tensor.h"

namespace spool::kernels {

// to[i] = from[i], which are of one type and shape and lie alike in memory, and saves[0] += 1; nothing where the device has an error to report. So `to` keeps the state
// before the step in which the first error was found, and `saves`, one i64, says which that was.
void save_unless_reported(std::span<const Tensor> from, std::span<const Tensor> to, const Tensor& saves);
// Reports a loss, of one element, that is not finite.
void report_nonfinite(const Tensor& loss);

}  // namespace spool::kernels
