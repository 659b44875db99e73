// Normalisation and dropout. First derivatives come from fused kernels; while gradients are recorded, the same formulas are written with operations.
#include "spool/kernels/norm.h"

#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"

namespace spool {
namespace {

DType statistics_type(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// An optional [C] operand in the type the kernels take it in, recorded.
Tensor prepared(const Tensor& t, DType type) { return t.defined() ? contiguous(to(t, type)) : t; }

void check_vector(const char* op, const char* name, const Tensor& t, const Tensor& x, const Shape& shape) {
  if (!t.defined()) return;
  if (!is_floating(t.dtype()))
    throw DTypeError(op, fmt::format("{} is {}, and only floating-point tensors are taken", name, name_of(t.dtype())),
                     {{name, t}});
  if (t.device() != x.device())
    throw DeviceError(op, fmt::format("input and {} are on different devices: move one with to(device)", name),
                      {{"input", x}, {name, t}});
  if (t.shape() != shape)
    throw ShapeError(op, fmt::format("{} has shape {}, expected {}", name, to_string(t.shape()), to_string(shape)),
                     {{"input", x}, {name, t}});
}

void check_eps(const char* op, double eps) {
  if (!(eps >= 0)) throw ValueError(op, fmt::format("eps must be at least 0, not {}", eps));
}

// --- batch norm

// x in the order the kernels take it.
Tensor image_order(const Tensor& x) {
  return contiguous(x, x.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::contiguous);
}

Tensor made_like(const Tensor& x) {
  return empty(x.shape(), {.dtype = x.dtype(), .device = x.device()},
               x.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::contiguous);
}

Tensor sum_but_channels(const Tensor& t) {
  std::int64_t inner = 1;
  for (int d = 2; d < t.dim(); ++d) inner *= t.shape()[d];
  return sum(reshape(t, {t.shape()[0], t.shape()[1], inner}), {0, 2});
}

struct BatchNormNode final : Node {
  Saved x{this, "input"}, weight{this, "weight"}, mean{this, "mean"}, inv_std{this, "inv_std"};
  bool training = false;
  double eps = 0;
  std::size_t weight_input = 0, bias_input = 0;  // 0: there is none
  BatchNormNode() : Node("batch_norm") {}
  bool wants(std::size_t input) const { return input && needs(input); }

  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (grad_enabled()) return composed(grad_out[0], grad_in);
    const Tensor input = x.get(), g = image_order(grad_out[0]), m = mean.get();
    const TensorOptions options{.dtype = m.dtype(), .device = m.device()};
    Tensor gx, gw, gb;
    if (needs(0)) gx = made_like(input);
    if (wants(weight_input)) gw = empty(m.shape(), options);
    if (wants(bias_input)) gb = empty(m.shape(), options);
    kernels::batch_norm_backward(input, g, weight.get(), m, inv_std.get(), training, gx, gw, gb);
    grad_in[0] = gx;
    if (weight_input) grad_in[weight_input] = gw;
    if (bias_input) grad_in[bias_input] = gb;
  }

  // The kernel's formulas, with mean and deviation as functions of x again.
  void composed(const Tensor& grad, std::span<Tensor> grad_in) {
    const Tensor input = x.get().to(mean.peek().dtype()), g = grad.to(input.dtype());
    Shape per_channel = Shape::filled(input.dim(), 1);
    per_channel[1] = input.shape()[1];
    const auto spread = [&](const Tensor& t) { return reshape(t, per_channel); };
    const auto n = static_cast<double>(input.numel() / input.shape()[1]);
    Tensor centred, scale;
    if (training) {
      centred = sub(input, spread(div(sum_but_channels(input), n)));
      scale = rsqrt(add(div(sum_but_channels(square(centred)), n), eps));
    } else {
      centred = sub(input, spread(mean.get()));
      scale = inv_std.get();
    }
    const Tensor normal = mul(centred, spread(scale)), dot = sum_but_channels(mul(g, normal)), total = sum_but_channels(g);
    if (needs(0)) {
      const Tensor direct = training ? sub(g, add(spread(div(total, n)), mul(normal, spread(div(dot, n))))) : g;
      grad_in[0] = mul(direct, spread(weight.defined() ? mul(scale, weight.get()) : scale));
    }
    if (wants(weight_input)) grad_in[weight_input] = dot;
    if (wants(bias_input)) grad_in[bias_input] = total;
  }
};

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& scale, const Tensor& shift, Tensor& running_mean, Tensor& running_var,
                  const BatchNormOptions& o) {
  const char* op = "batch_norm";
  detail::check_same_floating(op, {{"input", input}});
  if (input.dim() < 2)
    throw ShapeError(op, fmt::format("input has {} dimensions, expected at least 2: [N, C, ...]", input.dim()),
                     {{"input", input}});
  check_eps(op, o.eps);
  const std::int64_t channels = input.shape()[1];
  const Shape per_channel{channels};
  check_vector(op, "weight", scale, input, per_channel);
  check_vector(op, "bias", shift, input, per_channel);
  check_vector(op, "running_mean", running_mean, input, per_channel);
  check_vector(op, "running_var", running_var, input, per_channel);
  if (running_mean.defined() != running_var.defined()) throw ValueError(op, "give both running statistics or none of them");
  if (!o.training && !running_mean.defined()) throw ValueError(op, "the running statistics are needed when not training");
  if (o.training && input.numel() < 2 * channels)
    throw ValueError(
        op,
        fmt::format(
            "training needs at least two values per channel to normalise, the input has {}: use a larger batch, or eval()",
            channels ? input.numel() / channels : 0),
        {{"input", input}});

  const DType type = statistics_type(input);
  const Tensor x = image_order(input), weight = prepared(scale, type), bias = prepared(shift, type);
  Tensor y = made_like(x), mean, inv_std;
  if (o.training) {
    const TensorOptions options{.dtype = type, .device = x.device()};
    mean = empty(per_channel, options);
    inv_std = empty(per_channel, options);
    NoGrad guard;
    // Where the running statistics are not of the kernel's type or order it works on copies.
    Tensor rm = prepared(running_mean.defined() ? running_mean.detach() : running_mean, type),
           rv = prepared(running_var.defined() ? running_var.detach() : running_var, type);
    kernels::batch_norm_train(x, weight, bias, rm, rv, o.momentum, o.eps, y, mean, inv_std);
    const auto store = [](Tensor& running, const Tensor& updated) {
      if (!running.defined()) return;
      if (updated.storage() == running.storage())
        running.storage()->bump_version();
      else
        running.copy_(updated);
    };
    store(running_mean, rm);
    store(running_var, rv);
  } else {
    NoGrad guard;
    // Copies: the running statistics may change before backward() reads them.
    mean = clone(prepared(running_mean, type));
    inv_std = rsqrt(add(prepared(running_var, type), o.eps));
    kernels::batch_norm_apply(x, mean, inv_std, weight, bias, y);
  }
  if (!any_needs_grad(x, weight, bias)) return y;
  auto node = record<BatchNormNode>(x);
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
  node->training = o.training;
  node->eps = o.eps;
  return set_history(std::move(y), node);
}

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
  const TensorOptions options{.dtype = statistics_type(x), .device = x.device()};
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
  return set_history(std::move(y), node);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
  const char* op = "layer_norm";
  detail::check_same_floating(op, {{"input", x}});
  check_eps(op, eps);
  const int kept = x.dim() - normalized_shape.dim();
  bool fits = normalized_shape.dim() > 0 && kept >= 0;
  for (int d = 0; fits && d < normalized_shape.dim(); ++d) fits = x.shape()[kept + d] == normalized_shape[d];
  if (!fits)
    throw ShapeError(op,
                     fmt::format("the last dimensions of the input must be the normalized_shape {}", to_string(normalized_shape)),
                     {{"input", x}});
  check_vector(op, "weight", weight, x, normalized_shape);
  check_vector(op, "bias", bias, x, normalized_shape);
  const std::int64_t width = normalized_shape.numel();
  if (width == 0)
    throw ShapeError(op, fmt::format("the normalized_shape {} holds no elements", to_string(normalized_shape)), {{"input", x}});
  const DType type = statistics_type(x);
  const auto flat = [&](const Tensor& t) { return t.defined() ? reshape(prepared(t, type), {width}) : t; };
  return reshape(normalised_rows(contiguous(reshape(x, {x.numel() / width, width})), flat(weight), flat(bias), eps), x.shape());
}

Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  const char* op = "group_norm";
  detail::check_same_floating(op, {{"input", x}});
  if (x.dim() < 2)
    throw ShapeError(op, fmt::format("input has {} dimensions, expected at least 2: [N, C, ...]", x.dim()), {{"input", x}});
  check_eps(op, eps);
  const std::int64_t channels = x.shape()[1];
  if (num_groups < 1 || channels % num_groups)
    throw ValueError(op, fmt::format("{} channels cannot be divided into {} groups", channels, num_groups), {{"input", x}});
  check_vector(op, "weight", weight, x, {channels});
  check_vector(op, "bias", bias, x, {channels});
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
  return set_history(std::move(y), node);
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
