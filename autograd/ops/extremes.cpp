// Maxima and minima, with and without their indices; any and all; norms and log-sum-exp, which lean on them.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/internal.h"
#include "spool/autograd/ops/reduce.h"
#include "spool/core/errors.h"

namespace spool {

using namespace detail;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

[[noreturn]] void throw_empty(const char* op, const Tensor& x) {
  throw ValueError(op, "there is no element to choose from", {{"input", x}});
}

// Of all elements; ties share the gradient equally.
struct ExtremeOfAllNode final : Node {
  Saved x{this, "input"}, y{this, "output"};
  ExtremeOfAllNode() : Node("max") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor input = x.get().detach(), best = y.get().detach();
    const Tensor chosen = logical_or(eq(input, best), logical_and(isnan(input), isnan(best)));
    const Tensor share = div(grad_out[0], to(sum(chosen), input.dtype()));
    grad_in[0] = where(chosen, share, zeros_like(share));
  }
};

Tensor extreme_of_all(const char* op, kernels::Reduce which, const Tensor& x) {
  if (x.numel() == 0) throw_empty(op, x);
  const bool direct = is_floating(x.dtype()) || x.dtype() == DType::i64;
  const Tensor in = direct ? x : to(x, DType::i64);
  Tensor y = empty({}, {.dtype = in.dtype(), .device = x.device()});
  kernels::reduce(which, in, all_dims(x), y);
  if (!direct) return to(y, x.dtype());
  if (!needs_grad(x)) return y;
  auto node = record<ExtremeOfAllNode>(x);
  node->op = op;
  node->x.save(x);
  node->y.save_output(y);
  return set_history(std::move(y), std::move(node));
}

// Values and indices with dimension `dim` kept, outside of the tape.
Sorted extreme_along(const char* op, bool largest, const Tensor& x, int dim) {
  const Shape shape = x.dim() ? reduced_shape(x, DimMask{1} << dim, true) : Shape();
  if (x.numel() == 0 && shape.numel() != 0)
    throw ValueError(op, fmt::format("dimension {} has size 0: there is no element to choose from", dim), {{"input", x}});
  Sorted result{empty(shape, {.dtype = x.dtype(), .device = x.device()}),
                empty(shape, {.dtype = DType::i64, .device = x.device()})};
  if (x.numel()) kernels::extreme(largest, x, dim, result.values, result.indices);
  return result;
}

Sorted extreme(const char* op, bool largest, const Tensor& x, int dim, bool keepdim) {
  const int d = wrap_dim(op, dim, x.dim());
  Sorted result = extreme_along(op, largest, x, d);
  result.values = recorded_take(op, x, d, result.indices, std::move(result.values));
  if (keepdim || x.dim() == 0) return result;
  return {squeeze(result.values, d), squeeze(result.indices, d)};
}

Tensor index_of_extreme(const char* op, bool largest, const Tensor& x, int dim, bool keepdim) {
  const int d = wrap_dim(op, dim, x.dim());
  const Tensor indices = extreme_along(op, largest, x, d).indices;
  return keepdim || x.dim() == 0 ? indices : squeeze(indices, d);
}

Tensor index_of_extreme(const char* op, bool largest, const Tensor& x) {
  if (x.numel() == 0) throw_empty(op, x);
  return squeeze(extreme_along(op, largest, reshape(x.detach(), {-1}), 0).indices, 0);
}

Tensor truth(kernels::Reduce which, const Tensor& x, DimMask dims, bool keepdim) {
  Tensor y = empty(reduced_shape(x, dims, keepdim), {.dtype = DType::boolean, .device = x.device()});
  kernels::reduce(which, x.dtype() == DType::boolean ? x : ne(x, 0), dims, y);
  return y;
}

}  // namespace

Tensor max(const Tensor& x) { return extreme_of_all("max", kernels::Reduce::max, x); }
Tensor min(const Tensor& x) { return extreme_of_all("min", kernels::Reduce::min, x); }
Sorted max(const Tensor& x, int dim, bool keepdim) { return extreme("max", true, x, dim, keepdim); }
Sorted min(const Tensor& x, int dim, bool keepdim) { return extreme("min", false, x, dim, keepdim); }
Tensor argmax(const Tensor& x) { return index_of_extreme("argmax", true, x); }
Tensor argmin(const Tensor& x) { return index_of_extreme("argmin", false, x); }
Tensor argmax(const Tensor& x, int dim, bool keepdim) { return index_of_extreme("argmax", true, x, dim, keepdim); }
Tensor argmin(const Tensor& x, int dim, bool keepdim) { return index_of_extreme("argmin", false, x, dim, keepdim); }

Tensor any(const Tensor& x) { return truth(kernels::Reduce::any, x, all_dims(x), false); }
Tensor all(const Tensor& x) { return truth(kernels::Reduce::all, x, all_dims(x), false); }
Tensor any(const Tensor& x, int dim, bool keepdim) { return truth(kernels::Reduce::any, x, dim_mask("any", x, {dim}), keepdim); }
Tensor all(const Tensor& x, int dim, bool keepdim) { return truth(kernels::Reduce::all, x, dim_mask("all", x, {dim}), keepdim); }

namespace {

// Second derivatives run through the saved input and output, so the formulas below avoid infinite intermediate values at zeros.
struct NormNode final : Node {
  Saved x{this, "input"}, y{this, "output"};
  DimMask dims = 0;
  double p = 2;
  NormNode() : Node("norm") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor input = x.get();
    const Tensor norm = with_kept_dims(y.get(), input.shape(), dims), g = with_kept_dims(grad_out[0], input.shape(), dims);
    if (p == 0) {
      grad_in[0] = zeros_like(input);
    } else if (p == 1) {
      grad_in[0] = mul(g, sign(input));
    } else if (std::isinf(p)) {
      const Tensor chosen = logical_or(eq(abs(input.detach()), norm.detach()), isnan(input));
      const Tensor share = to(chosen, input.dtype());
      Tensor count = empty(norm.shape(), {.dtype = input.dtype(), .device = input.device()});
      kernels::reduce(kernels::Reduce::sum, share, dims, count);
      grad_in[0] = mul(div(g, count), mul(sign(input), share));
    } else {
      const Tensor none = eq(norm, 0), divisor = masked_fill(norm, none, 1);
      if (p == 2) {
        grad_in[0] = mul(input, masked_fill(div(g, divisor), none, 0));
      } else {
        const Tensor zero = eq(input, 0);
        const Tensor powers = masked_fill(pow(abs(masked_fill(input, zero, 1)), p - 1), zero, 0);
        grad_in[0] = mul(mul(sign(input), powers), masked_fill(div(g, pow(divisor, p - 1)), none, 0));
      }
    }
  }
};

}  // namespace

Tensor norm(const Tensor& x, double p, Dims over, bool keepdim) {
  check_floating("norm", x);
  if (!(p >= 0)) throw ValueError("norm", fmt::format("the order must be at least 0 or infinity, not {}", p), {{"input", x}});
  const DimMask dims = dim_mask("norm", x, over);
  Tensor y = empty(reduced_shape(x, dims, keepdim), {.dtype = x.dtype(), .device = x.device()});
  if (std::isinf(p) && x.numel() == 0 && y.numel() != 0) throw_empty("norm", x);
  {
    const NoGrad guard;
    const auto reduce = [&](kernels::Reduce op, const Tensor& terms) { kernels::reduce(op, terms, dims, y); };
    if (p == 0)
      reduce(kernels::Reduce::sum, to(ne(x, 0), x.dtype()));
    else if (p == 1)
      reduce(kernels::Reduce::sum, abs(x));
    else if (std::isinf(p))
      reduce(kernels::Reduce::max, abs(x));
    else
      reduce(kernels::Reduce::sum, p == 2 ? square(x) : pow(abs(x), p));
    if (p == 2)
      y = sqrt(y);
    else if (p != 0 && p != 1 && !std::isinf(p))
      y = pow(y, 1 / p);
  }
  if (!needs_grad(x)) return y;
  auto node = record<NormNode>(x);
  node->x.save(x);
  node->y.save_output(y);
  node->dims = dims;
  node->p = p;
  return set_history(std::move(y), std::move(node));
}

namespace {

// The largest element of each row, where it is finite: what is subtracted so that no exponential overflows.
Tensor largest_finite(const Tensor& x, DimMask dims) {
  Tensor top = empty(reduced_shape(x, dims, true), {.dtype = x.dtype(), .device = x.device()});
  kernels::reduce(kernels::Reduce::max, x, dims, top);
  return masked_fill(top, eq(abs(top), kInfinity), 0);
}

struct LogsumexpNode final : Node {
  Saved x{this, "input"};
  int dim = 0;
  LogsumexpNode() : Node("logsumexp") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor input = x.get();
    if (input.numel() == 0) return;
    const DimMask dims = (DimMask{1} << dim) & all_dims(input);
    // Shares of the sum rather than exp(x - y), whose argument loses digits when x is large. With nothing to share every gradient is 0.
    const Tensor terms = exp(sub(input, largest_finite(input.detach(), dims))), total = sum(terms, {dim}, true);
    const Tensor weight = div(with_kept_dims(grad_out[0], input.shape(), dims), masked_fill(total, eq(total, 0), 1));
    grad_in[0] = mul(terms, weight);
  }
};

}  // namespace

Tensor logsumexp(const Tensor& x, int dim, bool keepdim) {
  check_floating("logsumexp", x);
  const DimMask dims = dim_mask("logsumexp", x, {dim});
  Tensor y = empty(reduced_shape(x, dims, keepdim), {.dtype = x.dtype(), .device = x.device()});
  {
    const NoGrad guard;
    if (x.numel() == 0) {
      y.fill_(-kInfinity);
    } else {
      const Tensor top = largest_finite(x, dims);
      kernels::reduce(kernels::Reduce::sum, exp(sub(x, top)), dims, y);
      y = add(log(y), reshape(top, y.shape()));
    }
  }
  if (!needs_grad(x)) return y;
  auto node = record<LogsumexpNode>(x);
  node->x.save(x);
  node->dim = wrap_dim("logsumexp", dim, x.dim());
  return set_history(std::move(y), std::move(node));
}

}  // namespace spool
