// Cross-entropy of logits and negative log-likelihood: one kernel over rows of classes forward, one backward, which recomputes the row's softmax instead of keeping it.
#include <fmt/format.h>

#include "spool/autograd/autocast.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"
#include "spool/kernels/softmax.h"

namespace spool {
namespace {

using kernels::RowLossParams;

// What a loss reads besides x, and hands from one derivative to the next. None of it gets a gradient.
struct RowLoss {
  Tensor target, weight, divisor;
  RowLossParams p;
};

// The gradient of the loss of log-probabilities: linear in g.
Tensor row_loss_grad(const Tensor& g, const RowLoss& loss, std::int64_t rows, std::int64_t classes);

struct RowLossNode final : Node {
  Saved x{this, "input"}, target{this, "target"};
  RowLoss loss;
  Shape shape;
  RowLossNode() : Node("cross_entropy") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor& g = grad_out[0];
    (void)target.get();  // throws where the labels were overwritten
    if (!loss.p.from_logits || grad_enabled()) {
      const Tensor q = row_loss_grad(g, loss, shape[0], shape[1]);
      grad_in[0] = loss.p.from_logits ? sub(q, mul(softmax(x.get(), 1), sum(q, {1}, true))) : q;
      return;
    }
    const Tensor logits = x.get();
    grad_in[0] = empty(shape, {.dtype = logits.dtype(), .device = logits.device()});
    kernels::row_loss_backward(logits, loss.target, loss.weight, contiguous(g), loss.divisor, grad_in[0], loss.p);
  }
};

struct RowLossGradNode final : Node {
  RowLoss loss;
  RowLossGradNode() : Node("nll_loss_grad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor& gg = grad_out[0];
    const Tensor one = ones(loss.p.reduced ? Shape{} : Shape{gg.shape()[0]}, {.dtype = gg.dtype(), .device = gg.device()});
    const Tensor factors = mul(gg, row_loss_grad(one, loss, gg.shape()[0], gg.shape()[1]));
    grad_in[0] = loss.p.reduced ? sum(factors) : sum(factors, {1});
  }
};

Tensor row_loss_grad(const Tensor& grad, const RowLoss& loss, std::int64_t rows, std::int64_t classes) {
  const Tensor g = contiguous(grad);
  Tensor gx = empty({rows, classes}, {.dtype = g.dtype(), .device = g.device()});
  RowLoss linear = loss;
  linear.p.from_logits = false;
  kernels::row_loss_backward({}, loss.target, loss.weight, g, loss.divisor, gx, linear.p);
  if (!needs_grad(g)) return gx;
  auto node = record<RowLossGradNode>(g);
  node->loss = linear;
  return set_history(std::move(gx), std::move(node));
}

Tensor computed(const char* op, const Tensor& x, RowLoss loss) {
  const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
  Tensor y = empty(loss.p.reduced ? Shape{} : Shape{x.shape()[0]}, options);
  loss.divisor = empty({}, {.dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32, .device = x.device()});
  kernels::row_loss(x, loss.target, loss.weight, y, loss.divisor, loss.p);
  if (!needs_grad(x)) return y;
  auto node = record<RowLossNode>(x);
  node->op = op;
  if (loss.p.from_logits) node->x.save(x);
  node->target.save(loss.target);
  node->loss = std::move(loss);
  node->shape = x.shape();
  return set_history(std::move(y), std::move(node));
}

// From what users give to rows of classes, and back.
Tensor class_loss(const char* op, const Tensor& x, const Tensor& target, const Tensor& weight, Reduction reduction,
                  RowLossParams p) {
  detail::check_same_floating(op, {{"input", x}});
  if (x.dim() < 1) throw ShapeError(op, "input is a 0-d tensor, expected [N, C], [N, C, d1, ...] or [C]", {{"input", x}});
  if (target.dtype() != DType::i64) {
    const char* hint = is_floating(target.dtype()) ? "probabilities as targets are not supported" : "use to(i64) first";
    throw DTypeError(op, fmt::format("targets are class indices of type i64, not {}: {}", name_of(target.dtype()), hint),
                     {{"input", x}, {"target", target}});
  }
  if (target.device() != x.device())
    throw DeviceError(op, "input and target are on different devices: move one with to(device)",
                      {{"input", x}, {"target", target}});
  const int class_dim = x.dim() == 1 ? 0 : 1;
  Shape expected = x.shape();
  expected.erase(class_dim);
  if (target.shape() != expected)
    throw ShapeError(op,
                     fmt::format("target has shape {}, expected {}: the input's without its class dimension {}",
                                 to_string(target.shape()), to_string(expected), class_dim),
                     {{"input", x}, {"target", target}});
  const std::int64_t classes = x.shape()[class_dim], rows = expected.numel();
  if (classes < 1) throw ShapeError(op, "the input has no classes", {{"input", x}});
  if (weight.defined()) {
    if (!is_floating(weight.dtype()))
      throw DTypeError(op, fmt::format("class weights are floating-point numbers, not {}", name_of(weight.dtype())),
                       {{"weight", weight}});
    if (weight.shape() != Shape{classes})
      throw ShapeError(op,
                       fmt::format("weight has shape {}, expected [{}], one for each class", to_string(weight.shape()), classes),
                       {{"input", x}, {"weight", weight}});
    if (weight.device() != x.device())
      throw DeviceError(op, "input and weight are on different devices: move one with to(device)",
                        {{"input", x}, {"weight", weight}});
    if (weight.requires_grad())
      throw GradError(op, "class weights are constants and get no gradient: detach() them", {{"weight", weight}});
  }
  RowLoss loss;
  loss.p = p;
  loss.target = contiguous(target);
  std::int64_t bad = -1;
  kernels::find_bad_label(loss.target, classes, p.ignore_index, bad);
  if (bad >= 0) {
    std::string position;
    Shape at = expected;
    std::int64_t rest = bad;
    for (int d = expected.dim() - 1; d >= 0; --d) {
      at[d] = rest % expected[d];
      rest /= expected[d];
    }
    throw IndexError(
        op,
        fmt::format("label {} at position {} is not a class: labels are 0 to {}, or ignore_index {}",
                    reshape(loss.target, {-1}).select(0, bad).item<std::int64_t>(), to_string(at), classes - 1, p.ignore_index),
        {{"input", x}, {"target", target}});
  }
  if (weight.defined()) loss.weight = contiguous(to(weight, x.dtype() == DType::f64 ? DType::f64 : DType::f32));
  loss.p.reduced = reduction != Reduction::none;
  loss.p.mean = reduction == Reduction::mean;
  Tensor matrix = x;
  if (x.dim() > 2) {  // the classes last; of channels-last images that is how they lie already
    int order[kMaxDims] = {0};
    for (int d = 2; d < x.dim(); ++d) order[d - 1] = d;
    order[x.dim() - 1] = 1;
    matrix = permute(x, std::span<const int>(order, static_cast<std::size_t>(x.dim())));
  }
  const Tensor y = computed(op, contiguous(reshape(matrix, {rows, classes})), std::move(loss));
  return reduction == Reduction::none ? reshape(y, expected) : y;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw ValueError("cross_entropy", fmt::format("label_smoothing must be between 0 and 1, not {}", options.label_smoothing));
  return class_loss("cross_entropy", detail::raised(logits), target, options.weight, options.reduction,
                    {.ignore_index = options.ignore_index, .smoothing = options.label_smoothing});
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllLossOptions& options) {
  return class_loss("nll_loss", detail::raised(log_probabilities), target, options.weight, options.reduction,
                    {.ignore_index = options.ignore_index, .from_logits = false});
}

}  // namespace spool
