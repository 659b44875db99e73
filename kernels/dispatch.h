// The only place that knows which devices exist. A contract header declares cpu::f and cuda::f with one signature; the public
// f calls the one that belongs to the tensor's device. A missing kernel is a link error.
#pragma once
#include "spool/core/tensor.h"

#if SPOOL_WITH_CUDA
#define SPOOL_DISPATCH(tensor, call) ((tensor).is_cuda() ? cuda::call : cpu::call)
#else
#define SPOOL_DISPATCH(tensor, call) (cpu::call)
#endif

// Declares a kernel on every device and the function that chooses: SPOOL_KERNEL(fill, (Tensor& y, Scalar v), (y, v), y)
#define SPOOL_KERNEL(name, parameters, arguments, tensor) \
  namespace cpu {                                         \
  void name parameters;                                   \
  }                                                       \
  namespace cuda {                                        \
  void name parameters;                                   \
  }                                                       \
  inline void name parameters { SPOOL_DISPATCH(tensor, name arguments); }
