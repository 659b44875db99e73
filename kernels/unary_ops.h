// The elementwise functions of one argument, each written once. `f` is the function; `df` its derivative, given what `saves` says: the input x, the
// output y, or nothing. From the list at the end come the CPU and CUDA kernels, the tape nodes and the rows of the test table.
//
// The formulas are generic in their type: float and double in kernels and gradient checks, packets of floats in the fast CPU loop, and Tensor
// itself, which makes every derivative differentiable again. So they use operators, functions found by argument-dependent lookup, and
// select(condition, a, b) in place of branches. Constants are made with like(x, value).
#pragma once
#include <cmath>
#include <numbers>

#include "spool/core/dtype.h"

namespace spool {

enum class Saves { input, output, nothing };

template <class T>
requires std::is_arithmetic_v<T> SPOOL_HD T select(bool condition, T a, T b) { return condition ? a : b; }
template <class T>
requires std::is_arithmetic_v<T> SPOOL_HD T like(T, double value) { return static_cast<T>(value); }

#define SPOOL_UNARY(Name, text, what)         \
  struct Name {                               \
    static constexpr const char* name = text; \
    static constexpr Saves saves = Saves::what

// clang-format off
SPOOL_UNARY(Neg, "neg", nothing);
  template <class T> SPOOL_HD T f(T x) const { return -x; }
  template <class T> SPOOL_HD T df(T s) const { return like(s, -1); }
};

SPOOL_UNARY(Abs, "abs", input);
  template <class T> SPOOL_HD T f(T x) const {
    if constexpr (std::is_unsigned_v<T>) return x;
    else { using std::abs; return abs(x); }
  }
  template <class T> SPOOL_HD T df(T x) const { return select(x > like(x, 0), like(x, 1), select(x < like(x, 0), like(x, -1), x * like(x, 0))); }
};

SPOOL_UNARY(Exp, "exp", output);
  template <class T> SPOOL_HD T f(T x) const { using std::exp; return exp(x); }
  template <class T> SPOOL_HD T df(T y) const { return y; }
};

SPOOL_UNARY(Expm1, "expm1", output);
  template <class T> SPOOL_HD T f(T x) const { using std::expm1; return expm1(x); }
  template <class T> SPOOL_HD T df(T y) const { return y + like(y, 1); }
};

SPOOL_UNARY(Log, "log", input);
  template <class T> SPOOL_HD T f(T x) const { using std::log; return log(x); }
  template <class T> SPOOL_HD T df(T x) const { return like(x, 1) / x; }
};

SPOOL_UNARY(Log1p, "log1p", input);
  template <class T> SPOOL_HD T f(T x) const { using std::log1p; return log1p(x); }
  template <class T> SPOOL_HD T df(T x) const { return like(x, 1) / (x + like(x, 1)); }
};

SPOOL_UNARY(Sqrt, "sqrt", output);
  template <class T> SPOOL_HD T f(T x) const { using std::sqrt; return sqrt(x); }
  template <class T> SPOOL_HD T df(T y) const { return like(y, 0.5) / y; }
};

SPOOL_UNARY(Rsqrt, "rsqrt", output);
  template <class T> SPOOL_HD T f(T x) const { using std::sqrt; return like(x, 1) / sqrt(x); }
  template <class T> SPOOL_HD T df(T y) const { return like(y, -0.5) * y * y * y; }
};

SPOOL_UNARY(Reciprocal, "reciprocal", output);
  template <class T> SPOOL_HD T f(T x) const { return like(x, 1) / x; }
  template <class T> SPOOL_HD T df(T y) const { return -(y * y); }
};

SPOOL_UNARY(Square, "square", input);
  template <class T> SPOOL_HD T f(T x) const { return x * x; }
  template <class T> SPOOL_HD T df(T x) const { return x + x; }
};

SPOOL_UNARY(Sin, "sin", input);
  template <class T> SPOOL_HD T f(T x) const { using std::sin; return sin(x); }
  template <class T> SPOOL_HD T df(T x) const { using std::cos; return cos(x); }
};

SPOOL_UNARY(Cos, "cos", input);
  template <class T> SPOOL_HD T f(T x) const { using std::cos; return cos(x); }
  template <class T> SPOOL_HD T df(T x) const { using std::sin; return -sin(x); }
};

SPOOL_UNARY(Tanh, "tanh", output);
  template <class T> SPOOL_HD T f(T x) const { using std::tanh; return tanh(x); }
  template <class T> SPOOL_HD T df(T y) const { return like(y, 1) - y * y; }
};

// exp(-x) overflows to infinity for large negative x, and 1 / (1 + inf) is the right 0.
SPOOL_UNARY(Sigmoid, "sigmoid", output);
  template <class T> SPOOL_HD T f(T x) const { using std::exp; return like(x, 1) / (like(x, 1) + exp(-x)); }
  template <class T> SPOOL_HD T df(T y) const { return y * (like(y, 1) - y); }
};

// NaN passes through: !(x <= 0) is true for it.
SPOOL_UNARY(Relu, "relu", output);
  template <class T> SPOOL_HD T f(T x) const { return select(x <= like(x, 0), like(x, 0), x); }
  template <class T> SPOOL_HD T df(T y) const { return select(y <= like(y, 0), like(y, 0), like(y, 1)); }
};

SPOOL_UNARY(LeakyRelu, "leaky_relu", input);
  double slope = 0.01;
  template <class T> SPOOL_HD T f(T x) const { return select(x > like(x, 0), x, x * like(x, slope)); }
  template <class T> SPOOL_HD T df(T x) const { return select(x > like(x, 0), like(x, 1), like(x, slope)); }
};

// Exact, by the error function (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016).
SPOOL_UNARY(Gelu, "gelu", input);
  template <class T> SPOOL_HD T f(T x) const { using std::erf; return x * like(x, 0.5) * (like(x, 1) + erf(x * like(x, 1 / std::numbers::sqrt2))); }
  template <class T> SPOOL_HD T df(T x) const {
    using std::erf; using std::exp;
    const T cdf = like(x, 0.5) * (like(x, 1) + erf(x * like(x, 1 / std::numbers::sqrt2)));
    return cdf + x * exp(x * x * like(x, -0.5)) * like(x, 0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
  }
};

SPOOL_UNARY(Silu, "silu", input);
  template <class T> SPOOL_HD T f(T x) const { using std::exp; return x / (like(x, 1) + exp(-x)); }
  template <class T> SPOOL_HD T df(T x) const {
    using std::exp;
    const T s = like(x, 1) / (like(x, 1) + exp(-x));
    return s * (like(x, 1) + x * (like(x, 1) - s));
  }
};

// log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|)).
SPOOL_UNARY(Softplus, "softplus", input);
  template <class T> SPOOL_HD T f(T x) const { using std::abs; using std::exp; using std::log1p; return select(x > like(x, 0), x, like(x, 0)) + log1p(exp(-abs(x))); }
  template <class T> SPOOL_HD T df(T x) const { using std::exp; return like(x, 1) / (like(x, 1) + exp(-x)); }
};

SPOOL_UNARY(Erf, "erf", input);
  template <class T> SPOOL_HD T f(T x) const { using std::erf; return erf(x); }
  template <class T> SPOOL_HD T df(T x) const { using std::exp; return exp(-(x * x)) * like(x, 2 * std::numbers::inv_sqrtpi); }
};

// The derivative at 0 of a power below 1 is infinite; of power 0 it is 0 everywhere.
SPOOL_UNARY(PowScalar, "pow", input);
  double exponent = 1;
  template <class T> SPOOL_HD T f(T x) const { using std::pow; return pow(x, like(x, exponent)); }
  template <class T> SPOOL_HD T df(T x) const { using std::pow; return exponent == 0 ? like(x, 0) : like(x, exponent) * pow(x, like(x, exponent - 1)); }
};

// Comparisons with NaN are false, so NaN passes through; at a bound the gradient passes, as in PyTorch.
SPOOL_UNARY(Clamp, "clamp", input);
  double low = 0, high = 0;
  template <class T> SPOOL_HD T f(T x) const { return select(x < like(x, low), like(x, low), select(x > like(x, high), like(x, high), x)); }
  template <class T> SPOOL_HD T df(T x) const { return select(x < like(x, low), like(x, 0), select(x > like(x, high), like(x, 0), like(x, 1))); }
};

SPOOL_UNARY(AddScalar, "add", nothing);
  double value = 0;
  template <class T> SPOOL_HD T f(T x) const { return x + like(x, value); }
  template <class T> SPOOL_HD T df(T s) const { return like(s, 1); }
};

SPOOL_UNARY(MulScalar, "mul", nothing);
  double value = 1;
  template <class T> SPOOL_HD T f(T x) const { return x * like(x, value); }
  template <class T> SPOOL_HD T df(T s) const { return like(s, value); }
};

SPOOL_UNARY(Floor, "floor", nothing);
  template <class T> SPOOL_HD T f(T x) const { using std::floor; return floor(x); }
  template <class T> SPOOL_HD T df(T s) const { return like(s, 0); }
};

SPOOL_UNARY(Ceil, "ceil", nothing);
  template <class T> SPOOL_HD T f(T x) const { using std::ceil; return ceil(x); }
  template <class T> SPOOL_HD T df(T s) const { return like(s, 0); }
};

// To the nearest, ties to even.
SPOOL_UNARY(Round, "round", nothing);
  template <class T> SPOOL_HD T f(T x) const { using std::rint; return rint(x); }
  template <class T> SPOOL_HD T df(T s) const { return like(s, 0); }
};

SPOOL_UNARY(Sign, "sign", nothing);
  template <class T> SPOOL_HD T f(T x) const { return select(x > like(x, 0), like(x, 1), select(x < like(x, 0), like(x, -1), x)); }
  template <class T> SPOOL_HD T df(T s) const { return like(s, 0); }
};
// clang-format on

#undef SPOOL_UNARY

// Whether integer tensors keep their type under the function (else they are converted to f32).
template <class Op>
inline constexpr bool takes_integers = false;
template <>
inline constexpr bool takes_integers<Neg> = true;
template <>
inline constexpr bool takes_integers<Abs> = true;
template <>
inline constexpr bool takes_integers<Square> = true;
template <>
inline constexpr bool takes_integers<Relu> = true;
template <>
inline constexpr bool takes_integers<Clamp> = true;
template <>
inline constexpr bool takes_integers<Sign> = true;

// Every functor above.
#define SPOOL_UNARY_OPS(X)                                                                                                      \
  X(Neg)                                                                                                                        \
  X(Abs) X(Exp) X(Expm1) X(Log) X(Log1p) X(Sqrt) X(Rsqrt) X(Reciprocal) X(Square) X(Sin) X(Cos) X(Tanh) X(Sigmoid) X(Relu)      \
      X(LeakyRelu) X(Gelu) X(Silu) X(Softplus) X(Erf) X(PowScalar) X(Clamp) X(AddScalar) X(MulScalar) X(Floor) X(Ceil) X(Round) \
          X(Sign)

}  // namespace spool
