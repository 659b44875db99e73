// Batch norm, alone and together with what often follows it. First derivatives come from kernels; while gradients are recorded, the same formulas are
// written with operations.
#include <fmt/format.h>

#include "spool/autograd/autograd.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/observer.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"
#include "spool/autograd/ops/internal.h"
#include "spool/autograd/ops/norm_operands.h"
#include "spool/kernels/norm.h"
#include "spool/kernels/norm_relu.h"

namespace spool {
namespace {

using detail::prepared;

// x in the order the kernels take it.
Tensor image_order(const Tensor& x) {
  return contiguous(x, x.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::contiguous);
}

Tensor made_like(const Tensor& x) {
  return empty(x.shape(), {.dtype = x.dtype(), .device = x.device()},
               x.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::contiguous);
}

// The operands as the kernels take them, and the statistics to normalise with.
struct Operands {
  Tensor x, weight, bias, mean, inv_std;
};

// Checks the call, brings its operands into order, and finds the statistics. In training it updates the running ones; where `y` is given, it normalises into it in the same go.
Operands prepare(const char* op, const Tensor& input, const Tensor& scale, const Tensor& shift, Tensor& running_mean,
                 Tensor& running_var, const BatchNormOptions& o, Tensor* y) {
  detail::check_same_floating(op, {{"input", input}});
  if (input.dim() < 2)
    throw ShapeError(op, fmt::format("input has {} dimensions, expected at least 2: [N, C, ...]", input.dim()),
                     {{"input", input}});
  detail::check_eps(op, o.eps);
  const std::int64_t channels = input.shape()[1];
  const Shape per_channel{channels};
  detail::check_vector(op, "weight", scale, input, per_channel);
  detail::check_vector(op, "bias", shift, input, per_channel);
  detail::check_vector(op, "running_mean", running_mean, input, per_channel);
  detail::check_vector(op, "running_var", running_var, input, per_channel);
  if (running_mean.defined() != running_var.defined()) throw ValueError(op, "give both running statistics or none of them");
  if (!o.training && !running_mean.defined()) throw ValueError(op, "the running statistics are needed when not training");
  if (o.training && input.numel() < 2 * channels)
    throw ValueError(
        op,
        fmt::format(
            "training needs at least two values per channel to normalise, the input has {}: use a larger batch, or eval()",
            channels ? input.numel() / channels : 0),
        {{"input", input}});

  const DType type = detail::statistics_type(input);
  Operands r{image_order(input), prepared(scale, type), prepared(shift, type), {}, {}};
  if (y) *y = made_like(r.x);
  const NoGrad guard;
  if (!o.training) {
    // Copies: the running statistics may change before backward() reads them.
    r.mean = clone(prepared(running_mean, type));
    r.inv_std = rsqrt(add(prepared(running_var, type), o.eps));
    if (y) kernels::batch_norm_apply(r.x, r.mean, r.inv_std, r.weight, r.bias, *y);
    return r;
  }
  const TensorOptions options{.dtype = type, .device = r.x.device()};
  r.mean = empty(per_channel, options);
  r.inv_std = empty(per_channel, options);
  // Where the running statistics are not of the kernel's type or order it works on copies.
  Tensor rm = prepared(running_mean.defined() ? running_mean.detach() : running_mean, type),
         rv = prepared(running_var.defined() ? running_var.detach() : running_var, type);
  if (y)
    kernels::batch_norm_train(r.x, r.weight, r.bias, rm, rv, o.momentum, o.eps, *y, r.mean, r.inv_std);
  else
    kernels::batch_norm_stats(r.x, rm, rv, o.momentum, o.eps, r.mean, r.inv_std);
  const auto store = [](Tensor& running, const Tensor& updated) {
    if (!running.defined()) return;
    if (updated.storage() == running.storage())
      mark_overwritten("batch_norm", running);
    else
      running.copy_(updated);
  };
  store(running_mean, rm);
  store(running_var, rv);
  return r;
}

// What the nodes have in common.
struct NormNode : Node {
  Saved x{this, "input"}, weight{this, "weight"}, mean{this, "mean"}, inv_std{this, "inv_std"};
  bool training = false;
  double eps = 0;
  std::size_t weight_input = 0, bias_input = 0;  // 0: there is none
  explicit NormNode(const char* name) : Node(name) {}
  bool wants(std::size_t input) const { return input && needs(input); }

  void keep(const Operands& r, const BatchNormOptions& o) {
    if (r.weight.defined()) {
      weight_input = inputs.size();
      inputs.emplace_back(r.weight);
      weight.save(r.weight);
    }
    if (r.bias.defined()) {
      bias_input = inputs.size();
      inputs.emplace_back(r.bias);
    }
    x.save(r.x);
    mean.save(r.mean);
    inv_std.save(r.inv_std);
    training = o.training;
    eps = o.eps;
  }

  // The gradients of x, weight and bias, to be filled by a kernel.
  struct Gradients {
    Tensor x, weight, bias;
  };
  Gradients make_gradients(const Tensor& input) const {
    const Tensor& m = mean.peek();
    const TensorOptions options{.dtype = m.dtype(), .device = m.device()};
    Gradients g;
    if (needs(0)) g.x = made_like(input);
    if (wants(weight_input)) g.weight = empty(m.shape(), options);
    if (wants(bias_input)) g.bias = empty(m.shape(), options);
    return g;
  }
  void hand_out(Gradients& g, std::span<Tensor> grad_in) const {
    if (g.x.defined()) g.x.impl()->channels_sum_to_zero = training;
    grad_in[0] = std::move(g.x);
    if (weight_input) grad_in[weight_input] = std::move(g.weight);
    if (bias_input) grad_in[bias_input] = std::move(g.bias);
  }
};

Tensor sum_but_channels(const Tensor& t) {
  std::int64_t inner = 1;
  for (int d = 2; d < t.dim(); ++d) inner *= t.shape()[d];
  return sum(reshape(t, {t.shape()[0], t.shape()[1], inner}), {0, 2});
}

// A vector of channels as an operand of [N, C, ...].
Tensor spread(const Tensor& t, int dims) {
  Shape shape = Shape::filled(dims, 1);
  shape[1] = t.shape()[0];
  return reshape(t, shape);
}

struct BatchNormNode final : NormNode {
  BatchNormNode() : NormNode("batch_norm") {}

  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (grad_enabled()) return composed(grad_out[0], grad_in);
    const Tensor input = x.get();
    Gradients g = make_gradients(input);
    kernels::batch_norm_backward(input, image_order(grad_out[0]), weight.get(), mean.get(), inv_std.get(), training, g.x,
                                 g.weight, g.bias);
    hand_out(g, grad_in);
  }

  // The kernel's formulas, with mean and deviation as functions of x again.
  void composed(const Tensor& grad, std::span<Tensor> grad_in) {
    const Tensor input = x.get().to(mean.peek().dtype()), g = grad.to(input.dtype());
    const int dims = input.dim();
    const auto n = static_cast<double>(input.numel() / input.shape()[1]);
    Tensor centred, scale;
    if (training) {
      centred = sub(input, spread(div(sum_but_channels(input), n), dims));
      scale = rsqrt(add(div(sum_but_channels(square(centred)), n), eps));
    } else {
      centred = sub(input, spread(mean.get(), dims));
      scale = inv_std.get();
    }
    const Tensor normal = mul(centred, spread(scale, dims)), dot = sum_but_channels(mul(g, normal)), total = sum_but_channels(g);
    if (needs(0)) {
      const Tensor direct = training ? sub(g, add(spread(div(total, n), dims), mul(normal, spread(div(dot, n), dims)))) : g;
      grad_in[0] = mul(direct, spread(weight.defined() ? mul(scale, weight.get()) : scale, dims));
    }
    if (wants(weight_input)) grad_in[weight_input] = dot;
    if (wants(bias_input)) grad_in[bias_input] = total;
  }
};

// The nodes of fused operations. While gradients are recorded they go through the plain operations that the fused one stands for.
struct FusedNode : NormNode {
  Saved bias{this, "bias"}, y{this, "output"};
  using NormNode::NormNode;

  void keep(const Operands& r, const BatchNormOptions& o) {
    NormNode::keep(r, o);
    if (r.bias.defined()) bias.save(r.bias);
  }

  Tensor normalised() const {
    const Tensor input = x.get();
    if (training) {
      Tensor none;
      return batch_norm(input, weight.get(), bias.get(), none, none, {.training = true, .eps = eps});
    }
    const int dims = input.dim();
    Tensor normal = mul(sub(input, spread(mean.get(), dims)), spread(inv_std.get(), dims));
    if (weight.defined()) normal = mul(normal, spread(weight.get(), dims));
    return to(bias.defined() ? add(normal, spread(bias.get(), dims)) : normal, input.dtype());
  }

  // `output` is what the plain operations give, `residual` the input of that number, if there is one.
  void composed(const Tensor& output, const Tensor& grad, std::span<Tensor> grad_in, std::size_t residual_input = 0,
                const Tensor& residual = {}) const {
    std::vector<Tensor> wanted;
    std::vector<std::size_t> places;
    const auto want = [&](std::size_t input, const Tensor& t) {
      if (!needs(input)) return;
      wanted.push_back(t);
      places.push_back(input);
    };
    want(0, x.get());
    if (weight_input) want(weight_input, weight.get());
    if (bias_input) want(bias_input, bias.get());
    if (residual_input) want(residual_input, residual);
    const std::vector<Tensor> found = grad_of(output, wanted, grad);
    for (std::size_t i = 0; i < found.size(); ++i) grad_in[places[i]] = found[i];
  }

 private:
  static std::vector<Tensor> grad_of(const Tensor& output, std::span<const Tensor> wanted, const Tensor& cotangent) {
    return grad(std::span(&output, 1), wanted, {.create_graph = true, .allow_unused = true}, std::span(&cotangent, 1));
  }
};

struct BatchNormReluNode final : FusedNode {
  Saved residual{this, "residual"};
  std::size_t residual_input = 0;
  BatchNormReluNode() : FusedNode("batch_norm_relu") {}

  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (grad_enabled()) {
      const Tensor normal = normalised(), more = residual.get();
      return composed(relu(residual_input ? add(normal, more) : normal), grad_out[0], grad_in, residual_input, more);
    }
    const Tensor input = x.get();
    Gradients g = make_gradients(input);
    Tensor g_residual = wants(residual_input) ? made_like(input) : Tensor();
    kernels::batch_norm_relu_backward(input, y.get(), image_order(grad_out[0]), weight.get(), bias.get(), mean.get(),
                                      inv_std.get(), training, !residual_input, g.x, g.weight, g.bias, g_residual);
    hand_out(g, grad_in);
    if (residual_input) grad_in[residual_input] = std::move(g_residual);
  }
};

struct BatchNormReluPoolNode final : FusedNode {
  Saved index{this, "index"};
  Size2 kernel = 2;
  BatchNormReluPoolNode() : FusedNode("batch_norm_relu_max_pool2d") {}

  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (grad_enabled()) return composed(max_pool2d(relu(normalised()), {.kernel_size = kernel}), grad_out[0], grad_in);
    const Tensor input = x.get();
    Gradients g = make_gradients(input);
    kernels::batch_norm_relu_pool_backward(input, y.get(), index.get(), image_order(grad_out[0]), weight.get(), bias.get(),
                                           mean.get(), inv_std.get(), training, kernel, g.x, g.weight, g.bias);
    hand_out(g, grad_in);
  }
};

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& scale, const Tensor& shift, Tensor& running_mean, Tensor& running_var,
                  const BatchNormOptions& o) {
  Tensor y;
  const Operands r = prepare("batch_norm", input, scale, shift, running_mean, running_var, o, &y);
  if (!any_needs_grad(r.x, r.weight, r.bias)) return y;
  auto node = record<BatchNormNode>(r.x);
  node->keep(r, o);
  return set_history(std::move(y), std::move(node));
}

Tensor batch_norm_relu(const Tensor& input, const Tensor& scale, const Tensor& shift, Tensor& running_mean, Tensor& running_var,
                       const BatchNormOptions& o, const Tensor& residual) {
  const char* op = "batch_norm_relu";
  if (residual.defined()) {
    detail::check_same_floating(op, {{"input", input}, {"residual", residual}});
    if (residual.shape() != input.shape())
      throw ShapeError(op, "the residual must have the shape of the input", {{"input", input}, {"residual", residual}});
  }
  const Operands r = prepare(op, input, scale, shift, running_mean, running_var, o, nullptr);
  const Tensor more = residual.defined() ? image_order(residual) : residual;
  Tensor y = made_like(r.x);
  kernels::batch_norm_relu(r.x, more, r.mean, r.inv_std, r.weight, r.bias, y);
  if (!any_needs_grad(r.x, r.weight, r.bias, more)) return y;
  auto node = record<BatchNormReluNode>(r.x);
  node->keep(r, o);
  if (more.defined()) {
    node->residual_input = node->inputs.size();
    node->inputs.emplace_back(more);
    node->residual.save(more);
  }
  node->y.save_output(y);
  return set_history(std::move(y), std::move(node));
}

Tensor batch_norm_relu_max_pool2d(const Tensor& input, const Tensor& scale, const Tensor& shift, Tensor& running_mean,
                                  Tensor& running_var, const MaxPool2dOptions& pool, const BatchNormOptions& o) {
  const char* op = "batch_norm_relu_max_pool2d";
  const Shape shape = detail::max_pool2d_shape(input, pool);  // a pool that cannot be must not change the running statistics
  const Size2 k = pool.kernel_size;
  const bool side_by_side = k.h * k.w < kernels::kNoMaximum && pool.stride.value_or(k) == k && pool.padding == Size2(0) &&
                            pool.dilation == Size2(1) && !pool.ceil_mode;
  if (!side_by_side) return max_pool2d(batch_norm_relu(input, scale, shift, running_mean, running_var, o), pool);
  const Operands r = prepare(op, input, scale, shift, running_mean, running_var, o, nullptr);
  Tensor y = empty(shape, {.dtype = r.x.dtype(), .device = r.x.device()}, MemoryFormat::channels_last),
         index = empty(shape, {.dtype = DType::u8, .device = r.x.device()}, MemoryFormat::channels_last);
  kernels::batch_norm_relu_pool(r.x, r.mean, r.inv_std, r.weight, r.bias, k, y, index);
  if (!any_needs_grad(r.x, r.weight, r.bias)) return y;
  auto node = record<BatchNormReluPoolNode>(r.x);
  node->keep(r, o);
  node->kernel = k;
  node->index.save(index);
  node->y.save_output(y);
  return set_history(std::move(y), std::move(node));
}

}  // namespace spool
