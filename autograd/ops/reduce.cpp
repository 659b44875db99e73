// Sums and what is made of them. Extremes are in extremes.cpp.
#include "spool/autograd/ops/reduce.h"

#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

namespace spool {
namespace detail {

DimMask all_dims(const Tensor& x) { return (DimMask{1} << x.dim()) - 1; }

DimMask dim_mask(const char* op, const Tensor& x, Dims dims) {
  if (dims.size() == 0) return all_dims(x);
  DimMask mask = 0;
  for (const int dim : dims) {
    const DimMask bit = DimMask{1} << wrap_dim(op, dim, x.dim());
    if (mask & bit) throw ValueError(op, fmt::format("dimension {} was given twice", dim), {{"input", x}});
    mask |= bit;
  }
  return mask & all_dims(x);
}

Shape reduced_shape(const Tensor& x, DimMask dims, bool keepdim) {
  Shape shape;
  for (int d = 0; d < x.dim(); ++d) {
    if (!(dims >> d & 1))
      shape.push_back(x.shape()[d]);
    else if (keepdim)
      shape.push_back(1);
  }
  return shape;
}

std::int64_t reduced_count(const Tensor& x, DimMask dims) {
  std::int64_t n = 1;
  for (int d = 0; d < x.dim(); ++d)
    if (dims >> d & 1) n *= x.shape()[d];
  return n;
}

void check_floating(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype()))
    throw DTypeError(op, fmt::format("takes floating-point tensors, not {}: convert it with to(f32) first", name_of(x.dtype())),
                     {{"input", x}});
}

Tensor with_kept_dims(const Tensor& g, const Shape& shape, DimMask dims) {
  if (g.dim() == shape.dim()) return g;
  Shape kept = shape;
  for (int d = 0; d < shape.dim(); ++d)
    if (dims >> d & 1) kept[d] = 1;
  return reshape(g, kept);
}

Tensor spread(const Tensor& g, const Shape& shape, DimMask dims) {
  if (g.shape() == shape) return g;
  if (grad_enabled()) return expand(with_kept_dims(g, shape, dims), shape);
  const bool keepdim = g.dim() == shape.dim();
  Strides strides = Shape::filled(shape.dim(), 0);
  int from = 0;
  for (int d = 0; d < shape.dim(); ++d) {
    const bool reduced = dims >> d & 1;
    if (!reduced) strides[d] = g.strides()[keepdim ? d : from];
    from += !reduced;
  }
  return alias(g, shape, strides, g.offset());
}

}  // namespace detail

using namespace detail;

namespace {

struct SumNode final : Node {
  Shape shape;
  DimMask dims = 0;
  SumNode() : Node("sum") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = spread(grad_out[0], shape, dims);
  }
};

Tensor sum_over(const Tensor& x, DimMask dims, bool keepdim) {
  Tensor y =
      empty(reduced_shape(x, dims, keepdim), {.dtype = is_floating(x.dtype()) ? x.dtype() : DType::i64, .device = x.device()});
  kernels::reduce(kernels::Reduce::sum, x, dims, y);
  if (!needs_grad(x)) return y;
  auto node = record<SumNode>(x);
  node->shape = x.shape();
  node->dims = dims;
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor sum(const Tensor& x) { return sum_over(x, all_dims(x), false); }
Tensor sum(const Tensor& x, Dims dims, bool keepdim) { return sum_over(x, dim_mask("sum", x, dims), keepdim); }

namespace {
struct SumToNode final : Node {
  Shape shape;
  SumToNode() : Node("sum_to") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override { grad_in[0] = expand(grad_out[0], shape); }
};
}  // namespace

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int extra = x.dim() - shape.dim();
  DimMask dims = 0;
  bool fits = extra >= 0, leading = true;  // leading: only the dimensions that `shape` lacks are summed
  for (int d = 0; fits && d < x.dim(); ++d) {
    const std::int64_t n = x.shape()[d];
    if (d < extra) {
      dims |= DimMask{1} << d;
    } else if (shape[d - extra] != n) {
      fits = shape[d - extra] == 1;
      dims |= DimMask{1} << d;
      leading = false;
    }
  }
  if (!fits)
    throw ShapeError("sum_to", fmt::format("the shape {} does not broadcast to the tensor's", to_string(shape)), {{"input", x}});
  Tensor y = empty(shape, {.dtype = is_floating(x.dtype()) ? x.dtype() : DType::i64, .device = x.device()});
  if (leading || extra == 0) {
    kernels::reduce(kernels::Reduce::sum, x, dims, y);
  } else {
    // The kernel wants to see each dimension of x.
    Shape kept = shape;
    Strides strides = y.strides();
    for (int d = 0; d < extra; ++d) {
      kept.insert(0, 1);
      strides.insert(0, 0);
    }
    Tensor window = alias(y, kept, strides, 0);
    kernels::reduce(kernels::Reduce::sum, x, dims, window);
  }
  if (!needs_grad(x)) return y;
  auto node = record<SumToNode>(x);
  node->shape = x.shape();
  return set_history(std::move(y), std::move(node));
}

namespace {

struct MeanNode final : Node {
  Shape shape;
  DimMask dims = 0;
  double count = 1;
  MeanNode() : Node("mean") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = spread(mul(grad_out[0], 1 / count), shape, dims);
  }
};

Tensor mean_over(const Tensor& x, DimMask dims, bool keepdim) {
  check_floating("mean", x);
  Tensor y = empty(reduced_shape(x, dims, keepdim), {.dtype = x.dtype(), .device = x.device()});
  const double count = static_cast<double>(reduced_count(x, dims));
  kernels::mean(x, dims, count, y);
  if (!needs_grad(x)) return y;
  auto node = record<MeanNode>(x);
  node->shape = x.shape();
  node->dims = dims;
  node->count = count;
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor mean(const Tensor& x) { return mean_over(x, all_dims(x), false); }
Tensor mean(const Tensor& x, Dims dims, bool keepdim) { return mean_over(x, dim_mask("mean", x, dims), keepdim); }

namespace {

// The deviation of x from its mean, and the sum of its squares: the second pass of a variance.
Tensor centred(const Tensor& x, DimMask dims) { return sub(x, mean_over(x, dims, true)); }

double freedom(const Tensor& x, DimMask dims, double correction) {
  return std::max(0.0, static_cast<double>(reduced_count(x, dims)) - correction);
}

struct VarNode final : Node {
  Saved x{this, "input"};
  DimMask dims = 0;
  double freedom = 1;
  VarNode() : Node("var") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor input = x.get();
    grad_in[0] = mul(centred(input, dims), with_kept_dims(mul(grad_out[0], 2 / freedom), input.shape(), dims));
  }
};

struct StdNode final : Node {
  Saved x{this, "input"}, y{this, "output"};
  DimMask dims = 0;
  double freedom = 1;
  StdNode() : Node("std") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor input = x.get(), deviation = y.get();
    const Tensor none = eq(deviation, 0);
    const Tensor slope = masked_fill(div(grad_out[0], mul(masked_fill(deviation, none, 1), freedom)), none, 0);
    grad_in[0] = mul(centred(input, dims), with_kept_dims(slope, input.shape(), dims));
  }
};

Tensor variance(const Tensor& x, DimMask dims, double freedom, bool keepdim) {
  const NoGrad guard;
  const Tensor squares = square(centred(x, dims));
  Tensor y = empty(reduced_shape(x, dims, keepdim), {.dtype = x.dtype(), .device = x.device()});
  kernels::mean(squares, dims, freedom, y);
  return y;
}

}  // namespace

Tensor var(const Tensor& x, Dims over, double correction, bool keepdim) {
  check_floating("var", x);
  const DimMask dims = dim_mask("var", x, over);
  const double f = freedom(x, dims, correction);
  Tensor y = variance(x, dims, f, keepdim);
  if (!needs_grad(x)) return y;
  auto node = record<VarNode>(x);
  node->x.save(x);
  node->dims = dims;
  node->freedom = f;
  return set_history(std::move(y), std::move(node));
}

Tensor std(const Tensor& x, Dims over, double correction, bool keepdim) {
  check_floating("std", x);
  const DimMask dims = dim_mask("std", x, over);
  const double f = freedom(x, dims, correction);
  Tensor y;
  {
    const NoGrad guard;
    y = sqrt(variance(x, dims, f, keepdim));
  }
  if (!needs_grad(x)) return y;
  auto node = record<StdNode>(x);
  node->x.save(x);
  node->y.save_output(y);
  node->dims = dims;
  node->freedom = f;
  return set_history(std::move(y), std::move(node));
}

namespace {

// g times the product of all other elements along dimension 0, for each element: products of pairs, pairs of pairs ..., and back. No division, so
// zeros among the factors do not matter.
Tensor times_others(const Tensor& x, const Tensor& g) {
  const std::int64_t n = x.shape()[0], half = n / 2;
  if (n == 1) return g;
  const Tensor a = narrow(x, 0, 0, half), b = narrow(x, 0, half, half);
  if (n == 2 * half) {
    const Tensor up = times_others(mul(a, b), g);
    return cat({mul(up, b), mul(up, a)});
  }
  const Tensor up = times_others(cat({mul(a, b), narrow(x, 0, n - 1, 1)}), g), pairs = narrow(up, 0, 0, half);
  return cat({mul(pairs, b), mul(pairs, a), narrow(up, 0, half, 1)});
}

struct ProdNode final : Node {
  Saved x{this, "input"};
  int dim = 0;
  ProdNode() : Node("prod") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor input = x.get();
    if (input.numel() == 0) return;
    const Tensor rows = transpose(input, 0, dim);
    const Tensor g = with_kept_dims(grad_out[0], input.shape(), DimMask{1} << dim);
    grad_in[0] = transpose(times_others(rows, transpose(g, 0, dim)), 0, dim);
  }
};

}  // namespace

Tensor prod(const Tensor& input, int dim, bool keepdim) {
  const int d = wrap_dim("prod", dim, input.dim());
  const Tensor x = is_floating(input.dtype()) ? input : to(input, DType::i64);
  const DimMask dims = (DimMask{1} << d) & all_dims(x);
  Tensor y = empty(reduced_shape(x, dims, keepdim), {.dtype = x.dtype(), .device = x.device()});
  kernels::reduce(kernels::Reduce::prod, x, dims, y);
  if (!needs_grad(x) || x.dim() == 0) return x.dim() == 0 && needs_grad(x) ? clone(x) : y;
  auto node = record<ProdNode>(x);
  node->x.save(x);
  node->dim = d;
  return set_history(std::move(y), std::move(node));
}

Tensor prod(const Tensor& x) { return prod(reshape(x, {-1}), 0); }

namespace {
struct CumsumNode final : Node {
  int dim = 0;
  CumsumNode() : Node("cumsum") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = flip(cumsum(flip(grad_out[0], {dim}), dim), {dim});
  }
};
}  // namespace

Tensor cumsum(const Tensor& x, int dim) {
  const int d = wrap_dim("cumsum", dim, x.dim());
  Tensor y = empty_like(x, is_floating(x.dtype()) ? x.dtype() : DType::i64);
  kernels::cumsum(x, d, y);
  if (!needs_grad(x)) return y;
  auto node = record<CumsumNode>(x);
  node->dim = d;
  return set_history(std::move(y), std::move(node));
}

}  // namespace spool
