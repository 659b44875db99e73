#include "spool/autograd/creation.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"

namespace spool {
namespace {

TensorOptions without_grad(TensorOptions options) {
  options.requires_grad = false;
  return options;
}

// Kernels write first, then the leaf starts asking for its gradient.
Tensor finished(Tensor t, const TensorOptions& options) {
  if (options.requires_grad) t.set_requires_grad();
  return t;
}

void check_floating(const char* op, DType dtype) {
  if (!is_floating(dtype)) throw DTypeError(op, fmt::format("the type must be floating point, not {}", name_of(dtype)));
}

}  // namespace

Tensor full(const Shape& shape, Scalar value, TensorOptions options) {
  Tensor t = empty(shape, without_grad(options));
  kernels::fill(t, value);
  return finished(std::move(t), options);
}
Tensor zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }

Tensor full_like(const Tensor& like, Scalar value) {
  Tensor t = empty_like(like);
  kernels::fill(t, value);
  return t;
}
Tensor zeros_like(const Tensor& t) { return full_like(t, 0); }
Tensor ones_like(const Tensor& t) { return full_like(t, 1); }

Tensor scalar_tensor(Scalar value, TensorOptions options) { return full({}, value, options); }

Tensor arange(Scalar start, Scalar end, Scalar step, std::optional<DType> dtype, Device device) {
  if (step.value == 0 || !std::isfinite(step.value))
    throw ValueError("arange", fmt::format("the step must be finite and not zero, it is {}", step.value));
  const bool whole = start.is_integer && end.is_integer && step.is_integer;
  const double span = end.value - start.value;
  if (!std::isfinite(span))
    throw ValueError("arange", fmt::format("the bounds {} and {} must be finite", start.value, end.value));
  if (span != 0 && (span > 0) != (step.value > 0))
    throw ValueError("arange", fmt::format("steps of {} do not lead from {} to {}", step.value, start.value, end.value));
  std::int64_t n = 0;
  if (whole) {
    const std::int64_t distance = step.integer > 0 ? end.integer - start.integer : start.integer - end.integer,
                       by = std::abs(step.integer);
    n = distance > 0 ? (distance + by - 1) / by : 0;
  } else {
    n = static_cast<std::int64_t>(std::max(0.0, std::ceil(span / step.value)));
  }
  Tensor t = empty({n}, {.dtype = dtype.value_or(whole ? DType::i64 : DType::f32), .device = device});
  kernels::arange(t, start, step);
  return t;
}

Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options) {
  if (steps < 0) throw ValueError("linspace", fmt::format("the number of steps must not be negative, it is {}", steps));
  Tensor t = empty({steps}, without_grad(options));
  kernels::arange(t, start, steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0.0);
  if (steps > 1) {  // the last one is exact
    Tensor last = alias(t, {1}, {1}, steps - 1);
    kernels::fill(last, end);
  }
  return finished(std::move(t), options);
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, TensorOptions options) {
  const std::int64_t c = columns.value_or(rows);
  Tensor t = zeros({rows, c}, without_grad(options));
  Tensor diagonal = alias(t, {std::min(rows, c)}, {c + 1}, 0);
  kernels::fill(diagonal, 1);
  return finished(std::move(t), options);
}

Tensor rand(const Shape& shape, TensorOptions options, Generator& generator) {
  check_floating("rand", options.dtype);
  Tensor t = empty(shape, without_grad(options));
  kernels::random_uniform(t, 0, 1, generator.draw());
  return finished(std::move(t), options);
}

Tensor randn(const Shape& shape, TensorOptions options, Generator& generator) {
  check_floating("randn", options.dtype);
  Tensor t = empty(shape, without_grad(options));
  kernels::random_normal(t, 0, 1, generator.draw());
  return finished(std::move(t), options);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options, Generator& generator) {
  if (low >= high) throw ValueError("randint", fmt::format("the range [{}, {}) is empty", low, high));
  Tensor t = empty(shape, without_grad(options));
  kernels::random_integers(t, low, high, generator.draw());
  return finished(std::move(t), options);
}

Tensor randperm(std::int64_t n, Generator& generator) {
  Tensor t = arange(0, n);
  std::int64_t* p = t.data<std::int64_t>();
  for (std::int64_t i = n; i > 1; --i) std::swap(p[i - 1], p[generator.below(static_cast<std::uint64_t>(i))]);
  return t;
}

template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape, std::optional<DType> dtype, Device device) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel())
    throw ShapeError("tensor", fmt::format("{} values do not fill the shape {} of {} elements", values.size(), to_string(shape),
                                           shape.numel()));
  const DType natural = std::is_same_v<T, double> ? DType::f32 : dtype_of<T>;
  Tensor t = empty(shape, {.dtype = dtype.value_or(natural), .device = device});
  // Kernels only read their sources.
  const Tensor source = from_blob(const_cast<T*>(values.data()), shape, {.dtype = dtype_of<T>});
  kernels::copy(source, t);
  return t;
}
template Tensor tensor(std::span<const bool>, const Shape&, std::optional<DType>, Device);
template Tensor tensor(std::span<const std::uint8_t>, const Shape&, std::optional<DType>, Device);
template Tensor tensor(std::span<const std::int32_t>, const Shape&, std::optional<DType>, Device);
template Tensor tensor(std::span<const std::int64_t>, const Shape&, std::optional<DType>, Device);
template Tensor tensor(std::span<const bfloat16>, const Shape&, std::optional<DType>, Device);
template Tensor tensor(std::span<const float>, const Shape&, std::optional<DType>, Device);
template Tensor tensor(std::span<const double>, const Shape&, std::optional<DType>, Device);

Shape NestedValues::shape() const {
  Shape s;
  for (const NestedValues* v = this; !v->leaf_; v = &v->rows_[0]) {
    s.push_back(static_cast<std::int64_t>(v->rows_.size()));
    if (v->rows_.empty()) break;
  }
  return s;
}

void NestedValues::check(const Shape& expected, int depth) const {
  const bool is_row = depth < expected.dim();
  if (leaf_ == is_row || (is_row && static_cast<std::int64_t>(rows_.size()) != expected[depth]))
    throw ShapeError(
        "tensor",
        fmt::format("the nested values are ragged: the first rows give the shape {}, a later one at depth {} has {}",
                    to_string(expected), depth, leaf_ ? std::string("a number") : fmt::format("{} entries", rows_.size())));
  for (const NestedValues& row : rows_) row.check(expected, depth + 1);
}

void NestedValues::collect(std::vector<double>& out) const {
  if (leaf_) out.push_back(value_);
  for (const NestedValues& row : rows_) row.collect(out);
}

Tensor tensor(std::initializer_list<NestedValues> values, TensorOptions options) {
  const NestedValues root(values);
  root.check(root.shape(), 0);
  std::vector<double> flat;
  root.collect(flat);
  return finished(tensor(std::span<const double>(flat), root.shape(), options.dtype, options.device), options);
}

}  // namespace spool
