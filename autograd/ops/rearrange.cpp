// Joining tensors and moving elements about. All are copies into parts of the result, and so need no kernels of their own.
#include <fmt/format.h>

#include <algorithm>

#include "spool/autograd/creation.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"

namespace spool {
namespace {

// The elements from `start` along `dim`, outside of the tape.
Tensor part(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  Shape shape = x.shape();
  shape[dim] = length;
  return alias(x, shape, x.strides(), x.offset() + (length ? start * x.strides()[dim] : 0));
}

bool channels_last(const Tensor& x) { return x.dim() == 4 && !x.is_contiguous() && x.is_contiguous(MemoryFormat::channels_last); }

Tensor like_memory_of(const Tensor& x, const Shape& shape, DType dtype) {
  return empty(shape, {.dtype = dtype, .device = x.device()},
               channels_last(x) ? MemoryFormat::channels_last : MemoryFormat::contiguous);
}

struct CatNode final : Node {
  int dim = 0;
  Inline<std::int64_t, 4> sizes;
  CatNode() : Node("cat") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (needs(i)) grad_in[i] = narrow(grad_out[0], dim, at, sizes[i]);
      at += sizes[i];
    }
  }
};

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int dim) {
  if (tensors.empty()) throw ValueError("cat", "there is no tensor to join");
  const Tensor& first = tensors[0];
  if (first.dim() == 0) throw ShapeError("cat", "0-d tensors cannot be joined: use stack()", {{"tensor", first}});
  const int d = wrap_dim("cat", dim, first.dim());
  Shape shape = first.shape();
  DType dtype = first.dtype();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (t.device() != first.device())
      throw DeviceError("cat", "the tensors are on different devices: move them with to(device)",
                        {{"first", first}, {"other", t}});
    bool fits = t.dim() == first.dim();
    for (int e = 0; fits && e < t.dim(); ++e) fits = e == d || t.shape()[e] == shape[e];
    if (!fits)
      throw ShapeError(
          "cat", fmt::format("tensor {} differs from the first in a dimension other than {}, along which they are joined", i, d),
          {{"first", first}, {"other", t}});
    shape[d] += t.shape()[d];
    dtype = promote(dtype, t.dtype());
  }
  Tensor y = like_memory_of(first, shape, dtype);
  std::int64_t at = 0;
  bool recorded = false;
  for (const Tensor& t : tensors) {
    Tensor to = part(y, d, at, t.shape()[d]);
    kernels::copy(t, to);
    at += t.shape()[d];
    recorded = recorded || needs_grad(t);
  }
  if (!recorded) return y;
  auto node = record_list<CatNode>(tensors);
  node->dim = d;
  for (const Tensor& t : tensors) node->sizes.push_back(t.shape()[d]);
  return set_history(std::move(y), std::move(node));
}

Tensor stack(std::span<const Tensor> tensors, int dim) {
  if (tensors.empty()) throw ValueError("stack", "there is no tensor to join");
  const int d = wrap_dim("stack", dim, tensors[0].dim() + 1);
  std::vector<Tensor> parts;
  parts.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].shape() != tensors[0].shape())
      throw ShapeError("stack", fmt::format("all tensors must have one shape, tensor {} has another than the first", i),
                       {{"first", tensors[0]}, {"other", tensors[i]}});
    parts.push_back(unsqueeze(tensors[i], d));
  }
  return cat(parts, d);
}

namespace {
struct PadNode final : Node {
  Inline<std::int64_t, 4> padding;
  PadNode() : Node("pad") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    // What was added is cropped, what was cropped has gradient 0.
    Inline<std::int64_t, 4> back;
    for (const std::int64_t p : padding) back.push_back(-p);
    grad_in[0] = pad(grad_out[0], std::span<const std::int64_t>(back.data(), back.size()));
  }
};
}  // namespace

Tensor pad(const Tensor& x, std::span<const std::int64_t> padding, double value) {
  const int pairs = static_cast<int>(padding.size() / 2);
  if (padding.size() % 2 != 0)
    throw ValueError("pad", fmt::format("the padding holds pairs (before, after), {} numbers were given", padding.size()),
                     {{"input", x}});
  if (pairs > x.dim())
    throw ShapeError("pad", fmt::format("{} pairs of padding were given for {} dimensions", pairs, x.dim()), {{"input", x}});
  Shape shape = x.shape();
  for (int i = 0; i < pairs; ++i) {
    const int d = x.dim() - 1 - i;
    const std::int64_t before = padding[static_cast<std::size_t>(2 * i)], after = padding[static_cast<std::size_t>(2 * i + 1)];
    shape[d] += before + after;
    if (std::max<std::int64_t>(0, -before) + std::max<std::int64_t>(0, -after) > x.shape()[d] || shape[d] < 0)
      throw ShapeError("pad",
                       fmt::format("dimension {} of size {} cannot be padded by {} and {}: more is cropped than there is", d,
                                   x.shape()[d], before, after),
                       {{"input", x}});
  }
  Tensor y = like_memory_of(x, shape, x.dtype());
  kernels::fill(y, is_floating(x.dtype()) ? Scalar(value) : Scalar(static_cast<std::int64_t>(value)));
  Tensor from = x.detach(), to = y;
  for (int i = 0; i < pairs; ++i) {
    const int d = x.dim() - 1 - i;
    const std::int64_t before = padding[static_cast<std::size_t>(2 * i)], after = padding[static_cast<std::size_t>(2 * i + 1)];
    const std::int64_t skip = std::max<std::int64_t>(0, -before),
                       kept = std::max<std::int64_t>(0, x.shape()[d] - skip - std::max<std::int64_t>(0, -after));
    from = part(from, d, skip, kept);
    to = part(to, d, std::max<std::int64_t>(0, before), kept);
  }
  kernels::copy(from, to);
  if (!needs_grad(x)) return y;
  auto node = record<PadNode>(x);
  for (const std::int64_t p : padding) node->padding.push_back(p);
  return set_history(std::move(y), std::move(node));
}

namespace {

Tensor flipped(const Tensor& x, std::uint32_t dims);

struct FlipNode final : Node {
  std::uint32_t dims = 0;
  FlipNode() : Node("flip") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override { grad_in[0] = flipped(grad_out[0], dims); }
};

Tensor flipped(const Tensor& x, std::uint32_t dims) {
  Tensor y = empty_like(x);
  if (x.numel()) {
    // Read backwards: a window with negative strides, which never leaves this function.
    Strides strides = x.strides();
    std::int64_t offset = x.offset();
    for (int d = 0; d < x.dim(); ++d) {
      if (!(dims >> d & 1)) continue;
      offset += (x.shape()[d] - 1) * strides[d];
      strides[d] = -strides[d];
    }
    kernels::copy(alias(x, x.shape(), strides, offset), y);
  }
  if (!needs_grad(x)) return y;
  auto node = record<FlipNode>(x);
  node->dims = dims;
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor flip(const Tensor& x, Dims dims) {
  std::uint32_t mask = 0;
  for (const int dim : dims) {
    const std::uint32_t bit = std::uint32_t{1} << wrap_dim("flip", dim, x.dim());
    if (mask & bit) throw ValueError("flip", fmt::format("dimension {} was given twice", dim), {{"input", x}});
    mask |= bit;
  }
  return flipped(x, mask);
}

namespace {
struct RollNode final : Node {
  std::int64_t shift = 0;
  int dim = 0;
  RollNode() : Node("roll") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    grad_in[0] = roll(grad_out[0], -shift, dim);
  }
};
}  // namespace

Tensor roll(const Tensor& x, std::int64_t shift, int dim) {
  const int d = wrap_dim("roll", dim, x.dim());
  const std::int64_t n = x.dim() ? x.shape()[d] : 1;
  const std::int64_t by = n ? (shift % n + n) % n : 0;
  Tensor y = empty_like(x);
  if (x.dim() == 0 || by == 0) {
    kernels::copy(x, y);
  } else {
    Tensor head = part(y, d, 0, by), tail = part(y, d, by, n - by);
    kernels::copy(part(x, d, n - by, by), head);
    kernels::copy(part(x, d, 0, n - by), tail);
  }
  if (!needs_grad(x)) return y;
  auto node = record<RollNode>(x);
  node->shift = by;
  node->dim = d;
  return set_history(std::move(y), std::move(node));
}

namespace {
// x where column - row is at most (or at least) `diagonal`, else 0.
Tensor triangle(const char* op, const Tensor& x, std::int64_t diagonal, bool lower) {
  if (x.dim() < 2)
    throw ShapeError(op, fmt::format("takes matrices, or batches of them; the tensor has {} dimensions", x.dim()),
                     {{"input", x}});
  const Tensor rows = unsqueeze(arange(0, x.size(-2), 1, DType::i64, x.device()), 1),
               columns = arange(0, x.size(-1), 1, DType::i64, x.device());
  const Tensor distance = sub(columns, rows);
  return where(lower ? le(distance, diagonal) : ge(distance, diagonal), x, zeros({}, {.dtype = x.dtype(), .device = x.device()}));
}
}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return triangle("triu", x, diagonal, false); }

}  // namespace spool
