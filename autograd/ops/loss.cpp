// Losses that compare a prediction with a target of its own shape. Cross-entropy is in softmax.cpp.
#include <fmt/format.h>

#include <limits>

#include "spool/autograd/autocast.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

// A target of shape [N] against a prediction [N, 1] would broadcast to [N, N], and train towards nothing.
void check_same_shape(const char* op, const Tensor& input, const Tensor& target) {
  if (input.shape() != target.shape())
    throw ShapeError(op, "input and target must have one shape, since a loss does not broadcast: reshape or squeeze one of them",
                     {{"input", input}, {"target", target}});
  if (!is_floating(input.dtype()))
    throw DTypeError(op, fmt::format("the input must be floating point, not {}: use to(f32)", name_of(input.dtype())),
                     {{"input", input}});
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return sum(losses);
    case Reduction::none: return losses;
    case Reduction::mean: break;
  }
  return mean(losses);
}

}  // namespace

Tensor mse_loss(const Tensor& given, const Tensor& target, LossOptions options) {
  const Tensor input = detail::raised(given);
  check_same_shape("mse_loss", input, target);
  return reduced(square(sub(input, target)), options.reduction);
}

Tensor l1_loss(const Tensor& given, const Tensor& target, LossOptions options) {
  const Tensor input = detail::raised(given);
  check_same_shape("l1_loss", input, target);
  return reduced(abs(sub(input, target)), options.reduction);
}

Tensor smooth_l1_loss(const Tensor& given, const Tensor& target, SmoothL1LossOptions options) {
  const Tensor input = detail::raised(given);
  check_same_shape("smooth_l1_loss", input, target);
  if (!(options.beta >= 0) || options.beta == std::numeric_limits<double>::infinity())
    throw ValueError("smooth_l1_loss", fmt::format("beta must be a number of at least 0, not {}", options.beta));
  const Tensor distance = abs(sub(input, target));
  if (options.beta == 0) return reduced(distance, options.reduction);
  // The part up to beta counts by its square, the part beyond by its size; without a choice of branches an infinite distance has a gradient too.
  const Tensor near = clamp(distance, {}, options.beta);
  return reduced(add(mul(square(near), 0.5 / options.beta), sub(distance, near)), options.reduction);
}

namespace {

bool stretches(const Shape& from, const Shape& to) {
  const int shift = to.dim() - from.dim();
  bool fits = shift >= 0;
  for (int d = 0; fits && d < from.dim(); ++d) fits = from[d] == 1 || from[d] == to[d + shift];
  return fits;
}

// a * b, and 0 where a is 0 and b infinite. Elsewhere a * b with both its gradients.
Tensor product_with_limit(const Tensor& a, const Tensor& b) {
  const Tensor limit = logical_and(eq(a, 0), eq(b, std::numeric_limits<double>::infinity()));
  return mul(a, masked_fill(b, limit, 0));
}

}  // namespace

Tensor binary_cross_entropy_with_logits(const Tensor& given, const Tensor& target, const BceOptions& options) {
  const Tensor logits = detail::raised(given);
  const char* op = "binary_cross_entropy_with_logits";
  check_same_shape(op, logits, target);
  if (options.pos_weight.defined() && !stretches(options.pos_weight.shape(), logits.shape()))
    throw ShapeError(op, "pos_weight does not broadcast to the logits' shape",
                     {{"logits", logits}, {"pos_weight", options.pos_weight}});
  // t softplus(-x) + (1 - t) softplus(x) is max(x, 0) - x t + log1p(exp(-|x|)) as a sum of what cannot be negative: nothing cancels, and an infinite
  // logit on the right side of its target costs 0.
  const Tensor positive = options.pos_weight.defined() ? mul(target, options.pos_weight) : target;
  return reduced(add(product_with_limit(positive, softplus(neg(logits))), product_with_limit(sub(1, target), softplus(logits))),
                 options.reduction);
}

}  // namespace spool
