// What the reductions share; not for users.
#pragma once
#include "spool/kernels/reduce.h"

namespace spool::detail {

using kernels::DimMask;

DimMask all_dims(const Tensor& x);
// The dimensions a user named, or all where none are. Throws IndexError, and ValueError for one given twice.
DimMask dim_mask(const char* op, const Tensor& x, Dims dims);
Shape reduced_shape(const Tensor& x, DimMask dims, bool keepdim);
// How many elements go into each result.
std::int64_t reduced_count(const Tensor& x, DimMask dims);
void check_floating(const char* op, const Tensor& x);
// A result over `dims` of a tensor of this shape, with its reduced dimensions put back at size 1.
Tensor with_kept_dims(const Tensor& g, const Shape& shape, DimMask dims);
// The same stretched to the shape: the derivative of a sum.
Tensor spread(const Tensor& g, const Shape& shape, DimMask dims);

}  // namespace spool::detail
