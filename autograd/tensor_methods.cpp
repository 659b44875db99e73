// The methods of Tensor that the tape must know about: most only name the function of ops.h.
#include <fmt/format.h>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/observer.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"

namespace spool {

Tensor Tensor::to(DType dtype) const { return spool::to(*this, dtype); }
Tensor Tensor::to(Device device) const { return spool::to(*this, device); }
Tensor Tensor::contiguous(MemoryFormat format) const { return spool::contiguous(*this, format); }
Tensor Tensor::clone() const { return spool::clone(*this); }
Tensor Tensor::reshape(const Shape& shape) const { return spool::reshape(*this, shape); }
Tensor Tensor::view(const Shape& shape) const { return spool::view(*this, shape); }
Tensor Tensor::flatten(int start_dim, int end_dim) const { return spool::flatten(*this, start_dim, end_dim); }
Tensor Tensor::transpose(int dim0, int dim1) const { return spool::transpose(*this, dim0, dim1); }
Tensor Tensor::t() const {
  if (dim() != 2)
    throw ShapeError("t", fmt::format("t() is for matrices, this tensor has {} dimensions: use transpose()", dim()),
                     {{"input", *this}});
  return spool::transpose(*this, 0, 1);
}
Tensor Tensor::permute(Dims dims) const { return spool::permute(*this, dims); }
Tensor Tensor::squeeze() const { return spool::squeeze(*this); }
Tensor Tensor::squeeze(int dim) const { return spool::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(int dim) const { return spool::unsqueeze(*this, dim); }
Tensor Tensor::expand(const Shape& shape) const { return spool::expand(*this, shape); }
Tensor Tensor::select(int dim, std::int64_t index) const { return spool::select(*this, dim, index); }
Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length) const { return spool::narrow(*this, dim, start, length); }
Tensor Tensor::slice(int dim, std::optional<std::int64_t> start, std::optional<std::int64_t> end, std::int64_t step) const {
  return spool::slice(*this, dim, start, end, step);
}
std::vector<Tensor> Tensor::chunk(int chunks, int dim) const { return spool::chunk(*this, chunks, dim); }
std::vector<Tensor> Tensor::split(std::int64_t size, int dim) const { return spool::split(*this, size, dim); }
Tensor Tensor::sum() const { return spool::sum(*this); }
Tensor Tensor::sum(Dims dims, bool keepdim) const { return spool::sum(*this, dims, keepdim); }
Tensor Tensor::mean() const { return spool::mean(*this); }
Tensor Tensor::mean(Dims dims, bool keepdim) const { return spool::mean(*this, dims, keepdim); }
Tensor Tensor::var(Dims dims, double correction, bool keepdim) const { return spool::var(*this, dims, correction, keepdim); }
Tensor Tensor::std(Dims dims, double correction, bool keepdim) const { return spool::std(*this, dims, correction, keepdim); }
Tensor Tensor::norm(double p) const { return spool::norm(*this, p); }
Tensor Tensor::max() const { return spool::max(*this); }
Tensor Tensor::min() const { return spool::min(*this); }
Tensor Tensor::argmax() const { return spool::argmax(*this); }
Tensor Tensor::argmax(int dim, bool keepdim) const { return spool::argmax(*this, dim, keepdim); }
Tensor Tensor::matmul(const Tensor& other) const { return spool::matmul(*this, other); }
Tensor Tensor::exp() const { return spool::exp(*this); }
Tensor Tensor::log() const { return spool::log(*this); }
Tensor Tensor::sqrt() const { return spool::sqrt(*this); }
Tensor Tensor::abs() const { return spool::abs(*this); }
Tensor Tensor::tanh() const { return spool::tanh(*this); }
Tensor Tensor::sigmoid() const { return spool::sigmoid(*this); }
Tensor Tensor::relu() const { return spool::relu(*this); }
Tensor Tensor::square() const { return spool::square(*this); }
Tensor Tensor::pow(double exponent) const { return spool::pow(*this, exponent); }
Tensor Tensor::clamp(std::optional<double> min, std::optional<double> max) const { return spool::clamp(*this, min, max); }
Tensor Tensor::operator-() const { return spool::neg(*this); }

// --- gradients

Tensor& Tensor::set_requires_grad(bool value) {
  TensorImpl& t = get();
  if (value && !is_floating(t.dtype))
    throw GradError(
        "set_requires_grad",
        fmt::format("only floating-point tensors can require a gradient, not {}: use to(f32) first", name_of(t.dtype)),
        {{"tensor", *this}});
  if (!value && t.grad_fn)
    throw GradError("set_requires_grad",
                    "this tensor is the result of a recorded operation and cannot stop requiring a gradient: use detach()",
                    {{"tensor", *this}});
  t.requires_grad = value;
  return *this;
}

void Tensor::set_grad(Tensor grad) {
  TensorImpl& t = get();
  if (grad.defined()) {
    if (grad.shape() != t.shape)
      throw ShapeError("set_grad", "a gradient has the shape of its tensor", {{"tensor", *this}, {"gradient", grad}});
    if (grad.dtype() != t.dtype)
      throw DTypeError("set_grad", "a gradient has the type of its tensor", {{"tensor", *this}, {"gradient", grad}});
    if (grad.device() != device())
      throw DeviceError("set_grad", "a gradient is on the device of its tensor", {{"tensor", *this}, {"gradient", grad}});
  }
  t.grad = std::move(grad);
  t.grad_state = GradState::fresh;
}

Tensor Tensor::detach() const { return alias(*this, shape(), strides(), offset()); }

namespace {
TensorExtras& extras_of(TensorImpl& t) {
  if (!t.extras) t.extras = std::make_unique<TensorExtras>();
  return *t.extras;
}
void check_has_grad(const char* op, const Tensor& t) {
  if (!t.requires_grad()) throw GradError(op, "this tensor does not require a gradient", {{"tensor", t}});
}
}  // namespace

void Tensor::retain_grad() const {
  check_has_grad("retain_grad", *this);
  TensorImpl& t = get();
  if (!t.grad_fn || (t.extras && t.extras->kept_grad)) return;
  extras_of(t).kept_grad = std::make_shared<Tensor>();
  t.grad_fn->make_extras().kept.emplace_back(t.output_nr, t.extras->kept_grad);
}

void Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check_has_grad("register_hook", *this);
  TensorImpl& t = get();
  if (t.grad_fn)
    t.grad_fn->make_extras().hooks.emplace_back(t.output_nr, std::move(hook));
  else
    extras_of(t).hooks.push_back(std::move(hook));
}

// --- in place

namespace {

// An in-place write would have to be part of the graph if the tensor or the values written to it are: refused, rather than followed
// through views, or lost.
void check_in_place(const char* op, const Tensor& self, const Tensor* source = nullptr) {
  for (int d = 0; d < self.dim(); ++d)
    if (self.strides()[d] == 0 && self.shape()[d] > 1)
      throw ValueError(op, "elements of this tensor share their memory, as expand() makes them: clone() it before writing",
                       {{"tensor", self}});
  if (!thread_state.grad_enabled) return;
  if (self.requires_grad())
    throw GradError(
        op,
        self.is_leaf()
            ? "a leaf that requires a gradient may not be overwritten while operations are recorded: do it under NoGrad"
            : "a result of a recorded operation may not be overwritten: use the operation that makes a new tensor, or detach() "
              "under NoGrad",
        {{"tensor", self}});
  if (source && source->requires_grad())
    throw GradError(op,
                    "values that require a gradient may not be written into a tensor outside of the graph, where their gradient "
                    "would be lost: build "
                    "the result with cat, stack or where, or detach() them",
                    {{"tensor", self}, {"source", *source}});
}

// The operand brought to self's shape and type, as a window of strides where that needs no copy.
Tensor operand_for(const char* op, const Tensor& self, const Tensor& other) {
  if (other.device() != self.device())
    throw DeviceError(op, "the operands are on different devices: move one with to(device)",
                      {{"tensor", self}, {"other", other}});
  if (broadcast_shapes(op, self, other) != self.shape())
    throw ShapeError(op, "the other operand does not broadcast to this tensor's shape", {{"tensor", self}, {"other", other}});
  if (!is_floating(self.dtype()) && is_floating(other.dtype()))
    throw DTypeError(op,
                     fmt::format("{} values cannot be written into {} elements: use to({}) first", name_of(other.dtype()),
                                 name_of(self.dtype()), name_of(self.dtype())),
                     {{"tensor", self}, {"other", other}});
  NoGrad guard;
  Tensor o = other.dtype() == self.dtype() ? other : other.to(self.dtype());
  if (o.shape() != self.shape()) o = o.expand(self.shape());
  // Kernels allow the very same elements, in the same order, and no other overlap.
  const bool same = o.offset() == self.offset() && o.strides() == self.strides();
  return o.storage() == self.storage() && !same ? o.clone() : o;
}

template <class Op>
Tensor& apply_in_place(const char* name, Tensor& self, const Tensor& other) {
  check_in_place(name, self, &other);
  const Tensor o = operand_for(name, self, other);
  kernels::binary(Op{}, self, o, self);
  mark_overwritten(name, self);
  return self;
}

Tensor constant_for(const Tensor& self, Scalar value) {
  return full({}, value,
              {.dtype = is_floating(self.dtype()) || value.is_integer ? self.dtype() : DType::f32, .device = self.device()});
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source) {
  check_in_place("copy_", *this, &source);
  if (broadcast_shapes("copy_", *this, source) != shape())
    throw ShapeError("copy_", "the source does not broadcast to this tensor's shape", {{"tensor", *this}, {"source", source}});
  NoGrad guard;
  Tensor s = source.shape() == shape() ? source : source.expand(shape());
  if (s.storage() == storage()) s = s.clone();
  kernels::copy(s, *this);
  mark_overwritten("copy_", *this);
  return *this;
}

Tensor& Tensor::fill_(Scalar value) {
  check_in_place("fill_", *this);
  kernels::fill(*this, value);
  mark_overwritten("fill_", *this);
  return *this;
}

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  if (alpha == 1) return apply_in_place<Add>("add_", *this, other);
  check_in_place("add_", *this, &other);
  return apply_in_place<Add>("add_", *this, mul(other, alpha));
}
Tensor& Tensor::add_(Scalar value) { return apply_in_place<Add>("add_", *this, constant_for(*this, value)); }
Tensor& Tensor::sub_(const Tensor& other) { return apply_in_place<Sub>("sub_", *this, other); }
Tensor& Tensor::mul_(const Tensor& other) { return apply_in_place<Mul>("mul_", *this, other); }
Tensor& Tensor::mul_(Scalar value) { return apply_in_place<Mul>("mul_", *this, constant_for(*this, value)); }
Tensor& Tensor::div_(const Tensor& other) {
  if (!is_floating(dtype()))
    throw DTypeError("div_", "integers cannot be divided in place: the result is f32", {{"tensor", *this}});
  return apply_in_place<Div>("div_", *this, other);
}

// --- values

Scalar Tensor::item_scalar() const {
  if (numel() != 1)
    throw ShapeError("item", fmt::format("only a tensor of one element has a value of its own, this one has {}", numel()),
                     {{"tensor", *this}});
  NoGrad guard;
  const Tensor host = to(Device::cpu());
  return visit(dtype(), [&]<class T>(TypeTag<T>) -> Scalar {
    const T v = *static_cast<const T*>(host.raw_data());
    if constexpr (std::is_same_v<T, bfloat16>)
      return Scalar(static_cast<float>(v));
    else
      return Scalar(v);
  });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  NoGrad guard;
  const Tensor host = to(dtype_of<T>).to(Device::cpu()).contiguous();
  const T* p = static_cast<const T*>(host.raw_data());
  return std::vector<T>(p, p + host.numel());
}
template std::vector<bool> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<bfloat16> Tensor::to_vector() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;

}  // namespace spool
