// Kernels that move elements to or from computed places, and sorting. Outputs are allocated by the caller; tensors may have any strides, 0 included, and
// no output may overlap an input. Indices are i64 and have been checked: 0 .. size - 1.
#pragma once
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// y[.., i, ..] = x[.., index[.., i, ..], ..] along `dim`: y and index have one shape, which is no larger than x's in the other dimensions. Any type. An
// index that is the same along a dimension has stride 0 there: so whole rows are selected.
SPOOL_KERNEL(gather, (const Tensor& x, int dim, const Tensor& index, Tensor& y), (x, dim, index, y), y)
// y[.., index[.., i, ..], ..] += x[.., i, ..]: the transpose. Repeated indices add up in the order of i, on every device.
SPOOL_KERNEL(scatter_add, (const Tensor& x, int dim, const Tensor& index, Tensor& y), (x, dim, index, y), y)
// position (i64, 0-d) = the place in row-major order of the first index outside of 0 .. size - 1, or -1.
SPOOL_KERNEL(find_out_of_range, (const Tensor& index, std::int64_t size, Tensor& position), (index, size, position), position)
// The first k of the sorted elements along `dim` and where they were: values and indices (i64) have x's shape with size k at `dim`. Equal elements stay in
// order; NaN counts as the largest.
SPOOL_KERNEL(sort, (const Tensor& x, int dim, bool descending, Tensor& values, Tensor& indices),
             (x, dim, descending, values, indices), values)

}  // namespace spool::kernels
