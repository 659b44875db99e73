#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/observer.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/kernels/optim.h"
#include "spool/optim/gradients.h"
#include "spool/optim/optimizer.h"

namespace spool {
namespace {

bool same_layout(const Tensor& a, const Tensor& b) {
  for (int d = 0; d < a.dim(); ++d)
    if (a.shape()[d] != 1 && a.strides()[d] != b.strides()[d]) return false;
  return true;
}

std::vector<Tensor> gradients_of(const char* op, std::span<const Tensor> parameters) {
  NoGrad guard;
  std::vector<Tensor> grads;
  for (const Tensor& p : parameters)
    if (Tensor g = detail::matching_gradient(p); g.defined()) {
      if (!grads.empty() && g.device() != grads[0].device())
        throw DeviceError(op, "the gradients lie on different devices: clip those of each device by themselves",
                          {{"first", grads[0]}, {"other", g}});
      grads.push_back(std::move(g));
    }
  return grads;
}

}  // namespace

Tensor detail::matching_gradient(const Tensor& param) {
  TensorImpl& t = *param.impl();
  if (!t.grad.defined() || same_layout(t.grad, param)) return t.grad;
  Tensor like = empty_like(param);
  like.copy_(t.grad);
  t.grad = std::move(like);
  return t.grad;
}

void detail::check_finite_norm(const char* op, const Tensor& norm, const Tensor* params, std::size_t n) {
  const double value = norm.item<double>();
  if (std::isfinite(value)) return;
  Tensor one = empty({}, {.dtype = f64, .device = norm.device()});
  for (std::size_t i = 0; i < n; ++i) {
    const Tensor& g = params[i].grad();
    if (!g.defined()) continue;
    kernels::grad_norm(std::span(&g, 1), 2, 1, one);
    if (std::isfinite(one.item<double>())) continue;
    const std::string name = params[i].name().empty() ? fmt::format("parameter {}", i) : "'" + params[i].name() + "'";
    throw GradError(
        op,
        fmt::format(
            "the norm of the gradients is {}, first of all that of {}; nothing was changed. Lower the learning rate, clip "
            "earlier, or look for a division or logarithm of zero in the loss",
            std::abs(value), name),
        {{"gradient", g}});
  }
  throw GradError(
      op, fmt::format("the norm of the gradients is {} although each gradient is finite: they are too large; nothing was changed",
                      value));
}

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, ClipGradNormOptions options) {
  if (!(max_norm >= 0)) throw ValueError("clip_grad_norm_", fmt::format("max_norm must be at least 0, not {}", max_norm));
  if (!(options.norm_type > 0))
    throw ValueError("clip_grad_norm_", fmt::format("norm_type must be above 0 or infinity, not {}", options.norm_type));
  const std::vector<Tensor> grads = gradients_of("clip_grad_norm_", parameters);
  Tensor norm = empty({}, {.dtype = f64, .device = grads.empty() ? Device::cpu() : grads[0].device()});
  if (grads.empty()) return norm.zero_();
  kernels::grad_norm(grads, options.norm_type, 1, norm);
  if (options.error_if_nonfinite) detail::check_finite_norm("clip_grad_norm_", norm, parameters.data(), parameters.size());
  kernels::transform_gradients(grads, {.max_norm = max_norm}, norm);
  for (const Tensor& g : grads) mark_overwritten("clip_grad_norm_", g);
  return norm;
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value) {
  if (!(clip_value >= 0)) throw ValueError("clip_grad_value_", fmt::format("clip_value must be at least 0, not {}", clip_value));
  const std::vector<Tensor> grads = gradients_of("clip_grad_value_", parameters);
  if (grads.empty()) return;
  kernels::transform_gradients(grads, {.clip_value = clip_value}, {});
  for (const Tensor& g : grads) mark_overwritten("clip_grad_value_", g);
}

}  // namespace spool
