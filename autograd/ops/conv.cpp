// Convolution. It is linear in x and in weight, so the gradient with respect to either is one of three kernels applied to the other two tensors, and
// each of the three is an operation whose own gradients are the other two: derivatives of any order come from these alone.
#include "spool/kernels/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "spool/autograd/autocast.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"
#include "spool/autograd/ops/internal.h"

namespace spool {
namespace {

using detail::check_window_option;
using detail::text;

kernels::ConvParams params(const ConvOptions& o) { return {o.stride, o.padding, o.dilation, o.groups}; }

void check_options(const char* op, const ConvOptions& o) {
  check_window_option(op, "stride", o.stride, 1);
  check_window_option(op, "padding", o.padding, 0);
  check_window_option(op, "dilation", o.dilation, 1);
  if (o.groups < 1) throw ValueError(op, fmt::format("groups must be at least 1, not {}", o.groups));
}

void check_operands(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t outputs,
                    const char* weight_layout) {
  detail::check_dims(op, "input", x, 4, "[N, C, H, W]");
  detail::check_dims(op, "weight", weight, 4, weight_layout);
  detail::check_same_floating(op, {{"input", x}, {"weight", weight}, {"bias", bias}});
  if (weight.shape()[2] < 1 || weight.shape()[3] < 1) throw ShapeError(op, "the kernel has no elements", {{"weight", weight}});
  if (bias.defined() && bias.shape() != Shape{outputs})
    throw ShapeError(
        op, fmt::format("bias has shape {}, expected [{}], one number for each output channel", to_string(bias.shape()), outputs),
        {{"weight", weight}, {"bias", bias}});
}

Tensor channels_last(const Tensor& x) { return contiguous(x, MemoryFormat::channels_last); }
// Kernels take weights in row-major order or channels-last.
Tensor plain(const Tensor& weight) { return weight.is_contiguous(MemoryFormat::channels_last) ? weight : contiguous(weight); }
MemoryFormat format_of(const Tensor& weight) {
  return weight.is_contiguous() || !weight.is_contiguous(MemoryFormat::channels_last) ? MemoryFormat::contiguous
                                                                                      : MemoryFormat::channels_last;
}

// conv2d where the result is known to have these rows and columns, of possibly more that would fit.
Tensor conv2d_cropped(const Tensor& x, const Tensor& weight, const Shape& shape, const ConvOptions& options) {
  const Tensor y = conv2d(x, weight, {}, options);
  return y.shape() == shape ? y : narrow(narrow(y, 2, 0, shape[2]), 3, 0, shape[3]);
}

struct Conv2dNode final : Node {
  Saved x{this, "input"}, weight{this, "weight"};
  Shape input_shape, weight_shape;
  MemoryFormat weight_format = MemoryFormat::contiguous;
  ConvOptions options;
  Conv2dNode() : Node("conv2d") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor g = channels_last(grad_out[0]);
    bool with_bias = inputs.size() > 2 && needs(2);
    if (with_bias && g.impl()->channels_sum_to_zero) {
      grad_in[2] = zeros({weight_shape[0]}, {.dtype = g.dtype(), .device = g.device()});
      with_bias = false;
    }
    if (needs(0)) grad_in[0] = detail::conv2d_input_grad(g, weight.get(), input_shape, options);
    if (needs(1) && with_bias && !grad_enabled()) {
      grad_in[1] = empty(weight_shape, {.dtype = g.dtype(), .device = g.device()}, weight_format);
      grad_in[2] = empty({weight_shape[0]}, {.dtype = g.dtype(), .device = g.device()});
      kernels::conv2d_weight_grad(x.get(), g, grad_in[1], grad_in[2], params(options));
      return;
    }
    if (needs(1)) grad_in[1] = detail::conv2d_weight_grad(x.get(), g, weight_shape, options, weight_format);
    if (with_bias) grad_in[2] = sum(g, {0, 2, 3});
  }
};

struct ConvInputGradNode final : Node {
  Saved gy{this, "grad"}, weight{this, "weight"};
  Shape grad_shape, weight_shape;
  MemoryFormat weight_format = MemoryFormat::contiguous;
  ConvOptions options;
  ConvInputGradNode() : Node("conv2d_input_grad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor g = channels_last(grad_out[0]);
    if (needs(0)) grad_in[0] = conv2d_cropped(g, weight.get(), grad_shape, options);
    if (needs(1)) grad_in[1] = detail::conv2d_weight_grad(g, gy.get(), weight_shape, options, weight_format);
  }
};

struct ConvWeightGradNode final : Node {
  Saved x{this, "input"}, gy{this, "grad"};
  Shape input_shape, grad_shape;
  ConvOptions options;
  ConvWeightGradNode() : Node("conv2d_weight_grad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor g = plain(grad_out[0]);
    if (needs(0)) grad_in[0] = detail::conv2d_input_grad(gy.get(), g, input_shape, options);
    if (needs(1)) grad_in[1] = conv2d_cropped(x.get(), g, grad_shape, options);
  }
};

}  // namespace

Tensor detail::conv2d_input_grad(const Tensor& grad, const Tensor& kernel, const Shape& input_shape, const ConvOptions& options,
                                 const char* op) {
  const Tensor gy = channels_last(grad), weight = plain(kernel);
  Tensor gx = empty(input_shape, {.dtype = gy.dtype(), .device = gy.device()}, MemoryFormat::channels_last);
  kernels::conv2d_input_grad(gy, weight, gx, params(options));
  if (!any_needs_grad(gy, weight)) return gx;
  auto node = record<ConvInputGradNode>(gy, weight);
  node->op = op;
  if (node->needs(1)) node->gy.save(gy);
  if (node->needs(0)) node->weight.save(weight);
  node->grad_shape = gy.shape();
  node->weight_shape = weight.shape();
  node->weight_format = format_of(weight);
  node->options = options;
  return set_history(std::move(gx), std::move(node));
}

Tensor detail::conv2d_weight_grad(const Tensor& input, const Tensor& grad, const Shape& weight_shape, const ConvOptions& options,
                                  MemoryFormat format) {
  const Tensor x = channels_last(input), gy = channels_last(grad);
  Tensor gw = empty(weight_shape, {.dtype = x.dtype(), .device = x.device()}, format), no_bias;
  kernels::conv2d_weight_grad(x, gy, gw, no_bias, params(options));
  if (!any_needs_grad(x, gy)) return gw;
  auto node = record<ConvWeightGradNode>(x, gy);
  if (node->needs(1)) node->x.save(x);
  if (node->needs(0)) node->gy.save(gy);
  node->input_shape = x.shape();
  node->grad_shape = gy.shape();
  node->options = options;
  return set_history(std::move(gw), std::move(node));
}

Tensor conv2d(const Tensor& given_input, const Tensor& given_kernel, const Tensor& given_bias, const ConvOptions& options) {
  const Tensor input = detail::lowered(given_input), kernel = detail::lowered(given_kernel), bias = detail::lowered(given_bias);
  check_options("conv2d", options);
  check_operands("conv2d", input, kernel, bias, kernel.dim() ? kernel.shape()[0] : 0, "[O, C / groups, kH, kW]");
  const Shape &in = input.shape(), &k = kernel.shape();
  if (in[1] != k[1] * options.groups)
    throw ShapeError("conv2d",
                     fmt::format("input has {} channels, weight expects {}{}", in[1], k[1] * options.groups,
                                 options.groups > 1 ? fmt::format(" ({} in each of {} groups)", k[1], options.groups) : ""),
                     {{"input", input}, {"weight", kernel}});
  if (k[0] % options.groups)
    throw ShapeError("conv2d", fmt::format("{} output channels cannot be divided into {} groups", k[0], options.groups),
                     {{"weight", kernel}});
  const Shape out{
      in[0], k[0],
      detail::window_count("conv2d", "height", input, in[2], k[2], options.stride.h, options.padding.h, options.dilation.h),
      detail::window_count("conv2d", "width", input, in[3], k[3], options.stride.w, options.padding.w, options.dilation.w)};

  const Tensor x = channels_last(input), weight = plain(kernel);
  const Tensor b = bias.defined() ? contiguous(bias) : bias;
  Tensor y = empty(out, {.dtype = x.dtype(), .device = x.device()}, MemoryFormat::channels_last);
  kernels::conv2d(x, weight, b, y, params(options));
  if (!any_needs_grad(x, weight, b)) return y;
  auto node = b.defined() ? record<Conv2dNode>(x, weight, b) : record<Conv2dNode>(x, weight);
  if (node->needs(1)) node->x.save(x);
  if (node->needs(0)) node->weight.save(weight);
  node->input_shape = in;
  node->weight_shape = k;
  node->weight_format = format_of(weight);
  node->options = options;
  return set_history(std::move(y), std::move(node));
}

Tensor conv_transpose2d(const Tensor& given_x, const Tensor& given_weight, const Tensor& given_bias,
                        const ConvTransposeOptions& o) {
  const Tensor x = detail::lowered(given_x), weight = detail::lowered(given_weight), bias = detail::lowered(given_bias);
  const ConvOptions options{.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
  const char* op = "conv_transpose2d";
  check_options(op, options);
  check_window_option(op, "output_padding", o.output_padding, 0);
  if (o.output_padding.h >= std::max(o.stride.h, o.dilation.h) || o.output_padding.w >= std::max(o.stride.w, o.dilation.w))
    throw ValueError(op, fmt::format("output_padding {} must be smaller than the stride {} or the dilation {}",
                                     text(o.output_padding), text(o.stride), text(o.dilation)));
  const std::int64_t outputs = weight.dim() == 4 ? weight.shape()[1] * o.groups : 0;
  check_operands(op, x, weight, bias, outputs, "[C, O / groups, kH, kW]");
  const Shape &in = x.shape(), &k = weight.shape();
  if (in[1] != k[0])
    throw ShapeError(op, fmt::format("input has {} channels, weight expects {}", in[1], k[0]),
                     {{"input", x}, {"weight", weight}});
  if (in[1] % o.groups)
    throw ShapeError(op, fmt::format("{} input channels cannot be divided into {} groups", in[1], o.groups), {{"input", x}});
  const auto size = [](std::int64_t n, std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t kernel,
                       std::int64_t extra) { return (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1; };
  const Shape out{in[0], outputs, size(in[2], o.stride.h, o.padding.h, o.dilation.h, k[2], o.output_padding.h),
                  size(in[3], o.stride.w, o.padding.w, o.dilation.w, k[3], o.output_padding.w)};
  if (in[2] < 1 || in[3] < 1 || out[2] < 1 || out[3] < 1)
    throw ShapeError(
        op,
        fmt::format("the result would be {}x{}: the padding {} takes away more than there is", out[2], out[3], text(o.padding)),
        {{"input", x}, {"weight", weight}});
  const Tensor y = detail::conv2d_input_grad(x, weight, out, options, op);
  return bias.defined() ? add(y, reshape(bias, {outputs, 1, 1})) : y;
}

}  // namespace spool
