#include "spool/kernels/cuda/loops.cuh"

namespace spool::kernels::cuda {

Loop make_loop(std::initializer_list<const Tensor*> operands) {
  Loop loop;
  const Tensor& out = **operands.begin();
  loop.numel = out.numel();
  int order[kMaxDims], n = 0;
  for (int d = out.dim() - 1; d >= 0; --d)
    if (out.shape()[d] != 1) order[n++] = d;
  sort_dims(order, n, [&](int a, int b) { return out.strides()[a] < out.strides()[b]; });
  int k = 0;
  for (const Tensor* t : operands) loop.data[k++] = t->raw_data();
  for (int i = 0; i < n; ++i) {
    const std::int64_t size = out.shape()[order[i]];
    const int last = loop.dims - 1;
    bool merges = last >= 0;
    k = 0;
    for (const Tensor* t : operands) {
      merges = merges && t->strides()[order[i]] == loop.strides[k][last] * loop.sizes[last];
      ++k;
    }
    if (merges) {
      loop.sizes[last] *= size;
      continue;
    }
    k = 0;
    for (const Tensor* t : operands) loop.strides[k++][loop.dims] = t->strides()[order[i]];
    loop.sizes[loop.dims++] = size;
  }
  if (loop.dims == 0) {
    loop.dims = 1;
    loop.sizes[0] = 1;
    for (k = 0; k < static_cast<int>(operands.size()); ++k) loop.strides[k][0] = 1;
  }
  return loop;
}

bool is_flat(const Loop& loop, int operand) {
  return loop.dims == 1 && loop.strides[operand][0] == 1 && reinterpret_cast<std::uintptr_t>(loop.data[operand]) % 16 == 0;
}

bool is_single(const Loop& loop, int operand) {
  for (int d = 0; d < loop.dims; ++d)
    if (loop.strides[operand][d] != 0) return false;
  return true;
}

}  // namespace spool::kernels::cuda
