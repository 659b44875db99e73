// Taking elements by index, and sorting, whose results are elements taken by the indices it finds.
#include <fmt/format.h>

#include "spool/autograd/creation.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/internal.h"
#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"
#include "spool/kernels/index.h"

namespace spool {

using detail::check_indices;
using detail::recorded_take;

void detail::check_indices(const char* op, const Tensor& index, std::int64_t size) {
  if (index.dtype() != DType::i64)
    throw DTypeError(op, fmt::format("indices must be i64, not {}: use to(i64)", name_of(index.dtype())), {{"indices", index}});
  Tensor position = empty({}, {.dtype = DType::i64, .device = index.device()});
  kernels::find_out_of_range(index, size, position);
  const auto at = position.item<std::int64_t>();
  if (at < 0) return;
  Shape place = index.shape();
  std::int64_t rest = at;
  for (int d = index.dim() - 1; d >= 0; --d) {
    place[d] = rest % index.shape()[d];
    rest /= index.shape()[d];
  }
  const auto bad = index.to_vector<std::int64_t>()[static_cast<std::size_t>(at)];
  const std::string allowed = size ? fmt::format("0 to {}", size - 1) : "none, there is no element";
  throw IndexError(op, fmt::format("index {} at position {} is out of range (allowed: {})", bad, to_string(place), allowed),
                   {{"indices", index}});
}

namespace {

void check_devices(const char* op, const Tensor& x, const Tensor& index) {
  if (x.device() != index.device())
    throw DeviceError(op, "the operands are on different devices: move one with to(device)", {{"input", x}, {"indices", index}});
}

int indexed_dim(const char* op, const Tensor& x, int dim) {
  if (x.dim() == 0) throw IndexError(op, "a 0-d tensor has no dimension to index: reshape it to {1} first", {{"input", x}});
  return wrap_dim(op, dim, x.dim());
}

// An index has as many dimensions as what it points into, and is no larger in those that it does not run along.
void check_fits(const char* op, const Tensor& x, int dim, const Tensor& index) {
  bool fits = x.dim() == index.dim();
  for (int d = 0; fits && d < x.dim(); ++d) fits = d == dim || index.shape()[d] <= x.shape()[d];
  if (!fits)
    throw ShapeError(
        op,
        fmt::format("the indices must have the input's number of dimensions, and no more than its size in each but dimension {}",
                    dim),
        {{"input", x}, {"indices", index}});
}

// Zeros of this shape with g added at the places of the index: the transpose of a gather.
Tensor put(const Tensor& g, const Shape& shape, int dim, const Tensor& index);

struct TakeNode final : Node {
  Saved index{this, "indices"};
  Shape shape;
  int dim = 0;
  TakeNode() : Node("gather") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = put(grad_out[0], shape, dim, index.get());
  }
};

struct PutNode final : Node {
  Saved index{this, "indices"};
  int dim = 0;
  PutNode() : Node("gather_grad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = take_values(grad_out[0], dim, index.get());
  }
};

Tensor put(const Tensor& g, const Shape& shape, int dim, const Tensor& index) {
  Tensor y = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
  if (shape.dim() == 0)
    kernels::copy(g, y);
  else
    kernels::scatter_add(g, dim, index, y);
  if (!needs_grad(g)) return y;
  auto node = record<PutNode>(g);
  node->index.save(index);
  node->dim = dim;
  return set_history(std::move(y), std::move(node));
}

Tensor take(const char* op, const Tensor& x, int dim, const Tensor& index) {
  Tensor y = empty(index.shape(), {.dtype = x.dtype(), .device = x.device()});
  if (x.dim() == 0)
    kernels::copy(x, y);
  else
    kernels::gather(x, dim, index, y);
  return recorded_take(op, x, dim, index, std::move(y));
}

// One index for each slice of x along `dim`: the same for all elements of a slice.
Tensor widened(const Tensor& index, const Shape& shape, int dim) {
  Shape wide = shape;
  wide[dim] = index.numel();
  Strides strides = Shape::filled(shape.dim(), 0);
  strides[dim] = index.strides()[0];
  return alias(index, wide, strides, index.offset());
}

}  // namespace

Tensor detail::recorded_take(const char* op, const Tensor& x, int dim, const Tensor& index, Tensor values) {
  if (!needs_grad(x)) return values;
  auto node = record<TakeNode>(x);
  node->op = op;
  node->index.save(index);
  node->shape = x.shape();
  node->dim = dim;
  return set_history(std::move(values), std::move(node));
}

Tensor take_values(const Tensor& x, int dim, const Tensor& index) {
  return take("gather", x, wrap_dim("gather", dim, x.dim()), index);
}

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  const int d = indexed_dim("gather", x, dim);
  check_devices("gather", x, index);
  check_fits("gather", x, d, index);
  check_indices("gather", index, x.shape()[d]);
  return take("gather", x, d, index);
}

Tensor index_select(const Tensor& x, int dim, const Tensor& index) {
  const int d = indexed_dim("index_select", x, dim);
  check_devices("index_select", x, index);
  if (index.dim() != 1)
    throw ShapeError("index_select", "the indices must have one dimension", {{"input", x}, {"indices", index}});
  check_indices("index_select", index, x.shape()[d]);
  return take("index_select", x, d, widened(index, x.shape(), d));
}

Tensor embedding(const Tensor& indices, const Tensor& weight) {
  check_devices("embedding", weight, indices);
  if (weight.dim() != 2)
    throw ShapeError("embedding", "the weight must have two dimensions (entries, features)",
                     {{"weight", weight}, {"indices", indices}});
  check_indices("embedding", indices, weight.shape()[0]);
  Shape shape = indices.shape();
  shape.push_back(weight.shape()[1]);
  return reshape(take("embedding", weight, 0, widened(reshape(indices, {indices.numel()}), weight.shape(), 0)), shape);
}

namespace {
struct ScatterAddNode final : Node {
  Saved index{this, "indices"};
  int dim = 0;
  ScatterAddNode() : Node("scatter_add") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    if (needs(0)) grad_in[0] = grad_out[0];
    if (needs(1)) grad_in[1] = take_values(grad_out[0], dim, index.get());
  }
};
}  // namespace

Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  const int d = indexed_dim("scatter_add", x, dim);
  check_devices("scatter_add", x, index);
  check_devices("scatter_add", source, index);
  if (source.dtype() != x.dtype())
    throw DTypeError("scatter_add",
                     fmt::format("the source must have the input's type {}, not {}: use to({})", name_of(x.dtype()),
                                 name_of(source.dtype()), name_of(x.dtype())),
                     {{"input", x}, {"source", source}});
  if (source.shape() != index.shape())
    throw ShapeError("scatter_add", "the source and the indices must have one shape",
                     {{"input", x}, {"indices", index}, {"source", source}});
  check_fits("scatter_add", x, d, index);
  check_indices("scatter_add", index, x.shape()[d]);
  Tensor y = empty_like(x);
  kernels::copy(x, y);
  kernels::scatter_add(source, d, index, y);
  if (!any_needs_grad(x, source)) return y;
  auto node = record<ScatterAddNode>(x, source);
  if (node->needs(1)) node->index.save(index);
  node->dim = d;
  return set_history(std::move(y), std::move(node));
}

Tensor one_hot(const Tensor& labels, std::int64_t num_classes) {
  if (labels.dtype() != DType::i64)
    throw DTypeError("one_hot", fmt::format("labels must be i64, not {}: use to(i64)", name_of(labels.dtype())),
                     {{"labels", labels}});
  if (num_classes < -1)
    throw ValueError(
        "one_hot", fmt::format("the number of classes must be at least 0, or -1 for the largest label + 1, not {}", num_classes),
        {{"labels", labels}});
  if (num_classes == -1) {
    if (labels.numel() == 0)
      throw ValueError("one_hot", "without labels there is no largest one: give the number of classes", {{"labels", labels}});
    num_classes = max(labels).item<std::int64_t>() + 1;
  }
  check_indices("one_hot", labels, num_classes);
  return to(eq(unsqueeze(labels, -1), arange(0, num_classes, 1, DType::i64, labels.device())), DType::i64);
}

namespace {
Sorted sorted(const char* op, const Tensor& x, std::int64_t k, int dim, bool descending) {
  Shape shape = x.shape();
  if (x.dim()) shape[dim] = k;
  Sorted result{empty(shape, {.dtype = x.dtype(), .device = x.device()}),
                empty(shape, {.dtype = DType::i64, .device = x.device()})};
  kernels::sort(x, dim, descending, result.values, result.indices);
  result.values = recorded_take(op, x, dim, result.indices, std::move(result.values));
  return result;
}
}  // namespace

Sorted sort(const Tensor& x, int dim, bool descending) {
  const int d = wrap_dim("sort", dim, x.dim());
  return sorted("sort", x, x.dim() ? x.shape()[d] : 1, d, descending);
}

Sorted topk(const Tensor& x, std::int64_t k, int dim, bool largest) {
  const int d = wrap_dim("topk", dim, x.dim());
  const std::int64_t n = x.dim() ? x.shape()[d] : 1;
  if (k < 0 || k > n || (x.dim() == 0 && k != 1))
    throw ValueError("topk",
                     fmt::format("k must be between {} and the {} elements of dimension {}, not {}", x.dim() ? 0 : 1, n, dim, k),
                     {{"input", x}});
  return sorted("topk", x, k, d, largest);
}

}  // namespace spool
