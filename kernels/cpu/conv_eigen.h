// Convolution of f32 by matrix products: the windows of an image become the rows of a matrix (im2col), and Eigen multiplies. What runs where oneDNN is absent.
#pragma once
#include "spool/kernels/conv.h"

namespace spool::kernels::cpu::eigen {

// Each does what the kernel of its name does, for f32.
void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p);
void conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p);
void conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p);

}  // namespace spool::kernels::cpu::eigen
