// Elementwise functions of two arguments: broadcasting, type promotion, and the derivative of each.
#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/creation.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/internal.h"
#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"

namespace spool {

Shape broadcast_shapes(const char* op, const Tensor& a, const Tensor& b) {
  const Shape &sa = a.shape(), &sb = b.shape();
  if (sa == sb) return sa;
  Shape out = sa.dim() >= sb.dim() ? sa : sb;
  for (int i = 1; i <= out.dim(); ++i) {
    const std::int64_t da = i <= sa.dim() ? sa[sa.dim() - i] : 1, db = i <= sb.dim() ? sb[sb.dim() - i] : 1;
    if (da != db && da != 1 && db != 1)
      throw ShapeError(
          op, fmt::format("the shapes do not broadcast: sizes {} and {} differ in dimension -{} and neither is 1", da, db, i),
          {{"first", a}, {"second", b}});
    out[out.dim() - i] = da == 1 ? db : da;
  }
  return out;
}

namespace {

// The tensor as seen with the output's shape: stretched dimensions get stride 0.
Tensor stretched(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Strides strides = Shape::filled(shape.dim(), 0);
  const int shift = shape.dim() - x.dim();
  for (int d = 0; d < x.dim(); ++d)
    if (x.shape()[d] != 1) strides[d + shift] = x.strides()[d];
  return alias(x, shape, strides, x.offset());
}

// A result of this shape that lies in memory like the operand that has it.
Tensor make_output(const Shape& shape, const Tensor& a, const Tensor& b, DType dtype) {
  if (a.shape() == shape) return empty_like(a, dtype);
  if (b.shape() == shape) return empty_like(b, dtype);
  return empty(shape, {.dtype = dtype, .device = a.device()});
}

void check_devices(const char* op, const Tensor& a, const Tensor& b) {
  if (a.device() != b.device())
    throw DeviceError(op, "the operands are on different devices: move one with to(device)", {{"first", a}, {"second", b}});
}

template <class Op>
Tensor compute(const Tensor& a, const Tensor& b, DType type) {
  check_devices(Op::name, a, b);
  constexpr bool compares = std::is_same_v<decltype(Op{}(1.0f, 1.0f)), bool>;
  if (a.dtype() == type && b.dtype() == type && a.shape() == b.shape()) {  // nothing to convert or to stretch
    Tensor y = empty_like(a, compares ? DType::boolean : type);
    kernels::binary(Op{}, a, b, y);
    return y;
  }
  const Shape shape = broadcast_shapes(Op::name, a, b);
  const Tensor ca = a.dtype() == type ? a : to(a.detach(), type), cb = b.dtype() == type ? b : to(b.detach(), type);
  Tensor y = make_output(shape, ca, cb, compares ? DType::boolean : type);
  kernels::binary(Op{}, stretched(ca, shape), stretched(cb, shape), y);
  return y;
}

DType floating(DType t) { return is_floating(t) ? t : DType::f32; }

struct AddNode final : Node {
  AddNode() : Node("add") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (needs(0)) grad_in[0] = grad_out[0];
    if (needs(1)) grad_in[1] = grad_out[0];
  }
};

struct SubNode final : Node {
  SubNode() : Node("sub") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (needs(0)) grad_in[0] = grad_out[0];
    if (needs(1)) grad_in[1] = neg(grad_out[0]);
  }
};

// The nodes below keep an operand only where the other one's gradient reads it.
struct MulNode final : Node {
  Saved a{this, "a"}, b{this, "b"};
  MulNode() : Node("mul") {}
  void keep(const Tensor& x, const Tensor& y, const Tensor&) {
    if (needs(1)) a.save(x);
    if (needs(0)) b.save(y);
  }
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (needs(0)) grad_in[0] = mul(grad_out[0], b.get());
    if (needs(1)) grad_in[1] = mul(grad_out[0], a.get());
  }
};

struct DivNode final : Node {
  Saved b{this, "b"}, y{this, "output"};
  DivNode() : Node("div") {}
  void keep(const Tensor&, const Tensor& divisor, const Tensor& output) {
    b.save(divisor);
    if (needs(1)) y.save_output(output);
  }
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor g = div(grad_out[0], b.get());
    if (needs(0)) grad_in[0] = g;
    if (needs(1)) grad_in[1] = neg(mul(g, y.get()));
  }
};

struct PowNode final : Node {
  Saved a{this, "base"}, b{this, "exponent"}, y{this, "output"};
  PowNode() : Node("pow") {}
  void keep(const Tensor& base, const Tensor& exponent, const Tensor& output) {
    a.save(base);
    b.save(exponent);
    if (needs(1)) y.save_output(output);
  }
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor base = a.get(), exponent = b.get(), &g = grad_out[0];
    if (needs(0)) {
      const Tensor slope = mul(exponent, pow(base, sub(exponent, 1)));
      grad_in[0] = mul(g, where(eq(exponent, 0), zeros_like(slope), slope));
    }
    if (needs(1)) {
      // 0 ** e is constant for e >= 0, although its logarithm is not finite.
      const Tensor flat = logical_and(eq(base, 0), ge(exponent, 0));
      const Tensor slope = mul(y.get(), log(where(flat, ones_like(base), base)));
      grad_in[1] = mul(g, where(flat, zeros_like(slope), slope));
    }
  }
};

// maximum and minimum: the winner gets the gradient, at ties each gets half.
template <class Op>
struct ExtremeNode final : Node {
  Saved a{this, "a"}, b{this, "b"};
  ExtremeNode() : Node(Op::name) {}
  void keep(const Tensor& x, const Tensor& y, const Tensor&) {
    a.save(x);
    b.save(y);
  }
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor x = a.get(), y = b.get(), &g = grad_out[0];
    const Tensor half = mul(g, 0.5), none = zeros_like(g), tie = eq(x, y);
    const Tensor first = logical_or(std::is_same_v<Op, Maximum> ? gt(x, y) : lt(x, y), isnan(x));
    if (needs(0)) grad_in[0] = where(tie, half, where(first, g, none));
    if (needs(1)) grad_in[1] = where(tie, half, where(first, none, g));
  }
};

template <class Op, class N>
Tensor arithmetic(const Tensor& a, const Tensor& b, DType type) {
  Tensor y = compute<Op>(a, b, type);
  if (!any_needs_grad(a, b)) return y;
  auto node = record<N>(a, b);
  if constexpr (requires { node->keep(a, b, y); }) node->keep(a, b, y);
  return set_history(std::move(y), std::move(node));
}

template <class Op>
Tensor comparison(const Tensor& a, const Tensor& b) {
  return compute<Op>(a, b, promote(a.dtype(), b.dtype()));
}

// The number as a 0-d tensor of the type that the operation with x computes in.
Tensor lifted(const Tensor& x, Scalar value) {
  DType type = x.dtype();
  if (!is_floating(type) && !value.is_integer) type = DType::f32;
  if (type == DType::boolean) type = DType::i64;
  Tensor t = empty({}, {.dtype = type, .device = x.device()});
  kernels::fill(t, value);
  return t;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return arithmetic<Add, AddNode>(a, b, promote(a.dtype(), b.dtype())); }
Tensor sub(const Tensor& a, const Tensor& b) { return arithmetic<Sub, SubNode>(a, b, promote(a.dtype(), b.dtype())); }
Tensor mul(const Tensor& a, const Tensor& b) { return arithmetic<Mul, MulNode>(a, b, promote(a.dtype(), b.dtype())); }
Tensor div(const Tensor& a, const Tensor& b) { return arithmetic<Div, DivNode>(a, b, floating(promote(a.dtype(), b.dtype()))); }
Tensor pow(const Tensor& a, const Tensor& b) { return arithmetic<Pow, PowNode>(a, b, floating(promote(a.dtype(), b.dtype()))); }
Tensor maximum(const Tensor& a, const Tensor& b) {
  return arithmetic<Maximum, ExtremeNode<Maximum>>(a, b, promote(a.dtype(), b.dtype()));
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return arithmetic<Minimum, ExtremeNode<Minimum>>(a, b, promote(a.dtype(), b.dtype()));
}

Tensor add(const Tensor& a, Scalar b) { return is_floating(a.dtype()) ? detail::add_scalar(a, b.value) : add(a, lifted(a, b)); }
Tensor sub(const Tensor& a, Scalar b) { return is_floating(a.dtype()) ? detail::add_scalar(a, -b.value) : sub(a, lifted(a, b)); }
Tensor sub(Scalar a, const Tensor& b) {
  return is_floating(b.dtype()) ? detail::add_scalar(neg(b), a.value) : sub(lifted(b, a), b);
}
Tensor mul(const Tensor& a, Scalar b) { return is_floating(a.dtype()) ? detail::mul_scalar(a, b.value) : mul(a, lifted(a, b)); }
Tensor div(const Tensor& a, Scalar b) { return div(a, lifted(a, b)); }
Tensor div(Scalar a, const Tensor& b) { return a.value == 1 ? reciprocal(b) : div(lifted(b, a), b); }

#define SPOOL_COMPARISON(name, Op)                                               \
  Tensor name(const Tensor& a, const Tensor& b) { return comparison<Op>(a, b); } \
  Tensor name(const Tensor& a, Scalar b) { return comparison<Op>(a, lifted(a, b)); }
SPOOL_COMPARISON(eq, Eq)
SPOOL_COMPARISON(ne, Ne)
SPOOL_COMPARISON(lt, Lt)
SPOOL_COMPARISON(le, Le)
SPOOL_COMPARISON(gt, Gt)
SPOOL_COMPARISON(ge, Ge)
#undef SPOOL_COMPARISON

Tensor logical_and(const Tensor& a, const Tensor& b) { return comparison<LogicalAnd>(a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return comparison<LogicalOr>(a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return comparison<LogicalXor>(a, b); }
Tensor logical_not(const Tensor& a) { return eq(a, 0); }
Tensor isnan(const Tensor& a) { return comparison<Ne>(a, a); }
Tensor isfinite(const Tensor& a) {
  const Tensor x = a.detach();
  return eq(sub(x, x), 0);  // inf - inf and NaN - NaN are NaN
}
Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  if (!(rtol >= 0 && atol >= 0))
    throw ValueError("isclose", fmt::format("the tolerances must not be negative: rtol {}, atol {}", rtol, atol));
  check_devices("isclose", a, b);
  broadcast_shapes("isclose", a, b);
  const DType type = promote(a.dtype(), b.dtype());
  // Differences of u8 and bf16 would wrap and round.
  const DType exact = type == f64 || !is_floating(type) ? f64 : f32;
  const Tensor x = to(a.detach(), exact), y = to(b.detach(), exact), difference = abs(sub(x, y));
  return logical_or(eq(x, y), logical_and(isfinite(difference), le(difference, add(mul(abs(y), rtol), atol))));
}
bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) { return all(isclose(a, b, rtol, atol)).item<bool>(); }
bool equal(const Tensor& a, const Tensor& b) {
  check_devices("equal", a, b);
  return a.shape() == b.shape() && all(eq(a, b)).item<bool>();
}

namespace {
struct WhereNode final : Node {
  Saved condition{this, "condition"};
  WhereNode() : Node("where") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor c = condition.get(), &g = grad_out[0], none = zeros({}, {.dtype = g.dtype(), .device = g.device()});
    if (needs(0)) grad_in[0] = where(c, g, none);
    if (needs(1)) grad_in[1] = where(c, none, g);
  }
};
}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (condition.dtype() != DType::boolean)
    throw DTypeError("where",
                     fmt::format("the condition must be boolean, not {}: compare it (x != 0) first", name_of(condition.dtype())),
                     {{"condition", condition}});
  check_devices("where", a, b);
  check_devices("where", condition, a);
  const DType type = promote(a.dtype(), b.dtype());
  const Tensor ca = to(a.detach(), type), cb = to(b.detach(), type);
  const Shape shape = broadcast_shapes("where", condition, stretched(ca, broadcast_shapes("where", ca, cb)));
  Tensor y = make_output(shape, ca, cb, type);
  kernels::where(stretched(condition, shape), stretched(ca, shape), stretched(cb, shape), y);
  if (!any_needs_grad(a, b)) return y;
  auto node = record<WhereNode>(a, b);
  node->condition.save(condition);
  return set_history(std::move(y), std::move(node));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  if (mask.dtype() != DType::boolean)
    throw DTypeError("masked_fill",
                     fmt::format("the mask must be boolean, not {}: compare it (mask != 0) first", name_of(mask.dtype())),
                     {{"mask", mask}});
  if (broadcast_shapes("masked_fill", x, mask) != x.shape())
    throw ShapeError("masked_fill", "the mask does not broadcast to the tensor's shape", {{"input", x}, {"mask", mask}});
  Tensor v = empty({}, {.dtype = x.dtype(), .device = x.device()});
  kernels::fill(v, value);
  return where(mask, v, x);
}

}  // namespace spool
