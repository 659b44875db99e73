#include "spool/core/parallel.h"
#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/cpu/pack.h"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cpu {
namespace {

template <class Op, class T>
void unary_row(const void* context, std::byte* const* p, const std::int64_t* s, std::int64_t n) {
  const Op op = *static_cast<const Op*>(context);
  if constexpr (std::is_integral_v<T>) {
    for (std::int64_t i = 0; i < n; ++i)
      *reinterpret_cast<T*>(p[0] + i * s[0]) = op.template f<T>(*reinterpret_cast<const T*>(p[1] + i * s[1]));
  } else {
    constexpr std::int64_t w = Pack<compute_t<T>>::width;
    std::int64_t i = 0;
    for (; i + w <= n; i += w) store<T>(op.f(load<T>(p[1] + i * s[1], s[1], w)), p[0] + i * s[0], s[0], w);
    // The rest goes through the same vector code, so that a value's result does not depend on its place.
    if (i < n) store<T>(op.f(load<T>(p[1] + i * s[1], s[1], n - i)), p[0] + i * s[0], s[0], n - i);
  }
}

template <class Op, class T>
void unary_backward_row(const void* context, std::byte* const* p, const std::int64_t* s, std::int64_t n) {
  const Op op = *static_cast<const Op*>(context);
  constexpr std::int64_t w = Pack<compute_t<T>>::width;
  const auto piece = [&](std::int64_t i, std::int64_t m) {
    const auto g = load<T>(p[2] + i * s[2], s[2], m);
    store<T>(g * op.df(load<T>(p[1] + i * s[1], s[1], m)), p[0] + i * s[0], s[0], m);
  };
  std::int64_t i = 0;
  for (; i + w <= n; i += w) piece(i, w);
  if (i < n) piece(i, n - i);
}

}  // namespace

template <class Op>
void unary(const Op& op, const Tensor& x, Tensor& y) {
  if constexpr (takes_integers<Op>) {
    if (!is_floating(y.dtype())) {
      visit(y.dtype(), [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) for_each_row({&y, &x}, &unary_row<Op, T>, &op);
      });
      return;
    }
  }
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) { for_each_row({&y, &x}, &unary_row<Op, T>, &op); });
}

template <class Op>
void unary_backward(const Op& op, const Tensor& saved, const Tensor& g, Tensor& gx) {
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) { for_each_row({&gx, &saved, &g}, &unary_backward_row<Op, T>, &op); });
}

#define SPOOL_INSTANTIATE(Op)                                 \
  template void unary<Op>(const Op&, const Tensor&, Tensor&); \
  template void unary_backward<Op>(const Op&, const Tensor&, const Tensor&, Tensor&);
SPOOL_UNARY_OPS(SPOOL_INSTANTIATE)
#undef SPOOL_INSTANTIATE

}  // namespace spool::kernels::cpu
