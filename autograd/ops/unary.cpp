// Elementwise functions of one argument. Function, derivative and name of each are in kernels/unary_ops.h; here they become nodes of the tape.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/internal.h"
#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"

namespace spool {

// What lets the derivative formulas of unary_ops.h run on tensors: constants become 0-d tensors, select becomes where. Found by argument-dependent
// lookup, which does not look into unnamed namespaces.
static Tensor like(const Tensor& x, double value) {
  Tensor t = empty({}, {.dtype = x.dtype(), .device = x.device()});
  kernels::fill(t, value);
  return t;
}
static Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) { return where(condition, a, b); }

namespace {

template <class Op>
struct UnaryNode final : Node {
  Saved x{this, Op::saves == Saves::output ? "output" : "input"};
  Op formula;
  UnaryNode() : Node(Op::name) {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor& g = grad_out[0];
    if constexpr (Op::saves == Saves::nothing) {
      grad_in[0] = mul(g, formula.df(0.0));  // the derivative is a number
    } else if (grad_enabled()) {
      grad_in[0] = mul(g, formula.df(x.get()));
    } else {
      const Tensor s = x.get();
      grad_in[0] = empty_like(s);
      kernels::unary_backward(formula, s, g, grad_in[0]);
    }
  }
};

template <class Op>
Tensor unary(const Tensor& input, const Op& op = {}) {
  const bool keeps = is_floating(input.dtype()) || (takes_integers<Op> && input.dtype() != DType::boolean);
  const Tensor x = keeps ? input : to(input, DType::f32);
  Tensor y = empty_like(x);
  kernels::unary(op, x, y);
  if (!needs_grad(x)) return y;
  auto node = record<UnaryNode<Op>>(x);
  node->formula = op;
  if constexpr (Op::saves == Saves::input) node->x.save(x);
  if constexpr (Op::saves == Saves::output) node->x.save_output(y);
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor neg(const Tensor& x) { return unary<Neg>(x); }
Tensor abs(const Tensor& x) { return unary<Abs>(x); }
Tensor exp(const Tensor& x) { return unary<Exp>(x); }
Tensor expm1(const Tensor& x) { return unary<Expm1>(x); }
Tensor log(const Tensor& x) { return unary<Log>(x); }
Tensor log1p(const Tensor& x) { return unary<Log1p>(x); }
Tensor sqrt(const Tensor& x) { return unary<Sqrt>(x); }
Tensor rsqrt(const Tensor& x) { return unary<Rsqrt>(x); }
Tensor reciprocal(const Tensor& x) { return unary<Reciprocal>(x); }
Tensor square(const Tensor& x) { return unary<Square>(x); }
Tensor sin(const Tensor& x) { return unary<Sin>(x); }
Tensor cos(const Tensor& x) { return unary<Cos>(x); }
Tensor tanh(const Tensor& x) { return unary<Tanh>(x); }
Tensor sigmoid(const Tensor& x) { return unary<Sigmoid>(x); }
Tensor relu(const Tensor& x) { return unary<Relu>(x); }
Tensor leaky_relu(const Tensor& x, double negative_slope) { return unary(x, LeakyRelu{negative_slope}); }
Tensor gelu(const Tensor& x) { return unary<Gelu>(x); }
Tensor silu(const Tensor& x) { return unary<Silu>(x); }
Tensor softplus(const Tensor& x) { return unary<Softplus>(x); }
Tensor erf(const Tensor& x) { return unary<Erf>(x); }
Tensor floor(const Tensor& x) { return is_floating(x.dtype()) ? unary<Floor>(x) : clone(x); }
Tensor ceil(const Tensor& x) { return is_floating(x.dtype()) ? unary<Ceil>(x) : clone(x); }
Tensor round(const Tensor& x) { return is_floating(x.dtype()) ? unary<Round>(x) : clone(x); }
Tensor sign(const Tensor& x) { return unary<Sign>(x); }

Tensor pow(const Tensor& x, double exponent) { return exponent == 2 ? square(x) : unary(x, PowScalar{exponent}); }

Tensor clamp(const Tensor& x, std::optional<double> min, std::optional<double> max) {
  if (!min && !max) throw ValueError("clamp", "give a lower bound, an upper bound or both");
  if (min && max && *min > *max)
    throw ValueError("clamp", fmt::format("the lower bound {} is above the upper bound {}", *min, *max));
  double low = min.value_or(-std::numeric_limits<double>::infinity()),
         high = max.value_or(std::numeric_limits<double>::infinity());
  if (!is_floating(x.dtype()) && x.dtype() != DType::boolean) {
    // Bounds beyond the type do not bind, and may not be converted to it.
    visit(x.dtype(), [&]<class T>(TypeTag<T>) {
      const double highest = sizeof(T) == 8 ? 0x1p62 : static_cast<double>(std::numeric_limits<T>::max());
      const double lowest = sizeof(T) == 8 ? -0x1p62 : static_cast<double>(std::numeric_limits<T>::lowest());
      low = std::ceil(std::clamp(low, lowest, highest));
      high = std::floor(std::clamp(high, lowest, highest));
    });
  }
  return unary(x, Clamp{low, high});
}

namespace detail {
Tensor add_scalar(const Tensor& x, double value) { return unary(x, AddScalar{value}); }
Tensor mul_scalar(const Tensor& x, double value) { return unary(x, MulScalar{value}); }
}  // namespace detail

}  // namespace spool
