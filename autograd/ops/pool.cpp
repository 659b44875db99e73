// Pooling. Every one is linear once the places of the maxima are fixed: the gradient of its gradient is the pooling itself.
#include "spool/kernels/pool.h"

#include <fmt/format.h>

#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"
#include "spool/autograd/ops/internal.h"

namespace spool {
namespace {

using detail::check_window_option;
using detail::text;
using kernels::PoolParams;

Tensor channels_last(const Tensor& x) { return contiguous(x, MemoryFormat::channels_last); }
Tensor image(const Shape& shape, const Tensor& like) {
  return empty(shape, {.dtype = like.dtype(), .device = like.device()}, MemoryFormat::channels_last);
}

// The checks that all pooling has in common; returns the shape of the result.
Shape pooled_shape(const char* op, const Tensor& x, const PoolParams& p, bool ceil_mode) {
  check_window_option(op, "kernel_size", p.kernel, 1);
  check_window_option(op, "stride", p.stride, 1);
  check_window_option(op, "padding", p.padding, 0);
  check_window_option(op, "dilation", p.dilation, 1);
  if (2 * p.padding.h > p.kernel.h || 2 * p.padding.w > p.kernel.w)
    throw ValueError(op,
                     fmt::format("padding {} is more than half of the kernel {}, so that windows would lie wholly in the padding",
                                 text(p.padding), text(p.kernel)));
  detail::check_dims(op, "input", x, 4, "[N, C, H, W]");
  detail::check_same_floating(op, {{"input", x}});
  const Shape& s = x.shape();
  return {s[0], s[1], detail::window_count(op, "height", x, s[2], p.kernel.h, p.stride.h, p.padding.h, p.dilation.h, ceil_mode),
          detail::window_count(op, "width", x, s[3], p.kernel.w, p.stride.w, p.padding.w, p.dilation.w, ceil_mode)};
}

// --- maximum

PoolParams params(const MaxPool2dOptions& o) {
  return {.kernel = o.kernel_size, .stride = o.stride.value_or(o.kernel_size), .padding = o.padding, .dilation = o.dilation};
}

Tensor gather_maxima(const Tensor& x, const Tensor& index, const PoolParams& p);

// g at the places of the maxima, in an image of this shape; recorded.
Tensor scatter_maxima(const Tensor& grad, const Tensor& index, const Shape& shape, const PoolParams& p);

struct MaxPoolNode final : Node {
  Saved index{this, "index"};
  Shape shape;
  PoolParams p;
  MaxPoolNode() : Node("max_pool2d") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = scatter_maxima(grad_out[0], index.get(), shape, p);
  }
};

struct MaxPoolGradNode final : Node {
  Saved index{this, "index"};
  PoolParams p;
  MaxPoolGradNode() : Node("max_pool2d_grad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = gather_maxima(grad_out[0], index.get(), p);
  }
};

Tensor recorded_pool(Tensor y, const Tensor& x, const Tensor& index, const PoolParams& p) {
  if (!needs_grad(x)) return y;
  auto node = record<MaxPoolNode>(x);
  node->index.save(index);
  node->shape = x.shape();
  node->p = p;
  return set_history(std::move(y), std::move(node));
}

Tensor gather_maxima(const Tensor& source, const Tensor& index, const PoolParams& p) {
  const Tensor x = channels_last(source);
  Tensor y = image(index.shape(), x);
  kernels::max_pool2d_gather(x, index, y, p);
  return recorded_pool(std::move(y), x, index, p);
}

Tensor scatter_maxima(const Tensor& grad, const Tensor& index, const Shape& shape, const PoolParams& p) {
  const Tensor g = channels_last(grad);
  Tensor gx = image(shape, g);
  kernels::max_pool2d_backward(g, index, gx, p);
  if (!needs_grad(g)) return gx;
  auto node = record<MaxPoolGradNode>(g);
  node->index.save(index);
  node->p = p;
  return set_history(std::move(gx), std::move(node));
}

// --- means

void mean_windows(const Tensor& x, Tensor& y, const PoolParams* p) {
  p ? kernels::avg_pool2d(x, y, *p) : kernels::adaptive_avg_pool2d(x, y);
}
void mean_windows_backward(const Tensor& gy, Tensor& gx, const PoolParams* p) {
  p ? kernels::avg_pool2d_backward(gy, gx, *p) : kernels::adaptive_avg_pool2d_backward(gy, gx);
}

// Both average poolings, with windows as in `p` or adaptive ones, and their gradients.
Tensor mean_pool(const Tensor& input, const Shape& shape, std::optional<PoolParams> p);
Tensor mean_pool_grad(const Tensor& grad, const Shape& shape, std::optional<PoolParams> p);

struct MeanPoolNode final : Node {
  Shape shape;
  std::optional<PoolParams> p;
  MeanPoolNode() : Node("avg_pool2d") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = mean_pool_grad(grad_out[0], shape, p);
  }
};

struct MeanPoolGradNode final : Node {
  Shape shape;
  std::optional<PoolParams> p;
  MeanPoolGradNode() : Node("avg_pool2d_grad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = mean_pool(grad_out[0], shape, p);
  }
};

template <class N>
Tensor recorded_mean(Tensor y, const Tensor& x, const std::optional<PoolParams>& p) {
  if (!needs_grad(x)) return y;
  auto node = record<N>(x);
  node->shape = x.shape();
  node->p = p;
  return set_history(std::move(y), std::move(node));
}

Tensor mean_pool(const Tensor& input, const Shape& shape, std::optional<PoolParams> p) {
  const Tensor x = channels_last(input);
  Tensor y = image(shape, x);
  mean_windows(x, y, p ? &*p : nullptr);
  return recorded_mean<MeanPoolNode>(std::move(y), x, p);
}

Tensor mean_pool_grad(const Tensor& grad, const Shape& shape, std::optional<PoolParams> p) {
  const Tensor g = channels_last(grad);
  Tensor gx = image(shape, g);
  mean_windows_backward(g, gx, p ? &*p : nullptr);
  return recorded_mean<MeanPoolGradNode>(std::move(gx), g, p);
}

}  // namespace

Shape detail::max_pool2d_shape(const Tensor& input, const MaxPool2dOptions& o) {
  const PoolParams p = params(o);
  const Shape shape = pooled_shape("max_pool2d", input, p, o.ceil_mode);
  // Dilated windows can step over a small input, and a last one that begins inside can have nothing but padding left.
  const auto all_touch = [](std::int64_t windows, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                            std::int64_t padding, std::int64_t dilation) {
    for (std::int64_t i = 0; i < windows; ++i) {
      const std::int64_t begin = i * stride - padding, first = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
      if (first >= kernel || begin + first * dilation >= size) return false;
    }
    return true;
  };
  if (!all_touch(shape[2], input.shape()[2], p.kernel.h, p.stride.h, p.padding.h, p.dilation.h) ||
      !all_touch(shape[3], input.shape()[3], p.kernel.w, p.stride.w, p.padding.w, p.dilation.w))
    throw ShapeError("max_pool2d",
                     fmt::format("a window of the kernel {} with dilation {} and padding {} covers nothing of the input",
                                 text(p.kernel), text(p.dilation), text(p.padding)),
                     {{"input", input}});
  return shape;
}

Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& o) {
  const Shape shape = detail::max_pool2d_shape(input, o);
  const PoolParams p = params(o);
  const Tensor x = channels_last(input);
  Tensor y = image(shape, x);
  const bool small = p.kernel.h * p.kernel.w <= 256;
  Tensor index = empty(shape, {.dtype = small ? DType::u8 : DType::i32, .device = x.device()}, MemoryFormat::channels_last);
  kernels::max_pool2d(x, y, index, p);
  return recorded_pool(std::move(y), x, index, p);
}

Tensor avg_pool2d(const Tensor& x, const AvgPool2dOptions& o) {
  const PoolParams p{.kernel = o.kernel_size,
                     .stride = o.stride.value_or(o.kernel_size),
                     .padding = o.padding,
                     .count_include_pad = o.count_include_pad};
  return mean_pool(x, pooled_shape("avg_pool2d", x, p, o.ceil_mode), p);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output_size) {
  check_window_option("adaptive_avg_pool2d", "output_size", output_size, 1);
  detail::check_dims("adaptive_avg_pool2d", "input", x, 4, "[N, C, H, W]");
  detail::check_same_floating("adaptive_avg_pool2d", {{"input", x}});
  const Shape& s = x.shape();
  if (s[2] < 1 || s[3] < 1) throw ShapeError("adaptive_avg_pool2d", "the input has no pixels", {{"input", x}});
  return mean_pool(x, {s[0], s[1], output_size.h, output_size.w}, std::nullopt);
}

}  // namespace spool
