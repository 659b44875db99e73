// Batch norm together with the ReLU, and perhaps the max-pooling, that follows it: what takes seven passes over the activations one after the other takes two each way.
// Operands, types and memory order are those of kernels/norm.h and kernels/pool.h; mean and inv_std come from batch_norm_stats, or are running statistics.
#pragma once
#include "spool/core/size2.h"
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// y = relu((x - mean) * inv_std * weight + bias + residual); residual like x, or undefined.
SPOOL_KERNEL(batch_norm_relu,
             (const Tensor& x, const Tensor& residual, const Tensor& mean, const Tensor& inv_std, const Tensor& weight,
              const Tensor& bias, Tensor& y),
             (x, residual, mean, inv_std, weight, bias, y), y)
// Gradients of it. gx and gresidual like x; gw and gb [C]; each may be undefined. `training`: mean and inv_std came from x. Without a residual (`plain`) y tells what was
// normalised, and x need not be read twice.
SPOOL_KERNEL(batch_norm_relu_backward,
             (const Tensor& x, const Tensor& y, const Tensor& gy, const Tensor& weight, const Tensor& bias, const Tensor& mean,
              const Tensor& inv_std, bool training, bool plain, Tensor& gx, Tensor& gw, Tensor& gb, Tensor& gresidual),
             (x, y, gy, weight, bias, mean, inv_std, training, plain, gx, gw, gb, gresidual), gy)

// No window of a pool has so many elements: its maximum was not above 0, and no gradient passes.
inline constexpr std::uint8_t kNoMaximum = 255;

// x [N, C, H, W] -> y [N, C, H / kernel.h, W / kernel.w], rounded down: the largest of each window of relu((x - mean) * inv_std * weight + bias). Windows lie side by side and have at most
// 254 elements. index (u8, like y): the place u * kernel.w + v of the maximum, the first of equals, or kNoMaximum.
SPOOL_KERNEL(batch_norm_relu_pool,
             (const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias, Size2 kernel,
              Tensor& y, Tensor& index),
             (x, mean, inv_std, weight, bias, kernel, y, index), y)
SPOOL_KERNEL(batch_norm_relu_pool_backward,
             (const Tensor& x, const Tensor& y, const Tensor& index, const Tensor& gy, const Tensor& weight, const Tensor& bias,
              const Tensor& mean, const Tensor& inv_std, bool training, Size2 kernel, Tensor& gx, Tensor& gw, Tensor& gb),
             (x, y, index, gy, weight, bias, mean, inv_std, training, kernel, gx, gw, gb), gy)

}  // namespace spool::kernels
