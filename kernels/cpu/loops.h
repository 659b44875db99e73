// Loops over tensors of one shape and any strides: dimensions are put in memory order and merged where they can be, the rows are
// shared among threads, and a kernel sees only (pointers, strides, length) of one row.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "spool/core/tensor.h"

// Before a loop whose iterations do not depend on each other, although its pointers may be the same.
#if defined(__clang__)
#define SPOOL_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define SPOOL_IVDEP _Pragma("GCC ivdep")
#endif

namespace spool::kernels::cpu {

inline constexpr int kMaxOperands = 4;

// One row: `pointers[k]` is operand k's first element, `strides[k]` its distance to the next in bytes.
using RowKernel = void (*)(const void* context, std::byte* const* pointers, const std::int64_t* strides, std::int64_t n);

// Elements below which a loop stays on one thread: waking another costs a few microseconds.
inline constexpr std::int64_t kParallelGrain = 16384;

// Runs `kernel` over all rows. The first operand is the output and decides the order. Operands of stride 0 are broadcast.
void for_each_row(std::initializer_list<const Tensor*> operands, RowKernel kernel, const void* context);

// The same on the calling thread alone, rows in ascending order of every dimension's index: for outputs that several rows add to.
void for_each_row_in_order(std::initializer_list<const Tensor*> operands, RowKernel kernel, const void* context);

// The same with a lambda (pointers, strides, n).
template <class F>
void for_each_row(std::initializer_list<const Tensor*> operands, const F& f) {
  for_each_row(
      operands,
      [](const void* context, std::byte* const* p, const std::int64_t* s, std::int64_t n) {
        (*static_cast<const F*>(context))(p, s, n);
      },
      &f);
}
template <class F>
void for_each_row_in_order(std::initializer_list<const Tensor*> operands, const F& f) {
  for_each_row_in_order(
      operands,
      [](const void* context, std::byte* const* p, const std::int64_t* s, std::int64_t n) {
        (*static_cast<const F*>(context))(p, s, n);
      },
      &f);
}

}  // namespace spool::kernels::cpu
