// Elementwise kernels. Outputs are allocated by the caller and overwritten; all tensors of a call have the output's shape (operands are
// expanded by strides of 0), any strides, and, but for copy, one device. An output may be the very tensor an operand is, and may not overlap it otherwise.
#pragma once
#include "spool/core/generator.h"
#include "spool/kernels/binary_ops.h"
#include "spool/kernels/dispatch.h"
#include "spool/kernels/unary_ops.h"

namespace spool::kernels {

// y = op.f(x); one floating type. those of takes_integers also i64, i32 and u8.
template <class Op>
void unary(const Op& op, const Tensor& x, Tensor& y);
// gx = g * op.df(saved); one floating type.
template <class Op>
void unary_backward(const Op& op, const Tensor& saved, const Tensor& g, Tensor& gx);
// y = op(a, b); a and b have one type, and so has y, except that comparisons write boolean.
template <class Op>
void binary(const Op& op, const Tensor& a, const Tensor& b, Tensor& y);

#define SPOOL_DECLARE(ns)                                                          \
  namespace ns {                                                                   \
  template <class Op>                                                              \
  void unary(const Op& op, const Tensor& x, Tensor& y);                            \
  template <class Op>                                                              \
  void unary_backward(const Op& op, const Tensor& s, const Tensor& g, Tensor& gx); \
  template <class Op>                                                              \
  void binary(const Op& op, const Tensor& a, const Tensor& b, Tensor& y);          \
  }
SPOOL_DECLARE(cpu)
SPOOL_DECLARE(cuda)
#undef SPOOL_DECLARE

template <class Op>
void unary(const Op& op, const Tensor& x, Tensor& y) {
  SPOOL_RUN(Op::name, (x, y), y, unary(op, x, y));
}
template <class Op>
void unary_backward(const Op& op, const Tensor& saved, const Tensor& g, Tensor& gx) {
  SPOOL_RUN(Op::name, (saved, g, gx), gx, unary_backward(op, saved, g, gx));
}
template <class Op>
void binary(const Op& op, const Tensor& a, const Tensor& b, Tensor& y) {
  SPOOL_RUN(Op::name, (a, b, y), y, binary(op, a, b, y));
}

// y = condition ? a : b; condition boolean, a, b and y of one type.
SPOOL_KERNEL(where, (const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y), (condition, a, b, y), y)
// y = x, converted to y's type: to boolean means != 0, to integers truncates. x and y may be on different devices: where one is a CUDA device it does the work.
SPOOL_KERNEL(copy, (const Tensor& x, Tensor& y), (x, y), x.is_cuda() ? x : y)
// y = value
SPOOL_KERNEL(fill, (Tensor & y, Scalar value), (y, value), y)
// y[i] = start + i * step over the row-major index i; y is contiguous.
SPOOL_KERNEL(arange, (Tensor & y, Scalar start, Scalar step), (y, start, step), y)
// Element i of the row-major order from counter i of the draw: uniform in [low, high), normal(mean, std), 1 with probability p else 0 (of
// y's type), integers in [low, high). y is contiguous.
SPOOL_KERNEL(random_uniform, (Tensor & y, double low, double high, Generator::Draw draw), (y, low, high, draw), y)
SPOOL_KERNEL(random_normal, (Tensor & y, double mean, double std, Generator::Draw draw), (y, mean, std, draw), y)
SPOOL_KERNEL(random_integers, (Tensor & y, std::int64_t low, std::int64_t high, Generator::Draw draw), (y, low, high, draw), y)

}  // namespace spool::kernels
