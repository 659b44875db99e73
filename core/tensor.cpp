#include "spool/core/tensor.h"

#include <fmt/format.h>

#include "spool/core/errors.h"

namespace spool {

TensorImpl::TensorImpl(Ref<Storage> s, const Shape& sh, const Strides& st, std::int64_t off, std::int64_t n, DType t)
    : storage(std::move(s)), shape(sh), strides(st), offset(off), numel(n), dtype(t) {}

void Tensor::throw_undefined() {
  throw ValueError("", "an undefined tensor was used: assign it first (a default-made Tensor has no shape and no elements)");
}

std::int64_t Tensor::size(int dim) const { return shape()[wrap_dim("size", dim, this->dim())]; }
std::int64_t Tensor::stride(int dim) const { return strides()[wrap_dim("stride", dim, this->dim())]; }

bool Tensor::is_contiguous(MemoryFormat format) const {
  const TensorImpl& t = get();
  if (t.numel == 0) return true;
  const auto follows = [&](std::int64_t& expected, int d) {
    const bool fits = t.shape[d] == 1 || t.strides[d] == expected;
    expected *= t.shape[d];
    return fits;
  };
  std::int64_t expected = 1;
  if (format == MemoryFormat::channels_last) {
    if (t.shape.dim() != 4) return false;
    for (const int d : {1, 3, 2, 0})
      if (!follows(expected, d)) return false;
    return true;
  }
  for (int d = t.shape.dim() - 1; d >= 0; --d)
    if (!follows(expected, d)) return false;
  return true;
}

void Tensor::check_data(DType wanted) const {
  if (dtype() != wanted)
    throw DTypeError(
        "data",
        fmt::format("the elements are {}, asked for as {}: use to({}) first", name_of(dtype()), name_of(wanted), name_of(wanted)),
        {{"tensor", *this}});
  if (is_cuda()) throw DeviceError("data", "the elements are in device memory: use to(Device::cpu()) first", {{"tensor", *this}});
}

const Tensor& Tensor::grad() const {
  const TensorImpl& t = get();
  return t.extras && t.extras->kept_grad ? *t.extras->kept_grad : t.grad;
}

bool Tensor::is_leaf() const { return !get().grad_fn; }

const std::string& Tensor::name() const {
  static const std::string none;
  return get().extras ? get().extras->name : none;
}

void Tensor::set_name(std::string name) const {
  TensorImpl& t = get();
  if (!t.extras) t.extras = std::make_unique<TensorExtras>();
  t.extras->name = std::move(name);
}

void Tensor::set_data(const Tensor& data) {
  TensorImpl& t = get();
  if (data.shape() != t.shape)
    throw ShapeError("set_data", "the new elements have another shape", {{"tensor", *this}, {"data", data}});
  if (t.grad_fn) throw GradError("set_data", "this tensor is the result of a recorded operation", {{"tensor", *this}});
  if (t.grad.defined() && (data.dtype() != t.dtype || data.device() != device())) t.grad = {};
  t.storage = data.storage();
  t.strides = data.strides();
  t.offset = data.offset();
  t.dtype = data.dtype();
}

Tensor empty(const Shape& shape, TensorOptions options, MemoryFormat format) {
  const std::int64_t n = shape.numel();
  if (n > (std::int64_t{1} << 62) / static_cast<std::int64_t>(size_of(options.dtype)))
    throw ShapeError("empty", fmt::format("{} {} elements do not fit in memory", to_string(shape), name_of(options.dtype)));
  if (options.requires_grad && !is_floating(options.dtype))
    throw GradError("empty", fmt::format("only floating-point tensors can require a gradient, not {}", name_of(options.dtype)));
  if (options.device.is_cuda()) check_usable(options.device);
  auto impl = make_ref<TensorImpl>(Storage::make(static_cast<std::size_t>(n) * size_of(options.dtype), options.device), shape,
                                   dense_strides(shape, format), 0, n, options.dtype);
  impl->requires_grad = options.requires_grad;
  return Tensor(std::move(impl));
}

bool is_dense(const Tensor& t) {
  int order[kMaxDims], n = 0;
  for (int d = 0; d < t.dim(); ++d)
    if (t.shape()[d] != 1) order[n++] = d;
  sort_dims(order, n, [&](int a, int b) { return t.strides()[a] < t.strides()[b]; });
  std::int64_t expected = 1;
  for (int i = 0; i < n; ++i) {
    if (t.strides()[order[i]] != expected) return false;
    expected *= t.shape()[order[i]];
  }
  return true;
}

Tensor empty_like(const Tensor& t) { return empty_like(t, t.dtype()); }

Tensor empty_like(const Tensor& t, DType dtype) {
  const TensorOptions options{.dtype = dtype, .device = t.device()};
  if (t.is_contiguous() || !is_dense(t)) return empty(t.shape(), options);
  auto storage = Storage::make(static_cast<std::size_t>(t.numel()) * size_of(dtype), t.device());
  return Tensor(make_ref<TensorImpl>(std::move(storage), t.shape(), t.strides(), 0, t.numel(), dtype));
}

Tensor alias(const Tensor& base, const Shape& shape, const Strides& strides, std::int64_t offset) {
  return Tensor(make_ref<TensorImpl>(base.storage(), shape, strides, offset, shape.numel(), base.dtype()));
}

Tensor from_blob(void* data, const Shape& shape, TensorOptions options, void (*release)(void*), void* context) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(options.dtype);
  if (!data && bytes)
    throw ValueError("from_blob", fmt::format("the data pointer is null but the shape {} is not empty", to_string(shape)));
  auto impl = make_ref<TensorImpl>(make_ref<Storage>(data, bytes, options.device, release, context), shape, dense_strides(shape),
                                   0, shape.numel(), options.dtype);
  Tensor t(std::move(impl));
  if (options.requires_grad) t.set_requires_grad();
  return t;
}

int wrap_dim(const char* op, int dim, int ndim) {
  const int n = ndim ? ndim : 1;  // a 0-d tensor answers to dimensions 0 and -1, as in PyTorch
  if (dim < -n || dim >= n)
    throw IndexError(
        op, fmt::format("dimension {} is out of range for a tensor of {} dimensions (allowed: {} to {})", dim, ndim, -n, n - 1));
  return dim < 0 ? dim + n : dim;
}

std::string describe(const Tensor& t) {
  if (!t.defined()) return "undefined";
  return fmt::format("{} {} {}", to_string(t.shape()), name_of(t.dtype()), to_string(t.device()));
}

}  // namespace spool
