// A number given where an operation takes one: remembers whether it was written as an integer, so that
// `index + 1` keeps its integer type and `index + 0.5` becomes floating point.
#pragma once
#include <concepts>
#include <cstdint>

namespace spool {

struct Scalar {
  double value = 0;
  std::int64_t integer = 0;
  bool is_integer = false;

  template <std::integral T>
  Scalar(T v) : value(static_cast<double>(v)), integer(static_cast<std::int64_t>(v)), is_integer(true) {}
  template <std::floating_point T>
  Scalar(T v) : value(static_cast<double>(v)), integer(static_cast<std::int64_t>(v)) {}

  template <class T>
  T to() const {
    return is_integer && std::integral<T> ? static_cast<T>(integer) : static_cast<T>(value);
  }
};

}  // namespace spool
