// oneDNN behind plain functions: the one place that knows its API (2.x and 3.x differ). Each function does what the kernel of its name does and returns
// true, or returns false and does nothing where oneDNN has no implementation for the call (or is not part of the build); the caller
// then takes its own loops. Only f32 and bf16 are taken.
#pragma once
#include "spool/kernels/conv.h"

namespace spool::kernels::cpu::onednn {

bool conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p);
bool conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p);
bool conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p);
bool matmul(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y);

}  // namespace spool::kernels::cpu::onednn
