#include "spool/autograd/ops/norm_operands.h"

#include <fmt/format.h>

#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

namespace spool {

Tensor detail::prepared(const Tensor& t, DType type) { return t.defined() ? contiguous(to(t, type)) : t; }

void detail::check_vector(const char* op, const char* name, const Tensor& t, const Tensor& x, const Shape& shape) {
  if (!t.defined()) return;
  if (!is_floating(t.dtype()))
    throw DTypeError(op, fmt::format("{} is {}, and only floating-point tensors are taken", name, name_of(t.dtype())),
                     {{name, t}});
  if (t.device() != x.device())
    throw DeviceError(op, fmt::format("input and {} are on different devices: move one with to(device)", name),
                      {{"input", x}, {name, t}});
  if (t.shape() != shape)
    throw ShapeError(op, fmt::format("{} has shape {}, expected {}", name, to_string(t.shape()), to_string(shape)),
                     {{"input", x}, {name, t}});
}

void detail::check_eps(const char* op, double eps) {
  if (!(eps >= 0)) throw ValueError(op, fmt::format("eps must be at least 0, not {}", eps));
}

}  // namespace spool
