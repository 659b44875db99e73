// The functors of unary_ops.h as kernels see them: on elements of type T, computed in C.
#pragma once
#include "spool/kernels/cuda/loops.cuh"
#include "spool/kernels/unary_ops.h"

namespace spool::kernels::cuda {

// bf16 is computed in float.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

template <class Op, class T>
struct Apply {
  Op op;
  __device__ T operator()(T x) const { return static_cast<T>(op.f(static_cast<compute_t<T>>(x))); }
};

template <class Op, class T>
struct ApplyDerivative {
  Op op;
  __device__ T operator()(T saved, T g) const {
    return static_cast<T>(static_cast<compute_t<T>>(g) * op.df(static_cast<compute_t<T>>(saved)));
  }
};

}  // namespace spool::kernels::cuda
