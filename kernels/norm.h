// Normalisation and dropout. Statistics are of the type S in which the element type T is accumulated (f32 for f32 and bf16, f64 for f64); weights and biases are of S too.
// Variances are found in two passes or by merging those of blocks, never as a difference of large sums. Outputs are overwritten.
#pragma once
#include "spool/core/generator.h"
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// Batch norm over channel dimension 1 of x [N, C, ...]: x, y and their gradients are channels-last where they have four dimensions, else row-major. weight, bias,
// running_mean and running_var are [C] of S or undefined.

// y = (x - mean) * inv_std * weight + bias with the mean and variance of x itself; writes mean and inv_std = 1 / sqrt(var + eps), [C] of S. The running statistics become
// (1 - momentum) * running + momentum * batch, with the variance over n - 1.
SPOOL_KERNEL(batch_norm_train,
             (const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var,
              double momentum, double eps, Tensor& y, Tensor& mean, Tensor& inv_std),
             (x, weight, bias, running_mean, running_var, momentum, eps, y, mean, inv_std), y)
// Its first half: mean, inv_std and the running statistics.
SPOOL_KERNEL(batch_norm_stats,
             (const Tensor& x, Tensor& running_mean, Tensor& running_var, double momentum, double eps, Tensor& mean,
              Tensor& inv_std),
             (x, running_mean, running_var, momentum, eps, mean, inv_std), mean)
// Its second half, for any mean and inv_std.
SPOOL_KERNEL(batch_norm_apply,
             (const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias, Tensor& y),
             (x, mean, inv_std, weight, bias, y), y)
// Gradients of either. gx like x; gw and gb [C] of S; each may be undefined. `training`: mean and inv_std came from x.
SPOOL_KERNEL(batch_norm_backward,
             (const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std, bool training,
              Tensor& gx, Tensor& gw, Tensor& gb),
             (x, gy, weight, mean, inv_std, training, gx, gw, gb), gy)

// Each row of x [rows, D] brought to mean 0 and variance 1, then times weight plus bias, [D] of S or undefined; mean and inv_std [rows] of S. All row-major.
SPOOL_KERNEL(layer_norm,
             (const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& inv_std),
             (x, weight, bias, eps, y, mean, inv_std), y)
// gx [rows, D]; gw and gb [D] of S; each may be undefined.
SPOOL_KERNEL(layer_norm_backward,
             (const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std, Tensor& gx,
              Tensor& gw, Tensor& gb),
             (x, gy, weight, mean, inv_std, gx, gw, gb), gy)

// mask[i] = whether element i of the row-major order stays, decided by counter i of the draw alone: it goes with probability p. mask is boolean and row-major.
SPOOL_KERNEL(dropout_mask, (Tensor & mask, double p, Generator::Draw draw), (mask, p, draw), mask)
// y = mask ? x * scale : 0. x, y and mask have one shape and any strides.
SPOOL_KERNEL(masked_scale, (const Tensor& x, const Tensor& mask, double scale, Tensor& y), (x, mask, scale, y), y)

}  // namespace spool::kernels
