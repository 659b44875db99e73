// Layer norm, group norm and dropout. First derivatives come from fused kernels; while gradients are recorded, the same formulas are written with operations.
#include "spool/kernels/norm.h"

#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"
#include "spool/autograd/ops/norm_operands.h"

namespace spool {

// --- layer norm and group norm

namespace {

struct LayerNormNode final : Node {
  Saved x{this, "input"}, weight{this, "weight"}, mean{this, "mean"}, inv_std{this, "inv_std"};
  double eps = 0;
  std::size_t weight_input = 0, bias_input = 0;  // 0: there is none
  LayerNormNode() : Node("layer_norm") {}
  bool wants(std::size_t input) const { return input && needs(input); }

  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (grad_enabled()) return composed(grad_out[0], grad_in);
    const Tensor rows = x.get(), g = contiguous(grad_out[0]), m = mean.get();
    const TensorOptions options{.dtype = m.dtype(), .device = m.device()};
    const Shape width{rows.shape()[1]};
    Tensor gx, gw, gb;
    if (needs(0)) gx = empty(rows.shape(), {.dtype = rows.dtype(), .device = rows.device()});
    if (wants(weight_input)) gw = empty(width, options);
    if (wants(bias_input)) gb = empty(width, options);
    kernels::layer_norm_backward(rows, g, weight.get(), m, inv_std.get(), gx, gw, gb);
    grad_in[0] = gx;
    if (weight_input) grad_in[weight_input] = gw;
    if (bias_input) grad_in[bias_input] = gb;
  }

  void composed(const Tensor& grad, std::span<Tensor> grad_in) {
    const Tensor input = x.get().to(mean.peek().dtype()), g = grad.to(input.dtype());
    const auto n = static_cast<double>(input.shape()[1]);
    const auto row_mean = [n](const Tensor& t) { return div(sum(t, {1}, true), n); };
    const Tensor centred = sub(input, row_mean(input)), scale = rsqrt(add(row_mean(square(centred)), eps)),
                 normal = mul(centred, scale);
    if (needs(0)) {
      const Tensor weighted = weight.defined() ? mul(g, weight.get()) : g;
      grad_in[0] = mul(scale, sub(sub(weighted, row_mean(weighted)), mul(normal, row_mean(mul(weighted, normal)))));
    }
    if (wants(weight_input)) grad_in[weight_input] = sum(mul(g, normal), {0});
    if (wants(bias_input)) grad_in[bias_input] = sum(g, {0});
  }
};

// x [rows, D], row-major; weight and bias [D] in the kernel's type, or undefined.
Tensor normalised_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const TensorOptions options{.dtype = detail::statistics_type(x), .device = x.device()};
  Tensor y = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()}), mean = empty({x.shape()[0]}, options),
         inv_std = empty({x.shape()[0]}, options);
  kernels::layer_norm(x, weight, bias, eps, y, mean, inv_std);
  if (!any_needs_grad(x, weight, bias)) return y;
  auto node = record<LayerNormNode>(x);
  if (weight.defined()) {
    node->weight_input = node->inputs.size();
    node->inputs.emplace_back(weight);
    node->weight.save(weight);
  }
  if (bias.defined()) {
    node->bias_input = node->inputs.size();
    node->inputs.emplace_back(bias);
  }
  node->x.save(x);
  node->mean.save(mean);
  node->inv_std.save(inv_std);
  node->eps = eps;
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
  const char* op = "layer_norm";
  detail::check_same_floating(op, {{"input", x}});
  detail::check_eps(op, eps);
  const int kept = x.dim() - normalized_shape.dim();
  bool fits = normalized_shape.dim() > 0 && kept >= 0;
  for (int d = 0; fits && d < normalized_shape.dim(); ++d) fits = x.shape()[kept + d] == normalized_shape[d];
  if (!fits)
    throw ShapeError(op,
                     fmt::format("the last dimensions of the input must be the normalized_shape {}", to_string(normalized_shape)),
                     {{"input", x}});
  detail::check_vector(op, "weight", weight, x, normalized_shape);
  detail::check_vector(op, "bias", bias, x, normalized_shape);
  const std::int64_t width = normalized_shape.numel();
  if (width == 0)
    throw ShapeError(op, fmt::format("the normalized_shape {} holds no elements", to_string(normalized_shape)), {{"input", x}});
  const DType type = detail::statistics_type(x);
  const auto flat = [&](const Tensor& t) { return t.defined() ? reshape(detail::prepared(t, type), {width}) : t; };
  return reshape(normalised_rows(contiguous(reshape(x, {x.numel() / width, width})), flat(weight), flat(bias), eps), x.shape());
}

Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  const char* op = "group_norm";
  detail::check_same_floating(op, {{"input", x}});
  if (x.dim() < 2)
    throw ShapeError(op, fmt::format("input has {} dimensions, expected at least 2: [N, C, ...]", x.dim()), {{"input", x}});
  detail::check_eps(op, eps);
  const std::int64_t channels = x.shape()[1];
  if (num_groups < 1 || channels % num_groups)
    throw ValueError(op, fmt::format("{} channels cannot be divided into {} groups", channels, num_groups), {{"input", x}});
  detail::check_vector(op, "weight", weight, x, {channels});
  detail::check_vector(op, "bias", bias, x, {channels});
  const std::int64_t rows = x.shape()[0] * num_groups;
  if (x.numel() == 0) throw ShapeError(op, "the input is empty, and has nothing to normalise", {{"input", x}});
  Tensor y = reshape(normalised_rows(contiguous(reshape(x, {rows, x.numel() / rows})), {}, {}, eps), x.shape());
  Shape per_channel = Shape::filled(x.dim(), 1);
  per_channel[1] = channels;
  if (weight.defined()) y = mul(y, reshape(weight, per_channel));
  if (bias.defined()) y = add(y, reshape(bias, per_channel));
  return to(y, x.dtype());
}

// --- dropout

namespace {

Tensor masked(const Tensor& x, const Tensor& mask, double scale);

struct DropoutNode final : Node {
  Saved mask{this, "mask"};
  double scale = 1;
  DropoutNode() : Node("dropout") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = masked(grad_out[0], mask.get(), scale);
  }
};

Tensor masked(const Tensor& x, const Tensor& mask, double scale) {
  Tensor y = empty_like(x);
  kernels::masked_scale(x, mask, scale, y);
  if (!needs_grad(x)) return y;
  auto node = record<DropoutNode>(x);
  node->mask.save(mask);
  node->scale = scale;
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  if (!(p >= 0 && p <= 1)) throw ValueError("dropout", fmt::format("the probability must be between 0 and 1, not {}", p));
  detail::check_same_floating("dropout", {{"input", x}});
  if (!training || p == 0) return x;
  Tensor mask = empty(x.shape(), {.dtype = DType::boolean, .device = x.device()});
  kernels::dropout_mask(mask, p, generator.draw());
  return masked(x, mask, p == 1 ? 0 : 1 / (1 - p));
}

}  // namespace spool
