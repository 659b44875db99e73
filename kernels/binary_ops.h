// The elementwise functions of two arguments, each written once for every type and device. Their derivatives are with the tape nodes
// in autograd/ops/binary.cpp.
#pragma once
#include <cmath>

#include "spool/core/dtype.h"

namespace spool {

#define SPOOL_BINARY(Name, text)              \
  struct Name {                               \
    static constexpr const char* name = text; \
    template <class T>                        \
    SPOOL_HD auto operator()(T a, T b) const

// clang-format off
SPOOL_BINARY(Add, "add") { return static_cast<T>(a + b); } };
SPOOL_BINARY(Sub, "sub") { return static_cast<T>(a - b); } };
SPOOL_BINARY(Mul, "mul") { return static_cast<T>(a * b); } };
SPOOL_BINARY(Div, "div") { return static_cast<T>(a / b); } };  // floating point only; integers are converted first
SPOOL_BINARY(Pow, "pow") { using std::pow; return static_cast<T>(pow(a, b)); } };
// NaN wins: an operand that does not equal itself is returned.
SPOOL_BINARY(Maximum, "maximum") { return a > b || a != a ? a : b; } };
SPOOL_BINARY(Minimum, "minimum") { return a < b || a != a ? a : b; } };

SPOOL_BINARY(Eq, "eq") { return a == b; } };
SPOOL_BINARY(Ne, "ne") { return a != b; } };
SPOOL_BINARY(Lt, "lt") { return a < b; } };
SPOOL_BINARY(Le, "le") { return a <= b; } };
SPOOL_BINARY(Gt, "gt") { return a > b; } };
SPOOL_BINARY(Ge, "ge") { return a >= b; } };
SPOOL_BINARY(LogicalAnd, "logical_and") { return a != T(0) && b != T(0); } };
SPOOL_BINARY(LogicalOr, "logical_or") { return a != T(0) || b != T(0); } };
SPOOL_BINARY(LogicalXor, "logical_xor") { return (a != T(0)) != (b != T(0)); } };
// clang-format on

#undef SPOOL_BINARY

#define SPOOL_ARITHMETIC_OPS(X) X(Add) X(Sub) X(Mul) X(Div) X(Pow) X(Maximum) X(Minimum)
#define SPOOL_COMPARISON_OPS(X) X(Eq) X(Ne) X(Lt) X(Le) X(Gt) X(Ge) X(LogicalAnd) X(LogicalOr) X(LogicalXor)

}  // namespace spool
