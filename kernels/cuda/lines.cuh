// The lines of a tensor along one dimension: where each begins and how far apart its elements are.
#pragma once
#include "spool/kernels/cuda/loops.cuh"

namespace spool::kernels::cuda {

struct Lines {
  std::int64_t length = 1;
  std::int64_t steps[kMaxOperands];  // of each operand along the dimension, in elements
  Loop starts;                       // over the lines
};

// The operands agree in shape but for their sizes along `dim`; the length is the first one's.
inline Lines make_lines(int dim, std::initializer_list<const Tensor*> operands) {
  Lines lines;
  Tensor first[kMaxOperands];
  int k = 0;
  for (const Tensor* t : operands) {
    Shape shape = t->shape();
    if (t->dim()) shape[dim] = 1;
    lines.steps[k] = t->dim() ? t->strides()[dim] : 1;
    first[k++] = alias(*t, shape, t->strides(), t->offset());
  }
  const Tensor& longest = **operands.begin();
  if (longest.dim()) lines.length = longest.shape()[dim];
  switch (k) {
    case 1: lines.starts = make_loop({&first[0]}); break;
    case 2: lines.starts = make_loop({&first[0], &first[1]}); break;
    default: lines.starts = make_loop({&first[0], &first[1], &first[2]}); break;
  }
  return lines;
}

}  // namespace spool::kernels::cuda
