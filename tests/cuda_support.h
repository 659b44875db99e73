// What tests that need a CUDA device begin with.
#pragma once
#include "spool/core/cuda.h"
#include "support.h"

namespace spool::test {

// A build with CUDA may run where no GPU is: there is then nothing to test, and the test says so.
#define SPOOL_NEED_CUDA()                                      \
  do {                                                         \
    if (!cuda_available()) {                                   \
      WARN("skipped: this machine has no usable CUDA device"); \
      return;                                                  \
    }                                                          \
  } while (false)

inline const Device gpu = Device::cuda(0);

}  // namespace spool::test
