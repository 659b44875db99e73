#include "spool/kernels/cuda/unary.cuh"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cuda {

template <class Op>
void unary_backward(const Op& op, const Tensor& saved, const Tensor& g, Tensor& gx) {
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) { map<T, T, T>(Op::name, ApplyDerivative<Op, T>{op}, gx, saved, g); });
}

#define SPOOL_INSTANTIATE(Op) template void unary_backward<Op>(const Op&, const Tensor&, const Tensor&, Tensor&);
SPOOL_UNARY_OPS(SPOOL_INSTANTIATE)
#undef SPOOL_INSTANTIATE

}  // namespace spool::kernels::cuda
