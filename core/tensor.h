// Tensor: an n-dimensional array with a shape, strides, an element type and a device. Copying a Tensor copies a handle; both
// handles see the same elements (clone() copies those). A default-made Tensor is undefined and may only be tested and assigned.
// Distinct tensors may be used from distinct threads, one tensor may not.
//
// The methods under "differentiable" are declared here and defined in autograd/, the one upward arrow of the layering; each
// is the function of the same name in <spool/autograd/ops.h>, which documents it.
#pragma once
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "spool/core/dtype.h"
#include "spool/core/scalar.h"
#include "spool/core/shape.h"
#include "spool/core/storage.h"

namespace spool {

struct Node;
void retain(const Node*) noexcept;
void release(const Node*) noexcept;

struct TensorImpl;

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = Device::cpu();
  bool requires_grad = false;
};

struct BackwardOptions {
  bool retain_graph = false;  // keep the saved tensors, so that backward can run again
};

using Dims = std::initializer_list<int>;

class Tensor {
 public:
  Tensor() noexcept = default;
  explicit Tensor(Ref<TensorImpl> impl) noexcept : impl_(std::move(impl)) {}

  bool defined() const noexcept { return static_cast<bool>(impl_); }
  inline const Shape& shape() const;
  inline const Strides& strides() const;
  inline int dim() const;
  inline std::int64_t numel() const;
  std::int64_t size(int dim) const;    // negative counts from the end; throws IndexError
  std::int64_t stride(int dim) const;  // in elements
  inline std::int64_t offset() const;  // of the first element in the storage, in elements
  inline DType dtype() const;
  inline Device device() const;
  bool is_cuda() const { return device().is_cuda(); }
  inline const Ref<Storage>& storage() const;
  inline std::uint32_t version() const;

  // Whether the elements lie densely in this order. Dimensions of size one, and empty tensors, do not matter.
  bool is_contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  // The first element. Throws DTypeError when T is not the tensor's type, DeviceError when it is not in host memory.
  template <class T>
  T* data() const {
    check_data(dtype_of<std::remove_cv_t<T>>);
    return static_cast<T*>(raw_data());
  }
  // The same address without checks; what kernels use.
  inline void* raw_data() const;
  // The only element, of a tensor that has one. Throws ShapeError otherwise.
  template <class T = float>
  T item() const {
    const Scalar s = item_scalar();
    return s.to<T>();
  }
  // The elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  // --- gradients
  inline bool requires_grad() const;
  // Asks for a gradient of this leaf. Throws GradError on integer types and on results of recorded operations.
  Tensor& set_requires_grad(bool value = true);
  bool is_leaf() const;
  // The gradient that backward() has accumulated; undefined when there is none.
  const Tensor& grad() const;
  void set_grad(Tensor grad);  // throws ShapeError, DTypeError, DeviceError when it does not fit
  inline const Ref<Node>& grad_fn() const;
  inline std::uint32_t output_nr() const;
  // Computes the gradients of this tensor with respect to every leaf that asks for one and adds them to their grad().
  // `grad` is the gradient of this tensor; it may be left out when this tensor has one element.
  void backward(const Tensor& grad = {}, BackwardOptions options = {}) const;
  // Keeps the gradient of a tensor that is not a leaf.
  void retain_grad() const;
  // Calls `hook` during backward with this tensor's gradient, complete; a defined result replaces it. The hook must not write into what it is given,
  // which other tensors may share.
  void register_hook(std::function<Tensor(const Tensor&)> hook) const;
  // The same elements outside of the tape.
  Tensor detach() const;
  const std::string& name() const;
  void set_name(std::string name) const;

  // --- differentiable
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  Tensor clone() const;
  Tensor reshape(const Shape& shape) const;
  Tensor view(const Shape& shape) const;
  Tensor flatten(int start_dim = 0, int end_dim = -1) const;
  Tensor transpose(int dim0, int dim1) const;
  Tensor t() const;
  Tensor permute(Dims dims) const;
  Tensor squeeze() const;
  Tensor squeeze(int dim) const;
  Tensor unsqueeze(int dim) const;
  Tensor expand(const Shape& shape) const;
  Tensor select(int dim, std::int64_t index) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  Tensor narrow(int dim, std::int64_t start, std::int64_t length) const;
  Tensor slice(int dim, std::optional<std::int64_t> start = {}, std::optional<std::int64_t> end = {},
               std::int64_t step = 1) const;
  std::vector<Tensor> chunk(int chunks, int dim = 0) const;
  std::vector<Tensor> split(std::int64_t size, int dim = 0) const;
  Tensor sum() const;
  Tensor sum(Dims dims, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(Dims dims, bool keepdim = false) const;
  Tensor var(Dims dims = {}, double correction = 1, bool keepdim = false) const;
  Tensor std(Dims dims = {}, double correction = 1, bool keepdim = false) const;
  Tensor norm(double p = 2) const;
  Tensor max() const;
  Tensor min() const;
  Tensor argmax() const;
  Tensor argmax(int dim, bool keepdim = false) const;
  Tensor matmul(const Tensor& other) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor abs() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor square() const;
  Tensor pow(double exponent) const;
  Tensor clamp(std::optional<double> min = {}, std::optional<double> max = {}) const;
  Tensor operator-() const;

  // --- in place; each throws GradError where the tape would be needed to follow the write (see docs at copy_)
  // Overwrites the elements with those of `source`, broadcast and converted. Refused while gradients are recorded when this
  // tensor or `source` is part of a graph: write out of place, or under NoGrad.
  Tensor& copy_(const Tensor& source);
  Tensor& fill_(Scalar value);
  Tensor& zero_() { return fill_(0); }
  Tensor& add_(const Tensor& other, double alpha = 1);
  Tensor& add_(Scalar value);
  Tensor& sub_(const Tensor& other);
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(Scalar value);
  Tensor& div_(const Tensor& other);

  // Makes this tensor's handle and all its copies stand for other elements (type and device may change, the shape may not), and
  // drops its gradient if type or device changed. How Module::to moves parameters that optimizers already hold.
  void set_data(const Tensor& data);

  const Ref<TensorImpl>& impl() const noexcept { return impl_; }
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }

 private:
  inline TensorImpl& get() const;
  [[noreturn]] static void throw_undefined();
  void check_data(DType wanted) const;
  Scalar item_scalar() const;

  Ref<TensorImpl> impl_;
};

// What few tensors have: a name, hooks, a kept gradient of a non-leaf.
struct TensorExtras {
  std::string name;
  std::vector<std::function<Tensor(const Tensor&)>> hooks;  // of a leaf; those of other tensors live on their node
  std::shared_ptr<Tensor> kept_grad;                        // shared with the node that fills it
};

// Whether an optimizer has already used a leaf's gradient: what lets step() refuse to use one twice.
enum class GradState : std::uint8_t {
  fresh,  // made by backward() or set_grad() and not used yet
  used,   // a step() has used it
  mixed,  // backward() has added to one that a step() had used
};

struct TensorImpl final : RefCounted, PooledObject {
  TensorImpl(Ref<Storage> storage, const Shape& shape, const Strides& strides, std::int64_t offset, std::int64_t numel,
             DType dtype);

  Ref<Storage> storage;
  Shape shape;
  Strides strides;
  std::int64_t offset;
  std::int64_t numel;
  DType dtype;
  bool requires_grad = false;
  GradState grad_state = GradState::fresh;
  // Of a gradient on its way: batch norm made it, so that over all dimensions but 1 it sums to zero, and a bias there has nothing to add up.
  bool channels_sum_to_zero = false;
  std::uint32_t output_nr = 0;
  Ref<Node> grad_fn;
  Tensor grad;
  std::unique_ptr<TensorExtras> extras;
};

inline TensorImpl& Tensor::get() const {
  if (!impl_) throw_undefined();
  return *impl_;
}
inline const Shape& Tensor::shape() const { return get().shape; }
inline const Strides& Tensor::strides() const { return get().strides; }
inline int Tensor::dim() const { return get().shape.dim(); }
inline std::int64_t Tensor::numel() const { return get().numel; }
inline std::int64_t Tensor::offset() const { return get().offset; }
inline DType Tensor::dtype() const { return get().dtype; }
inline Device Tensor::device() const { return get().storage->device(); }
inline const Ref<Storage>& Tensor::storage() const { return get().storage; }
inline std::uint32_t Tensor::version() const { return get().storage->version(); }
inline bool Tensor::requires_grad() const { return impl_ && impl_->requires_grad; }
inline const Ref<Node>& Tensor::grad_fn() const { return get().grad_fn; }
inline std::uint32_t Tensor::output_nr() const { return get().output_nr; }
inline void* Tensor::raw_data() const {
  const TensorImpl& t = get();
  return t.storage->data() + t.offset * static_cast<std::int64_t>(size_of(t.dtype));
}

// --- making tensors without touching their elements
// Uninitialised elements. Throws DeviceError for a device this build cannot use, ShapeError for a negative or overflowing size.
Tensor empty(const Shape& shape, TensorOptions options = {}, MemoryFormat format = MemoryFormat::contiguous);
// Like `t` in shape, device and memory order (where `t` is dense); `dtype` changes the type.
Tensor empty_like(const Tensor& t);
Tensor empty_like(const Tensor& t, DType dtype);
// Another window on the storage of `base`, outside of the tape. No checks beyond bounds.
Tensor alias(const Tensor& base, const Shape& shape, const Strides& strides, std::int64_t offset);
// A tensor over memory that the caller keeps alive, in row-major order; nothing is copied. `release(context)` is called when the last
// tensor over it is gone.
Tensor from_blob(void* data, const Shape& shape, TensorOptions options = {}, void (*release)(void*) = nullptr,
                 void* context = nullptr);

// Whether every element of the smallest span of memory that holds the tensor belongs to it exactly once (any order of dimensions).
bool is_dense(const Tensor& t);

// A dimension given by a user, negative ones counted from the end: 0 .. ndim-1. Throws IndexError.
int wrap_dim(const char* op, int dim, int ndim);

// "[2, 3] f32 cpu"
std::string describe(const Tensor& t);
// As PyTorch prints: nested brackets, aligned columns, long dimensions shortened.
std::string to_string(const Tensor& t);
std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace spool
