// Views and copies: operations that move no number or only move them.
#include <fmt/format.h>

#include <algorithm>

#include "spool/autograd/creation.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/internal.h"
#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"

namespace spool {
namespace {

// Fills the -1 of a requested shape.
Shape inferred(const char* op, const Tensor& x, const Shape& wanted) {
  Shape shape = wanted;
  int unknown = -1;
  std::int64_t known = 1;
  for (int d = 0; d < shape.dim(); ++d) {
    if (shape[d] == -1) {
      if (unknown >= 0)
        throw ShapeError(op, fmt::format("only one size may be -1, the shape is {}", to_string(wanted)), {{"input", x}});
      unknown = d;
    } else if (shape[d] < 0) {
      throw ShapeError(op, fmt::format("size {} in shape {} is negative", shape[d], to_string(wanted)), {{"input", x}});
    } else {
      known *= shape[d];
    }
  }
  if (unknown >= 0) {
    if (known == 0)
      throw ShapeError(op,
                       fmt::format("the -1 in shape {} is ambiguous, since the other sizes hold no elements", to_string(wanted)),
                       {{"input", x}});
    shape[unknown] = x.numel() / known;
  }
  if (shape.numel() != x.numel())
    throw ShapeError(op, fmt::format("{} elements do not fit the shape {}", x.numel(), to_string(wanted)), {{"input", x}});
  return shape;
}

// Strides that show x in another shape without moving anything, where there are such.
std::optional<Strides> view_strides(const Tensor& x, const Shape& shape) {
  if (x.numel() == 0) return dense_strides(shape);
  Shape sizes, steps;  // x without its dimensions of size 1
  for (int d = 0; d < x.dim(); ++d)
    if (x.shape()[d] != 1) {
      sizes.push_back(x.shape()[d]);
      steps.push_back(x.strides()[d]);
    }
  // Walk from the back over runs of dimensions that lie in memory like one; each run must be split exactly by dimensions of `shape`.
  Strides strides = Shape::filled(shape.dim(), 1);
  int d = shape.dim() - 1;
  for (int s = sizes.dim() - 1; s >= 0;) {
    const std::int64_t base = steps[s];
    std::int64_t run = 1;
    do run *= sizes[s--];
    while (s >= 0 && steps[s] == run * base);
    std::int64_t placed = 1;
    while (d >= 0 && placed < run) {
      strides[d] = placed * base;
      placed *= shape[d--];
    }
    if (placed != run) return std::nullopt;
  }
  return strides;
}

struct ViewNode final : Node {  // reshape, view, flatten, squeeze, unsqueeze
  Shape shape;                  // the input's
  ViewNode() : Node("view") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = reshape(grad_out[0], shape);
  }
};

Tensor view_as(const Tensor& x, const Shape& shape, const Strides& strides) {
  Tensor y = alias(x, shape, strides, x.offset());
  if (!needs_grad(x)) return y;
  auto node = record<ViewNode>(x);
  node->shape = x.shape();
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor view(const Tensor& x, const Shape& wanted) {
  const Shape shape = inferred("view", x, wanted);
  const auto strides = view_strides(x, shape);
  if (!strides)
    throw ShapeError("view",
                     fmt::format("the elements do not lie in an order that the shape {} can be seen in (strides {}): use "
                                 "reshape(), which copies where it must",
                                 to_string(wanted), to_string(x.strides())),
                     {{"input", x}});
  return view_as(x, shape, *strides);
}

Tensor reshape(const Tensor& x, const Shape& wanted) {
  const Shape shape = inferred("reshape", x, wanted);
  if (const auto strides = view_strides(x, shape)) return view_as(x, shape, *strides);
  const Tensor c = contiguous(x);
  return view_as(c, shape, dense_strides(shape));
}

Tensor flatten(const Tensor& x, int start_dim, int end_dim) {
  const int start = wrap_dim("flatten", start_dim, x.dim()), end = wrap_dim("flatten", end_dim, x.dim());
  if (x.dim() == 0) return reshape(x, {1});
  if (start > end)
    throw IndexError("flatten", fmt::format("start_dim {} comes after end_dim {}", start_dim, end_dim), {{"input", x}});
  Shape shape;
  std::int64_t run = 1;
  for (int d = 0; d < x.dim(); ++d) {
    if (d >= start && d <= end) run *= x.shape()[d];
    if (d == end) shape.push_back(run);
    if (d < start || d > end) shape.push_back(x.shape()[d]);
  }
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x) {
  Shape shape;
  Strides strides;
  for (int d = 0; d < x.dim(); ++d)
    if (x.shape()[d] != 1) {
      shape.push_back(x.shape()[d]);
      strides.push_back(x.strides()[d]);
    }
  return view_as(x, shape, strides);
}

Tensor squeeze(const Tensor& x, int dim) {
  const int d = wrap_dim("squeeze", dim, x.dim());
  Shape shape = x.shape();
  Strides strides = x.strides();
  if (x.dim() && shape[d] == 1) {
    shape.erase(d);
    strides.erase(d);
  }
  return view_as(x, shape, strides);
}

Tensor unsqueeze(const Tensor& x, int dim) {
  const int d = wrap_dim("unsqueeze", dim, x.dim() + 1);
  Shape shape = x.shape();
  Strides strides = x.strides();
  strides.insert(d, d < x.dim() ? shape[d] * strides[d] : 1);
  shape.insert(d, 1);
  return view_as(x, shape, strides);
}

namespace {
struct PermuteNode final : Node {
  Inline<int, kMaxDims> inverse;
  PermuteNode() : Node("permute") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = permute(grad_out[0], std::span<const int>(inverse.data(), inverse.size()));
  }
};
}  // namespace

Tensor permute(const Tensor& x, std::span<const int> dims) {
  if (static_cast<int>(dims.size()) != x.dim())
    throw ShapeError("permute", fmt::format("{} dimensions were given for a tensor of {}", dims.size(), x.dim()), {{"input", x}});
  Shape shape = x.shape();
  Strides strides = x.strides();
  Inline<int, kMaxDims> inverse;
  inverse.resize(dims.size());
  std::fill(inverse.begin(), inverse.end(), -1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim("permute", dims[i], x.dim());
    if (inverse[static_cast<std::size_t>(d)] >= 0)
      throw ValueError("permute", fmt::format("dimension {} was given twice", d), {{"input", x}});
    inverse[static_cast<std::size_t>(d)] = static_cast<int>(i);
    shape[static_cast<int>(i)] = x.shape()[d];
    strides[static_cast<int>(i)] = x.strides()[d];
  }
  Tensor y = alias(x, shape, strides, x.offset());
  if (!needs_grad(x)) return y;
  auto node = record<PermuteNode>(x);
  node->inverse = std::move(inverse);
  return set_history(std::move(y), std::move(node));
}

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  const int a = wrap_dim("transpose", dim0, x.dim()), b = wrap_dim("transpose", dim1, x.dim());
  int dims[kMaxDims];
  for (int d = 0; d < x.dim(); ++d) dims[d] = d;
  if (x.dim()) std::swap(dims[a], dims[b]);
  return permute(x, std::span<const int>(dims, static_cast<std::size_t>(x.dim())));
}

namespace {
struct ExpandNode final : Node {  // the engine sums the gradient back to the input's shape
  ExpandNode() : Node("expand") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override { grad_in[0] = grad_out[0]; }
};
}  // namespace

Tensor expand(const Tensor& x, const Shape& wanted) {
  const int shift = wanted.dim() - x.dim();
  if (shift < 0)
    throw ShapeError("expand", fmt::format("the shape {} has fewer dimensions than the tensor", to_string(wanted)),
                     {{"input", x}});
  Shape shape = wanted;
  Strides strides = Shape::filled(wanted.dim(), 0);
  for (int d = 0; d < wanted.dim(); ++d) {
    const std::int64_t own = d < shift ? 1 : x.shape()[d - shift];
    if (shape[d] == -1 && d >= shift) shape[d] = own;
    if (shape[d] != own && own != 1)
      throw ShapeError("expand", fmt::format("dimension {} of size {} cannot become {}: only size 1 stretches", d, own, shape[d]),
                       {{"input", x}});
    if (d >= shift && shape[d] == own) strides[d] = x.strides()[d - shift];
  }
  (void)shape.numel();
  Tensor y = alias(x, shape, strides, x.offset());
  if (!needs_grad(x)) return y;
  return set_history(std::move(y), record<ExpandNode>(x));
}

namespace {

// Every step-th element from `start` along `dim`, `length` of them.
Tensor strided(const Tensor& x, int dim, std::int64_t start, std::int64_t length, std::int64_t step);
// The transpose of `strided`: zeros of this shape with g written there.
Tensor strided_grad(const Tensor& g, const Shape& shape, int dim, std::int64_t start, std::int64_t step);

struct SliceNode final : Node {
  Shape shape;
  int dim = 0;
  std::int64_t start = 0, step = 1;
  SliceNode() : Node("slice") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = strided_grad(grad_out[0], shape, dim, start, step);
  }
};

struct SliceGradNode final : Node {
  int dim = 0;
  std::int64_t start = 0, length = 0, step = 1;
  SliceGradNode() : Node("slice_grad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = strided(grad_out[0], dim, start, length, step);
  }
};

Tensor raw_strided(const Tensor& x, int dim, std::int64_t start, std::int64_t length, std::int64_t step) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[dim] = length;
  const std::int64_t offset = x.offset() + (length ? start * strides[dim] : 0);
  strides[dim] *= step;
  return alias(x, shape, strides, offset);
}

Tensor strided(const Tensor& x, int dim, std::int64_t start, std::int64_t length, std::int64_t step) {
  Tensor y = raw_strided(x, dim, start, length, step);
  if (!needs_grad(x)) return y;
  auto node = record<SliceNode>(x);
  node->shape = x.shape();
  node->dim = dim;
  node->start = start;
  node->step = step;
  return set_history(std::move(y), std::move(node));
}

Tensor strided_grad(const Tensor& g, const Shape& shape, int dim, std::int64_t start, std::int64_t step) {
  const bool channels_last = shape.dim() == 4 && g.is_contiguous(MemoryFormat::channels_last) && !g.is_contiguous();
  Tensor y = empty(shape, {.dtype = g.dtype(), .device = g.device()},
                   channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  kernels::fill(y, 0);
  Tensor part = raw_strided(y, dim, start, g.shape()[dim], step);
  kernels::copy(g, part);
  if (!needs_grad(g)) return y;
  auto node = record<SliceGradNode>(g);
  node->dim = dim;
  node->start = start;
  node->length = g.shape()[dim];
  node->step = step;
  return set_history(std::move(y), std::move(node));
}

int sliced_dim(const char* op, const Tensor& x, int dim) {
  if (x.dim() == 0)
    throw IndexError(op, "a 0-d tensor has no dimension to take a part of: use item() for its value", {{"input", x}});
  return wrap_dim(op, dim, x.dim());
}

}  // namespace

Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  const int d = sliced_dim("narrow", x, dim);
  const std::int64_t n = x.shape()[d], from = start < 0 ? start + n : start;
  if (from < 0 || length < 0 || from > n || length > n - from)
    throw IndexError("narrow", fmt::format("{} elements from {} do not lie in dimension {} of size {}", length, start, dim, n),
                     {{"input", x}});
  return strided(x, d, from, length, 1);
}

Tensor slice(const Tensor& x, int dim, std::optional<std::int64_t> start, std::optional<std::int64_t> end, std::int64_t step) {
  const int d = sliced_dim("slice", x, dim);
  if (step < 1)
    throw ValueError("slice", fmt::format("the step must be at least 1, not {}; flip() reverses", step), {{"input", x}});
  const std::int64_t n = x.shape()[d];
  const auto bound = [n](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  const std::int64_t from = bound(start.value_or(0)), to = bound(end.value_or(n));
  return strided(x, d, from, to > from ? (to - from + step - 1) / step : 0, step);
}

Tensor select(const Tensor& x, int dim, std::int64_t index) {
  const int d = sliced_dim("select", x, dim);
  const std::int64_t n = x.shape()[d], at = index < 0 ? index + n : index;
  if (at < 0 || at >= n)
    throw IndexError(
        "select",
        fmt::format("index {} is out of range for dimension {} of size {} (allowed: {} to {})", index, dim, n, -n, n - 1),
        {{"input", x}});
  return squeeze(strided(x, d, at, 1, 1), d);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, int dim) {
  const int d = sliced_dim("split", x, dim);
  if (size < 1) throw ValueError("split", fmt::format("the size of a part must be at least 1, not {}", size), {{"input", x}});
  std::vector<Tensor> parts;
  const std::int64_t n = x.shape()[d];
  for (std::int64_t at = 0; at < n || parts.empty(); at += size) parts.push_back(strided(x, d, at, std::min(size, n - at), 1));
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, int dim) {
  const int d = sliced_dim("split", x, dim);
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      throw ValueError("split", fmt::format("the size of a part must not be negative, it is {}", size), {{"input", x}});
    total += size;
  }
  if (total != x.shape()[d])
    throw ShapeError("split", fmt::format("the sizes of the parts add up to {}, dimension {} has {}", total, dim, x.shape()[d]),
                     {{"input", x}});
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(strided(x, d, at, size, 1));
    at += size;
  }
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, int chunks, int dim) {
  const int d = sliced_dim("chunk", x, dim);
  if (chunks < 1)
    throw ValueError("chunk", fmt::format("the number of parts must be at least 1, not {}", chunks), {{"input", x}});
  return split(x, std::max<std::int64_t>(1, (x.shape()[d] + chunks - 1) / chunks), d);
}

namespace {

struct CopyNode final : Node {  // clone, contiguous, to: the engine converts the gradient's type back
  Device device;
  CopyNode() : Node("copy") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override { grad_in[0] = to(grad_out[0], device); }
};

Tensor copied(const Tensor& x, Tensor y, const char* op) {
  kernels::copy(x, y);
  if (!needs_grad(x) || !is_floating(y.dtype())) return y;
  auto node = record<CopyNode>(x);
  node->op = op;
  node->device = x.device();
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor contiguous(const Tensor& x, MemoryFormat format) {
  if (x.is_contiguous(format)) return x;
  return copied(x, empty(x.shape(), {.dtype = x.dtype(), .device = x.device()}, format), "contiguous");
}

Tensor clone(const Tensor& x) { return copied(x, empty_like(x), "clone"); }

Tensor to(const Tensor& x, DType dtype) { return dtype == x.dtype() ? x : copied(x, empty_like(x, dtype), "to"); }

Tensor to(const Tensor& x, Device device) {
  if (device == x.device()) return x;
  check_usable(device);
  const bool channels_last = x.dim() == 4 && x.is_contiguous(MemoryFormat::channels_last) && !x.is_contiguous();
  return copied(x,
                empty(x.shape(), {.dtype = x.dtype(), .device = device},
                      channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous),
                "to");
}

}  // namespace spool
