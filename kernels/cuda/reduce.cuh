// Many elements into one. A block has `width` columns of outputs and `height` rows of threads that share the elements of each; with several blocks for the same outputs, the last
// one to finish adds their parts up, in their order: the result does not depend on who was when.
//
// A reducer R says what happens: `using Part`, start(), add(part, element, index of the element), merge(part, part), and finish(part) that gives the output.
#pragma once
#include "spool/kernels/cuda/launch.cuh"
#include "spool/kernels/reduce.h"

namespace spool::kernels::cuda {

struct ReduceShape {
  std::int64_t outputs = 1, inputs = 1;  // how many outputs, and elements for each
  int out_dims = 0, in_dims = 0;
  // Of the kept and of the reduced dimensions, innermost first; strides in elements.
  std::int64_t out_sizes[kMaxDims], out_x[kMaxDims], out_y[kMaxDims], out_z[kMaxDims];
  std::int64_t in_sizes[kMaxDims], in_x[kMaxDims];
};

// The dimensions of x sorted into kept and reduced ones; y (and z) are the outputs, with or without the reduced dimensions.
ReduceShape reduce_shape(const Tensor& x, DimMask dims, const Tensor& y, const Tensor& z = {});

struct ReducePlan {
  dim3 grid, block;
  unsigned parts = 1;  // blocks that share the elements of an output
};
ReducePlan plan_reduce(const Context& c, const ReduceShape& s);

template <class R>
__device__ typename R::Part merge_rows(const R& r, typename R::Part part) {
  SPOOL_SHARED(typename R::Part, parts, kThreads);
  const unsigned me = threadIdx.y * blockDim.x + threadIdx.x;
  __syncthreads();
  parts[me] = part;
  __syncthreads();
  for (unsigned reach = blockDim.y / 2; reach > 0; reach /= 2) {
    if (threadIdx.y < reach) parts[me] = r.merge(parts[me], parts[me + reach * blockDim.x]);
    __syncthreads();
  }
  return parts[threadIdx.x];
}

__device__ inline std::int64_t place_of(std::int64_t i, int dims, const std::int64_t* sizes, const std::int64_t* strides) {
  std::int64_t at = 0;
  for (int d = 0; d < dims; ++d) {
    at += (d + 1 < dims ? i % sizes[d] : i) * strides[d];
    i /= sizes[d];
  }
  return at;
}

template <class R, class T>
__global__ void __launch_bounds__(kThreads) reduce_kernel(R r, const T* x, typename R::Out out, ReduceShape s, unsigned parts,
                                                          typename R::Part* partial, unsigned* tickets) {
  const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool alive = output < s.outputs;
  typename R::Part part = r.start();
  if (alive) {
    const T* from = x + place_of(output, s.out_dims, s.out_sizes, s.out_x);
    const std::int64_t step = static_cast<std::int64_t>(parts) * blockDim.y;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; i < s.inputs; i += step)
      part = r.add(part, from[place_of(i, s.in_dims, s.in_sizes, s.in_x)], i);
  }
  part = merge_rows(r, part);
  if (parts > 1) {
    if (alive && threadIdx.y == 0) partial[blockIdx.y * s.outputs + output] = part;
    if (!last_block(tickets + blockIdx.x, parts)) return;
    part = r.start();
    if (alive)
      for (unsigned p = threadIdx.y; p < parts; p += blockDim.y) part = r.merge(part, partial[p * s.outputs + output]);
    part = merge_rows(r, part);
  }
  if (alive && threadIdx.y == 0)
    r.finish(part, out, place_of(output, s.out_dims, s.out_sizes, s.out_y), place_of(output, s.out_dims, s.out_sizes, s.out_z));
}

template <class T, class R>
void reduce_with(const char* op, const R& r, const Tensor& x, DimMask dims, typename R::Out out, const Tensor& y,
                 const Tensor& z = {}) {
  if (y.numel() == 0) return;
  const ReduceShape s = reduce_shape(x, dims, y, z);
  Context& c = begin(op, {&x, &y, &z});
  const ReducePlan plan = plan_reduce(c, s);
  const Scratch partial(c, plan.parts > 1 ? static_cast<std::size_t>(plan.parts * s.outputs) * sizeof(typename R::Part) : 0);
  launch(c, reduce_kernel<R, T>, plan.grid, plan.block, r, data<const T>(x), out, s, plan.parts, partial.as<typename R::Part>(),
         c.tickets);
}

}  // namespace spool::kernels::cuda
