#include "spool/kernels/cpu/loops.h"

#include <algorithm>

#include "spool/core/parallel.h"

namespace spool::kernels::cpu {
namespace {

struct Loop {
  int operands = 0, dims = 0;
  std::int64_t sizes[kMaxDims];                  // innermost first
  std::int64_t strides[kMaxDims][kMaxOperands];  // in bytes
  std::byte* pointers[kMaxOperands];
};

// Dimensions of size 1 dropped, the rest in the order of the output's strides, neighbours merged where every operand allows it.
Loop make_loop(std::initializer_list<const Tensor*> operands) {
  Loop loop;
  const Tensor& out = **operands.begin();
  int order[kMaxDims], n = 0;
  for (int d = out.dim() - 1; d >= 0; --d)
    if (out.shape()[d] != 1) order[n++] = d;
  sort_dims(order, n, [&](int a, int b) { return out.strides()[a] < out.strides()[b]; });
  std::int64_t item[kMaxOperands];
  for (const Tensor* t : operands) {
    loop.pointers[loop.operands] = static_cast<std::byte*>(t->raw_data());
    item[loop.operands++] = static_cast<std::int64_t>(size_of(t->dtype()));
  }
  for (int i = 0; i < n; ++i) {
    std::int64_t stride[kMaxOperands];
    int k = 0;
    for (const Tensor* t : operands) {
      stride[k] = t->strides()[order[i]] * item[k];
      ++k;
    }
    const int last = loop.dims - 1;
    bool merges = last >= 0;
    for (k = 0; merges && k < loop.operands; ++k) merges = stride[k] == loop.strides[last][k] * loop.sizes[last];
    if (merges) {
      loop.sizes[last] *= out.shape()[order[i]];
    } else {
      std::copy_n(stride, loop.operands, loop.strides[loop.dims]);
      loop.sizes[loop.dims++] = out.shape()[order[i]];
    }
  }
  if (loop.dims == 0) {
    loop.sizes[0] = 1;
    for (int k = 0; k < loop.operands; ++k) loop.strides[0][k] = item[k];
    loop.dims = 1;
  }
  return loop;
}

// Rows [begin, end) of the loop.
void run_rows(const Loop& loop, RowKernel kernel, const void* context, std::int64_t begin, std::int64_t end) {
  std::int64_t index[kMaxDims] = {};
  std::byte* p[kMaxOperands];
  std::copy_n(loop.pointers, loop.operands, p);
  std::int64_t rest = begin;
  for (int d = 1; d < loop.dims; ++d) {
    index[d] = rest % loop.sizes[d];
    rest /= loop.sizes[d];
    for (int k = 0; k < loop.operands; ++k) p[k] += index[d] * loop.strides[d][k];
  }
  for (std::int64_t row = begin; row < end; ++row) {
    kernel(context, p, loop.strides[0], loop.sizes[0]);
    for (int d = 1; d < loop.dims; ++d) {
      for (int k = 0; k < loop.operands; ++k) p[k] += loop.strides[d][k];
      if (++index[d] < loop.sizes[d]) break;
      for (int k = 0; k < loop.operands; ++k) p[k] -= index[d] * loop.strides[d][k];
      index[d] = 0;
    }
  }
}

// Whether all operands are dense, in one order.
bool lie_alike(std::initializer_list<const Tensor*> operands) {
  const Tensor& out = **operands.begin();
  for (const Tensor* t : operands)
    if (t != &out && !(t->strides() == out.strides())) return false;
  return out.is_contiguous();
}

}  // namespace

void for_each_row(std::initializer_list<const Tensor*> operands, RowKernel kernel, const void* context) {
  const std::int64_t numel = (*operands.begin())->numel();
  if (numel == 0) return;
  if (numel <= kParallelGrain && lie_alike(operands)) {  // a small tensor's time is that of finding out how to go through it
    std::byte* pointers[kMaxOperands];
    std::int64_t strides[kMaxOperands];
    int k = 0;
    for (const Tensor* t : operands) {
      pointers[k] = static_cast<std::byte*>(t->raw_data());
      strides[k++] = static_cast<std::int64_t>(size_of(t->dtype()));
    }
    kernel(context, pointers, strides, numel);
    return;
  }
  const Loop loop = make_loop(operands);
  const std::int64_t inner = loop.sizes[0], outer = numel / inner;
  if (outer == 1) {
    parallel_for(inner, kParallelGrain, [&](std::int64_t begin, std::int64_t end) {
      std::byte* p[kMaxOperands];
      for (int k = 0; k < loop.operands; ++k) p[k] = loop.pointers[k] + begin * loop.strides[0][k];
      kernel(context, p, loop.strides[0], end - begin);
    });
    return;
  }
  parallel_for(outer, std::max<std::int64_t>(1, kParallelGrain / inner),
               [&](std::int64_t begin, std::int64_t end) { run_rows(loop, kernel, context, begin, end); });
}

void for_each_row_in_order(std::initializer_list<const Tensor*> operands, RowKernel kernel, const void* context) {
  const std::int64_t numel = (*operands.begin())->numel();
  if (numel == 0) return;
  const Loop loop = make_loop(operands);
  run_rows(loop, kernel, context, 0, numel / loop.sizes[0]);
}

}  // namespace spool::kernels::cpu
