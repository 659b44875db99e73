#include "spool/kernels/cuda/unary.cuh"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cuda {
namespace {

template <class Op, class T, class R>
struct Combine {
  __device__ R operator()(T a, T b) const {
    return static_cast<R>(Op{}(static_cast<compute_t<T>>(a), static_cast<compute_t<T>>(b)));
  }
};

template <class Op>
inline constexpr bool is_comparison = std::is_same_v<decltype(Op{}(1.0f, 1.0f)), bool>;
// Division and powers of integers are computed in f32, by the operation.
template <class Op>
inline constexpr bool floating_only = std::is_same_v<Op, Div> || std::is_same_v<Op, Pow>;

}  // namespace

template <class Op>
void binary(const Op&, const Tensor& a, const Tensor& b, Tensor& y) {
  const auto run = [&]<class T>(TypeTag<T>) {
    using R = std::conditional_t<is_comparison<Op>, bool, T>;
    map<R, T, T>(Op::name, Combine<Op, T, R>{}, y, a, b);
  };
  if constexpr (floating_only<Op>)
    visit_floating(a.dtype(), run);
  else
    visit(a.dtype(), run);
}

#define SPOOL_INSTANTIATE(Op) template void binary<Op>(const Op&, const Tensor&, const Tensor&, Tensor&);
SPOOL_ARITHMETIC_OPS(SPOOL_INSTANTIATE)
SPOOL_COMPARISON_OPS(SPOOL_INSTANTIATE)
#undef SPOOL_INSTANTIATE

}  // namespace spool::kernels::cuda
