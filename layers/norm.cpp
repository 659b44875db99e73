#include "spool/layers/norm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/layers/init.h"
#include "spool/layers/options.h"

namespace spool {
namespace {

void check_eps(const char* layer, double eps) {
  if (!(eps >= 0)) throw ValueError(layer, fmt::format("eps must be at least 0, not {}", eps));
}

const BatchNormBase::Options& checked(const char* layer, const BatchNormBase::Options& o) {
  detail::check_option(layer, "num_features", o.num_features, 1);
  check_eps(layer, o.eps);
  if (o.momentum && !(*o.momentum >= 0 && *o.momentum <= 1))
    throw ValueError(
        layer, fmt::format("momentum must be in [0, 1], not {}: it is the weight of the new batch (Keras's 0.99 is 0.01 here)",
                           *o.momentum));
  return o;
}

const LayerNorm::Options& checked(const LayerNorm::Options& o) {
  if (o.normalized_shape.dim() == 0)
    throw ValueError("LayerNorm", "normalized_shape is empty: give the sizes of the last dimensions, {.normalized_shape = {64}}");
  for (const std::int64_t d : o.normalized_shape) detail::check_option("LayerNorm", "normalized_shape", d, 1);
  check_eps("LayerNorm", o.eps);
  return o;
}

const GroupNorm::Options& checked(const GroupNorm::Options& o) {
  detail::check_option("GroupNorm", "num_groups", o.num_groups, 1);
  detail::check_option("GroupNorm", "num_channels", o.num_channels, 1);
  if (o.num_channels % o.num_groups != 0)
    throw ValueError("GroupNorm", fmt::format("num_groups = {} must divide num_channels = {}", o.num_groups, o.num_channels));
  check_eps("GroupNorm", o.eps);
  return o;
}

Tensor empty_if(bool wanted, const Shape& shape) { return wanted ? empty(shape) : Tensor(); }

void reset(Tensor& weight, Tensor& bias) {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

}  // namespace

BatchNormBase::BatchNormBase(const char* type, Options given)
    : options(checked(type, given)),
      weight(add_parameter("weight", empty_if(options.affine, {options.num_features}))),
      bias(add_parameter("bias", empty_if(options.affine && options.bias, {options.num_features}))),
      running_mean(add_buffer("running_mean", empty_if(options.track_running_stats, {options.num_features}))),
      running_var(add_buffer("running_var", empty_if(options.track_running_stats, {options.num_features}))),
      num_batches_tracked(add_buffer("num_batches_tracked", options.track_running_stats ? zeros({}, {.dtype = i64}) : Tensor())) {
  reset_parameters();
}

void BatchNormBase::reset_running_stats() {
  if (!options.track_running_stats) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

void BatchNormBase::reset_parameters() {
  reset_running_stats();
  reset(weight, bias);
}

template <class F>
Tensor BatchNormBase::run(const Tensor& x, const F& operation) {
  check_input(x);
  const bool use_batch = is_training() || !options.track_running_stats, update = is_training() && options.track_running_stats;
  const double momentum = options.momentum ? *options.momentum
                          : update         ? 1 / (static_cast<double>(num_batches_tracked.item<std::int64_t>()) + 1)
                                           : 0;
  Tensor y = operation(BatchNormOptions{.training = use_batch, .momentum = momentum, .eps = options.eps});
  if (update) {
    NoGrad guard;
    num_batches_tracked.add_(1);
  }
  return y;
}

Tensor BatchNormBase::forward(const Tensor& x) {
  return run(x, [&](const BatchNormOptions& o) { return batch_norm(x, weight, bias, running_mean, running_var, o); });
}

Tensor BatchNormBase::relu(const Tensor& x) {
  const LayerScope scope(*this);
  return run(x, [&](const BatchNormOptions& o) { return batch_norm_relu(x, weight, bias, running_mean, running_var, o); });
}

Tensor BatchNormBase::add_relu(const Tensor& x, const Tensor& residual) {
  const LayerScope scope(*this);
  return run(x,
             [&](const BatchNormOptions& o) { return batch_norm_relu(x, weight, bias, running_mean, running_var, o, residual); });
}

Tensor BatchNorm2d::relu_max_pool2d(const Tensor& x, const MaxPool2dOptions& pool) {
  const LayerScope scope(*this);
  return run(x, [&](const BatchNormOptions& o) {
    return batch_norm_relu_max_pool2d(x, weight, bias, running_mean, running_var, pool, o);
  });
}

std::string BatchNormBase::extra_repr() const {
  return fmt::format("{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}", options.num_features, options.eps,
                     options.momentum ? fmt::format("{}", *options.momentum) : "None", detail::python(options.affine),
                     detail::python(options.affine && options.bias), detail::python(options.track_running_stats));
}

void BatchNorm1d::check_input(const Tensor& x) const {
  if (x.dim() != 2 && x.dim() != 3) throw ShapeError("BatchNorm1d", "expects [N, C] or [N, C, L]", {{"input", x}});
}

void BatchNorm2d::check_input(const Tensor& x) const {
  if (x.dim() != 4) throw ShapeError("BatchNorm2d", "expects [N, C, H, W]", {{"input", x}});
}

LayerNorm::LayerNorm(Options given)
    : options(checked(given)),
      weight(add_parameter("weight", empty_if(options.elementwise_affine, options.normalized_shape))),
      bias(add_parameter("bias", empty_if(options.elementwise_affine && options.bias, options.normalized_shape))) {
  reset_parameters();
}

void LayerNorm::reset_parameters() { reset(weight, bias); }

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, options.normalized_shape, weight, bias, options.eps); }

std::string LayerNorm::extra_repr() const {
  const Shape& s = options.normalized_shape;
  return fmt::format("({}{}), eps={}, elementwise_affine={}, bias={}", fmt::join(s.begin(), s.end(), ", "),
                     s.dim() == 1 ? "," : "", options.eps, detail::python(options.elementwise_affine),
                     detail::python(options.elementwise_affine && options.bias));
}

GroupNorm::GroupNorm(Options given)
    : options(checked(given)),
      weight(add_parameter("weight", empty_if(options.affine, {options.num_channels}))),
      bias(add_parameter("bias", empty_if(options.affine && options.bias, {options.num_channels}))) {
  reset_parameters();
}

void GroupNorm::reset_parameters() { reset(weight, bias); }

Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, options.num_groups, weight, bias, options.eps); }

std::string GroupNorm::extra_repr() const {
  return fmt::format("{}, {}, eps={}, affine={}, bias={}", options.num_groups, options.num_channels, options.eps,
                     detail::python(options.affine), detail::python(options.affine && options.bias));
}

}  // namespace spool
