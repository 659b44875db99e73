#include "spool/autograd/autocast.h"

#include "spool/autograd/ops.h"

namespace spool {

Tensor detail::autocast_down(const Tensor& t) { return t.defined() && t.dtype() == DType::f32 ? to(t, DType::bf16) : t; }
Tensor detail::autocast_up(const Tensor& t) { return t.defined() && t.dtype() == DType::bf16 ? to(t, DType::f32) : t; }

}  // namespace spool
