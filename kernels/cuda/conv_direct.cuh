// Convolution by its definition, a thread for each output: for f64, and for what cuDNN does not take.
#pragma once
#include "spool/kernels/conv.h"

namespace spool::kernels::cuda::direct {

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p);
void conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p);
// Without the bias.
void conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, const ConvParams& p);

}  // namespace spool::kernels::cuda::direct
