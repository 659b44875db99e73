#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/cpu/pack.h"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cpu {
namespace {

template <class Op, class T, class R>
void binary_row(const void*, std::byte* const* p, const std::int64_t* s, std::int64_t n) {
  using C = compute_t<T>;
  const Op op;
  const auto compute = [&](T a, T b) { return static_cast<R>(op(static_cast<C>(a), static_cast<C>(b))); };
  constexpr std::int64_t item = sizeof(T);
  R* y = reinterpret_cast<R*>(p[0]);
  const T *a = reinterpret_cast<const T*>(p[1]), *b = reinterpret_cast<const T*>(p[2]);
  // An operand may be the output itself, element for element, which does not hinder vectorisation.
  if (s[0] == sizeof(R) && s[1] == item && s[2] == item) {
    SPOOL_IVDEP
    for (std::int64_t i = 0; i < n; ++i) y[i] = compute(a[i], b[i]);
  } else if (s[0] == sizeof(R) && s[1] == item && s[2] == 0) {
    const T value = *b;
    SPOOL_IVDEP
    for (std::int64_t i = 0; i < n; ++i) y[i] = compute(a[i], value);
  } else if (s[0] == sizeof(R) && s[1] == 0 && s[2] == item) {
    const T value = *a;
    SPOOL_IVDEP
    for (std::int64_t i = 0; i < n; ++i) y[i] = compute(value, b[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      *reinterpret_cast<R*>(p[0] + i * s[0]) =
          compute(*reinterpret_cast<const T*>(p[1] + i * s[1]), *reinterpret_cast<const T*>(p[2] + i * s[2]));
  }
}

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
    for_each_row({&y, &a, &b}, &binary_row<Op, T, R>, nullptr);
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

}  // namespace spool::kernels::cpu
