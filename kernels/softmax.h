// Softmax along a dimension, and the losses over rows of classes. All are stable at any finite logits: the row's maximum is taken away before exp. A row with a NaN, with
// +inf or with nothing but -inf is NaN throughout; a -inf among finite logits has probability 0.
#pragma once
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// y like x in shape, type and strides; x is dense in any order of its dimensions. With `log`, y is the logarithm of the softmax.
SPOOL_KERNEL(softmax, (const Tensor& x, Tensor& y, int dim, bool log), (x, y, dim, log), y)
// gx from y and its gradient; all three with the same dense strides.
SPOOL_KERNEL(softmax_backward, (const Tensor& y, const Tensor& gy, Tensor& gx, int dim, bool log), (y, gy, gx, dim, log), gx)

// The loss of a row with label t is -sum over c of q[c] * log p[c], where q[c] = smoothing / C * weight[c], plus (1 - smoothing) * weight[t] for c = t; that of an
// ignored row is 0.
struct RowLossParams {
  std::int64_t ignore_index = -100;
  double smoothing = 0;
  bool from_logits = true;  // else x holds log p itself
  bool reduced = false;     // one number: the sum of the rows' losses ...
  bool mean = false;        // ... divided by the sum of weight[t] over the rows that count
};

// x [R, C], row-major; target [R] i64, row-major, each 0 .. C-1 or ignore_index; weight [C] of x's accumulation type S, or undefined. loss: [R], or [] where reduced, of
// x's type. divisor [], of S: what the sum was divided by, 1 without `mean`.
SPOOL_KERNEL(row_loss,
             (const Tensor& x, const Tensor& target, const Tensor& weight, Tensor& loss, Tensor& divisor, const RowLossParams& p),
             (x, target, weight, loss, divisor, p), loss)
// gx [R, C] from g, the gradient of loss. Where the divisor is 0 every gradient is 0.
SPOOL_KERNEL(row_loss_backward,
             (const Tensor& x, const Tensor& target, const Tensor& weight, const Tensor& g, const Tensor& divisor, Tensor& gx,
              const RowLossParams& p),
             (x, target, weight, g, divisor, gx, p), gx)

// position: the first index of target that is neither 0 .. classes-1 nor ignore_index, else -1. On a device it waits for the result.
SPOOL_KERNEL(find_bad_label, (const Tensor& target, std::int64_t classes, std::int64_t ignore_index, std::int64_t& position),
             (target, classes, ignore_index, position), target)

}  // namespace spool::kernels
