// Matrix products.
#pragma once
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// y = a b + bias: a [B, m, k], b [B, k, n], y [B, m, n], bias [n] or undefined; all of one floating type. a and b may have any strides, also a batch
// stride of 0; of the last two dimensions of each, one has stride 1 (or size 1) and neither has stride 0 unless its size is 1. y is row-major.
// With k = 0 the product is zero.
SPOOL_KERNEL(matmul, (const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y), (a, b, bias, y), y)

}  // namespace spool::kernels
