// Kernels that combine many elements into one, and running sums. Outputs are allocated by the caller and overwritten; x may have any strides,
// 0 included; no output may overlap x.
//
// Results depend on shapes and strides alone, not on the number of threads.
#pragma once
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// A set of dimensions: bit d stands for dimension d.
using DimMask = std::uint32_t;

enum class Reduce : std::uint8_t { sum, prod, max, min, any, all };

// y = x combined over `dims`. The dimensions of y are those of x that are kept, in order; the reduced ones may be there too, with size 1.
// sum takes every type, and gives i64 for integers and bool; prod, max and min take floating types and i64, and keep them; any and all take and give
// boolean. Floating sums and products are accumulated in double. NaN wins in max and min. Over no elements sum is 0, prod 1, any false, all true;
// max and min are undefined.
SPOOL_KERNEL(reduce, (Reduce op, const Tensor& x, DimMask dims, Tensor& y), (op, x, dims, y), y)
// y = sum / divisor, of a floating type; rounded once.
SPOOL_KERNEL(mean, (const Tensor& x, DimMask dims, double divisor, Tensor& y), (x, dims, divisor, y), y)
// The largest (or smallest) element along `dim`, which has at least one, and its first index, i64; NaN wins. Both outputs have x's shape with size 1 at `dim`.
SPOOL_KERNEL(extreme, (bool largest, const Tensor& x, int dim, Tensor& values, Tensor& indices),
             (largest, x, dim, values, indices), values)
// y[i] = x[0] + ... + x[i] along `dim`; y has x's shape; its type is x's or, for integers and bool, i64. Accumulated in double.
SPOOL_KERNEL(cumsum, (const Tensor& x, int dim, Tensor& y), (x, dim, y), y)

}  // namespace spool::kernels
