// Convolution in two dimensions (a cross-correlation, as everywhere in deep learning) and its two gradients.
//
// x [N, C, H, W], weight [O, C / groups, kH, kW], y [N, O, OH, OW]:
//   y[n, o, i, j] = bias[o] + sum over c, u, v of weight[o, c, u, v] * x[n, c', i * stride.h + u * dilation.h - padding.h, ...]
// where positions outside of x count as 0. All tensors of a call have one floating type. x, y and their gradients lie channels-last; weight and its
// gradient lie row-major or channels-last. Outputs are overwritten. OH and OW may be smaller than what fits (the rest of x is then not seen).
#pragma once
#include "spool/core/size2.h"
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

struct ConvParams {
  Size2 stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
};

// bias [O] or undefined.
SPOOL_KERNEL(conv2d, (const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p),
             (x, weight, bias, y, p), y)
// gx: the gradient of x, given gy, that of y.
SPOOL_KERNEL(conv2d_input_grad, (const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p), (gy, weight, gx, p),
             gx)
// gw: the gradient of weight; gb: that of bias [O], or undefined.
SPOOL_KERNEL(conv2d_weight_grad, (const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p),
             (x, gy, gw, gb, p), gw)

}  // namespace spool::kernels
