// Gradients as the kernels of the optimizers want them; what optim/*.cpp share, not for users.
#pragma once
#include "spool/core/tensor.h"

namespace spool::detail {

// The gradient of `param`, lying in memory like it (dense, same order); it is copied first where it does not. Undefined where there is none.
Tensor matching_gradient(const Tensor& param);
// Throws GradError naming the first parameter whose gradient holds an infinity or NaN when `norm`, a tensor of one f64, is not finite.
void check_finite_norm(const char* op, const Tensor& norm, const Tensor* params, std::size_t n);

}  // namespace spool::detail
