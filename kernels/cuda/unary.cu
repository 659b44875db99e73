#include "spool/kernels/cuda/unary.cuh"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cuda {

template <class Op>
void unary(const Op& op, const Tensor& x, Tensor& y) {
  if constexpr (takes_integers<Op>) {
    if (!is_floating(y.dtype())) {
      visit(y.dtype(), [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) map<T, T>(Op::name, Apply<Op, T>{op}, y, x);
      });
      return;
    }
  }
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) { map<T, T>(Op::name, Apply<Op, T>{op}, y, x); });
}

#define SPOOL_INSTANTIATE(Op) template void unary<Op>(const Op&, const Tensor&, Tensor&);
SPOOL_UNARY_OPS(SPOOL_INSTANTIATE)
#undef SPOOL_INSTANTIATE

}  // namespace spool::kernels::cuda
