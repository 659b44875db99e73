// The only place that knows which devices exist. A contract header declares cpu::f and cuda::f with one signature; the public
// f calls the one that belongs to the tensor's device. A missing kernel is a link error.
#pragma once
#include "spool/core/tensor.h"
#include "spool/kernels/kernel_run.h"

#if SPOOL_WITH_CUDA
#define SPOOL_DISPATCH(tensor, call) ((tensor).is_cuda() ? cuda::call : cpu::call)
#else
#define SPOOL_DISPATCH(tensor, call) (cpu::call)
#endif

// Runs a kernel, under the eyes of a Profiler if one runs.
#define SPOOL_RUN(name, arguments, tensor, call)                                                \
  do {                                                                                          \
    if (thread_state.kernel_runs) [[unlikely]] {                                                \
      const ::spool::kernels::KernelTimer timer(name, ::spool::kernels::total_bytes arguments); \
      SPOOL_DISPATCH(tensor, call);                                                             \
    } else {                                                                                    \
      SPOOL_DISPATCH(tensor, call);                                                             \
    }                                                                                           \
  } while (false)

// Declares a kernel on every device and the function that chooses: SPOOL_KERNEL(fill, (Tensor& y, Scalar v), (y, v), y)
#define SPOOL_KERNEL(name, parameters, arguments, tensor) \
  namespace cpu {                                         \
  void name parameters;                                   \
  }                                                       \
  namespace cuda {                                        \
  void name parameters;                                   \
  }                                                       \
  inline void name parameters { SPOOL_RUN(#name, arguments, tensor, name arguments); }
