// Matrix products. All are one kernel on [B, m, k] and [B, k, n], where a batch of one is a plain matrix; transposed operands are
// windows with other strides, not copies.
#include "spool/kernels/matmul.h"

#include <fmt/format.h>

#include "spool/autograd/autocast.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"

namespace spool {
namespace {

// The tensor as the kernel takes it: of its last two dimensions one has stride 1, and neither is stretched.
Tensor matrices(const Tensor& x) {
  const Shape& n = x.shape();
  const Strides& s = x.strides();
  const int r = x.dim() - 2, c = x.dim() - 1;
  const bool rows = (s[c] == 1 || n[c] == 1) && (s[r] >= n[c] || n[r] == 1),
             columns = (s[r] == 1 || n[r] == 1) && (s[c] >= n[r] || n[c] == 1);
  return rows || columns ? x : contiguous(x);
}

// x [*, m, k] outside of the tape as [B, m, k].
Tensor batch_of(const Tensor& x) {
  return x.dim() == 3 ? x : alias(x, {1, x.shape()[0], x.shape()[1]}, {0, x.strides()[0], x.strides()[1]}, x.offset());
}
Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

// a [m, k] or [B, m, k], b likewise: the product, recorded.
Tensor product(const char* name, const Tensor& a, const Tensor& b);

struct ProductNode final : Node {
  Saved a{this, "a"}, b{this, "b"};
  ProductNode() : Node("matmul") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor& g = grad_out[0];
    if (needs(0)) grad_in[0] = product("matmul", g, transposed(b.get()));
    if (needs(1)) grad_in[1] = product("matmul", transposed(a.get()), g);
  }
};

Tensor product(const char* name, const Tensor& first, const Tensor& second) {
  const Tensor a = matrices(first), b = matrices(second);
  const int d = a.dim();
  Shape shape = a.shape();
  shape[d - 1] = b.shape()[d - 1];
  Tensor y = empty(shape, {.dtype = a.dtype(), .device = a.device()});
  Tensor flat = batch_of(y);
  kernels::matmul(batch_of(a), batch_of(b), {}, flat);
  if (!any_needs_grad(a, b)) return y;
  auto node = record<ProductNode>(a, b);
  node->op = name;
  if (node->needs(1)) node->a.save(a);
  if (node->needs(0)) node->b.save(b);
  return set_history(std::move(y), std::move(node));
}

void check_inner(const char* op, const Tensor& a, const Tensor& b) {
  const std::int64_t left = a.shape()[a.dim() - 1], right = b.shape()[b.dim() > 1 ? b.dim() - 2 : 0];
  if (left != right)
    throw ShapeError(op,
                     fmt::format("the inner sizes differ: the last dimension of the first is {}, {} of the second is {}", left,
                                 b.dim() > 1 ? "the one before the last" : "the only one", right),
                     {{"first", a}, {"second", b}});
}

}  // namespace

Tensor bmm(const Tensor& first, const Tensor& second) {
  const Tensor a = detail::lowered(first), b = detail::lowered(second);
  detail::check_dims("bmm", "first", a, 3, "[B, m, k]");
  detail::check_dims("bmm", "second", b, 3, "[B, k, n]");
  detail::check_same_floating("bmm", {{"first", a}, {"second", b}});
  if (a.shape()[0] != b.shape()[0])
    throw ShapeError(
        "bmm", fmt::format("the batches have sizes {} and {}: matmul() broadcasts, bmm() does not", a.shape()[0], b.shape()[0]),
        {{"first", a}, {"second", b}});
  check_inner("bmm", a, b);
  return product("bmm", a, b);
}

Tensor matmul(const Tensor& first, const Tensor& second) {
  const Tensor a = detail::lowered(first), b = detail::lowered(second);
  detail::check_same_floating("matmul", {{"first", a}, {"second", b}});
  if (a.dim() == 0 || b.dim() == 0)
    throw ShapeError("matmul", "a 0-d tensor is no matrix and no vector: use mul()", {{"first", a}, {"second", b}});
  check_inner("matmul", a, b);
  if (a.dim() == 1 && b.dim() == 1) return squeeze(squeeze(product("matmul", unsqueeze(a, 0), unsqueeze(b, 1)), 1), 0);
  if (a.dim() == 1) return squeeze(matmul(unsqueeze(a, 0), b), -2);
  if (b.dim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  if (a.dim() == 2 && b.dim() == 2) return product("matmul", a, b);
  if (b.dim() == 2 && a.numel() > 0) {  // many rows, one matrix
    Shape shape = a.shape();
    shape[shape.dim() - 1] = b.shape()[1];
    return reshape(product("matmul", reshape(a, {-1, a.shape()[a.dim() - 1]}), b), shape);
  }
  // The leading dimensions broadcast, and are merged into one.
  const auto leading = [](const Tensor& t) { return Shape(t.shape().begin(), t.dim() - 2); };
  const auto window = [&](const Tensor& t) {
    return alias(t, leading(t), Strides(t.strides().begin(), t.dim() - 2), t.offset());
  };
  Shape batch;
  try {
    batch = broadcast_shapes("matmul", window(a), window(b));
  } catch (const ShapeError&) {
    throw ShapeError(
        "matmul", fmt::format("the leading dimensions {} and {} do not broadcast", to_string(leading(a)), to_string(leading(b))),
        {{"first", a}, {"second", b}});
  }
  const auto flat = [&](const Tensor& t) {
    Shape shape = batch;
    shape.push_back(t.shape()[t.dim() - 2]);
    shape.push_back(t.shape()[t.dim() - 1]);
    return reshape(expand(t, shape), {batch.numel(), shape[shape.dim() - 2], shape[shape.dim() - 1]});
  };
  Shape shape = batch;
  shape.push_back(a.shape()[a.dim() - 2]);
  shape.push_back(b.shape()[b.dim() - 1]);
  return reshape(product("matmul", flat(a), flat(b)), shape);
}

namespace {

struct LinearNode final : Node {
  Saved x{this, "input"}, weight{this, "weight"};
  LinearNode() : Node("linear") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor& g = grad_out[0];
    if (needs(0)) grad_in[0] = product("matmul", g, weight.get());
    if (needs(1)) grad_in[1] = product("matmul", transposed(g), x.get());
    if (inputs.size() > 2 && needs(2)) grad_in[2] = sum(g, {0});
  }
};

// x [rows, in]
Tensor linear_rows(const Tensor& input, const Tensor& kernel, const Tensor& bias) {
  const Tensor x = matrices(input), weight = matrices(kernel), b = bias.defined() ? contiguous(bias) : bias;
  Tensor y = empty({x.shape()[0], weight.shape()[0]}, {.dtype = x.dtype(), .device = x.device()});
  Tensor flat = batch_of(y);
  const Tensor w =
      alias(weight, {1, weight.shape()[1], weight.shape()[0]}, {0, weight.strides()[1], weight.strides()[0]}, weight.offset());
  kernels::matmul(batch_of(x), w, b, flat);
  if (!any_needs_grad(x, weight, b)) return y;
  auto node = b.defined() ? record<LinearNode>(x, weight, b) : record<LinearNode>(x, weight);
  if (node->needs(1)) node->x.save(x);
  if (node->needs(0)) node->weight.save(weight);
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor linear(const Tensor& given_x, const Tensor& given_weight, const Tensor& given_bias) {
  const Tensor x = detail::lowered(given_x), weight = detail::lowered(given_weight), bias = detail::lowered(given_bias);
  detail::check_dims("linear", "weight", weight, 2, "[out, in]");
  if (x.dim() == 0) throw ShapeError("linear", "input is a 0-d tensor, expected [*, in]", {{"input", x}, {"weight", weight}});
  detail::check_same_floating("linear", {{"input", x}, {"weight", weight}, {"bias", bias}});
  const std::int64_t in = weight.shape()[1], out = weight.shape()[0];
  if (x.shape()[x.dim() - 1] != in)
    throw ShapeError("linear", fmt::format("input has {} features, weight expects {}", x.shape()[x.dim() - 1], in),
                     {{"input", x}, {"weight", weight}});
  if (bias.defined() && bias.shape() != Shape{out})
    throw ShapeError("linear", fmt::format("bias has shape {}, expected [{}]", to_string(bias.shape()), out),
                     {{"weight", weight}, {"bias", bias}});
  if (x.dim() == 2) return linear_rows(x, weight, bias);
  Shape shape = x.shape();
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < x.dim(); ++d) rows *= shape[d];
  const Tensor y = linear_rows(reshape(x, {rows, in}), weight, bias);
  shape[shape.dim() - 1] = out;
  return reshape(y, shape);
}

}  // namespace spool
