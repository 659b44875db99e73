// Operations that other operations are made of; not for users.
#pragma once
#include "spool/autograd/ops.h"

namespace spool::detail {

// x + value and x * value for floating-point x.
Tensor add_scalar(const Tensor& x, double value);
Tensor mul_scalar(const Tensor& x, double value);

// Gives `values`, which are gather(x, dim, index), the history of that gather under the name `op`.
Tensor recorded_take(const char* op, const Tensor& x, int dim, const Tensor& index, Tensor values);
// Throws DTypeError unless the indices are i64, and IndexError naming the first one outside of 0 .. size - 1 and where it stands.
void check_indices(const char* op, const Tensor& index, std::int64_t size);

// The gradients of conv2d (ops/conv.cpp), themselves differentiable: of its input, from that of its result, and of its weight, which
// comes in the given memory format. Sizes are not checked.
// Recorded under the name `op`.
Tensor conv2d_input_grad(const Tensor& grad, const Tensor& weight, const Shape& input_shape, const ConvOptions& options,
                         const char* op = "conv2d_input_grad");
Tensor conv2d_weight_grad(const Tensor& input, const Tensor& grad, const Shape& weight_shape, const ConvOptions& options,
                          MemoryFormat format = MemoryFormat::contiguous);

// The shape of max_pool2d's result. Throws what max_pool2d throws.
Shape max_pool2d_shape(const Tensor& x, const MaxPool2dOptions& options);

}  // namespace spool::detail
