// One element type to another, as `copy` promises it: to boolean means != 0, to integers truncates, out of range is the nearest number, NaN is 0.
#pragma once
#include <limits>
#include <type_traits>

#include "spool/core/dtype.h"

namespace spool::kernels::cuda {

template <class To, class From>
SPOOL_HD To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    const double v = static_cast<double>(static_cast<std::conditional_t<std::is_same_v<From, double>, double, float>>(value));
    constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double high = static_cast<double>(std::numeric_limits<To>::max());
    if (v != v) return To(0);
    if (v <= low) return std::numeric_limits<To>::min();
    if (v >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace spool::kernels::cuda
