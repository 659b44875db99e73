// What the normalising operations ask of their operands.
#pragma once
#include "spool/core/tensor.h"

namespace spool::detail {

// The type of means, deviations, weights and biases in kernels/norm.h.
inline DType statistics_type(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// An optional operand in the type the kernels take it in, row-major; recorded.
Tensor prepared(const Tensor& t, DType type);

// Throws DTypeError, DeviceError or ShapeError unless an optional operand is floating point, where x is, and of this shape.
void check_vector(const char* op, const char* name, const Tensor& t, const Tensor& x, const Shape& shape);

// Throws ValueError for a negative one.
void check_eps(const char* op, double eps);

}  // namespace spool::detail
