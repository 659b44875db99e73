// The inner loops of a reduction: elements are combined in vector registers over blocks, then the results of the blocks. Sums run in double, which costs
// nothing where memory is the limit, and keeps all digits of a float.
#pragma once
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "spool/core/dtype.h"

namespace spool::kernels::cpu::reducing {

inline constexpr std::int64_t kBlock = 4096;     // elements of a task where a row is shared among threads
inline constexpr std::int64_t kBlockRows = 128;  // rows, where columns are combined
inline constexpr std::int64_t kSegment = 2048;   // columns that one task handles

// How a reduction combines two values. `Lanes` says in what type: that of x, double (i64 for integers), or a truth value.
enum class Lanes { like_x, wide, truth };
struct Sum {
  static constexpr Lanes lanes = Lanes::wide;
  template <class W>
  static constexpr W identity() {
    return W(0);
  }
  template <class V>
  static V combine(V a, V x) {
    return a + x;
  }
};
struct Prod {
  static constexpr Lanes lanes = Lanes::wide;
  template <class W>
  static constexpr W identity() {
    return W(1);
  }
  template <class V>
  static V combine(V a, V x) {
    return a * x;
  }
};
struct Max {
  static constexpr Lanes lanes = Lanes::like_x;
  template <class W>
  static constexpr W identity() {
    return std::is_integral_v<W> ? std::numeric_limits<W>::lowest() : -std::numeric_limits<W>::infinity();
  }
  template <class V>
  static V combine(V a, V x) {
    return ((x > a) | (x != x)) ? x : a;
  }
};
struct Min {
  static constexpr Lanes lanes = Lanes::like_x;
  template <class W>
  static constexpr W identity() {
    return std::is_integral_v<W> ? std::numeric_limits<W>::max() : std::numeric_limits<W>::infinity();
  }
  template <class V>
  static V combine(V a, V x) {
    return ((x < a) | (x != x)) ? x : a;
  }
};
struct Any {
  static constexpr Lanes lanes = Lanes::truth;
  template <class W>
  static constexpr W identity() {
    return W(0);
  }
  template <class V>
  static V combine(V a, V x) {
    return a | x;
  }
};
struct All {
  static constexpr Lanes lanes = Lanes::truth;
  template <class W>
  static constexpr W identity() {
    return W(1);
  }
  template <class V>
  static V combine(V a, V x) {
    return a & x;
  }
};

template <class L>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(64)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(64)));
};
template <>
struct VectorOf<std::int64_t> {
  typedef std::int64_t type __attribute__((vector_size(64)));
};

// The inner loops for one operation and element type.
template <class Op, class T>
struct Inner {
  static constexpr bool floating = Op::lanes != Lanes::truth && !std::is_integral_v<T>;
  using W = std::conditional_t<floating, double, std::int64_t>;
  using L = std::conditional_t<floating && Op::lanes == Lanes::like_x && !std::is_same_v<T, double>, float, W>;
  using V = typename VectorOf<L>::type;
  static constexpr std::int64_t width = 64 / sizeof(L);

  static L value(T x) {
    if constexpr (Op::lanes == Lanes::truth)
      return x != T(0);
    else
      return static_cast<L>(x);
  }
  static V load(const T* p) {
    V v;
    if constexpr (std::is_same_v<T, L>) {
      std::memcpy(&v, p, 64);
    } else {
      alignas(64) L lanes[width];
      for (int i = 0; i < width; ++i) lanes[i] = value(p[i]);
      std::memcpy(&v, lanes, 64);
    }
    return v;
  }
  static W fold(V v) {
    alignas(64) L lanes[width];
    std::memcpy(lanes, &v, 64);
    for (std::int64_t half = width / 2; half >= 1; half /= 2)
      for (std::int64_t i = 0; i < half; ++i) lanes[i] = Op::combine(lanes[i], lanes[i + half]);
    return static_cast<W>(lanes[0]);
  }

  // At most kBlock elements, side by side or not.
  static W block(const T* p, std::int64_t stride, std::int64_t n) {
    W total = Op::template identity<W>();
    std::int64_t i = 0;
    if (stride != 1 || n < width) {
      W parts[4] = {total, total, total, total};
      for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; ++k) parts[k] = Op::combine(parts[k], static_cast<W>(value(p[(i + k) * stride])));
      for (; i < n; ++i) parts[0] = Op::combine(parts[0], static_cast<W>(value(p[i * stride])));
      return Op::combine(Op::combine(parts[0], parts[1]), Op::combine(parts[2], parts[3]));
    }
    if (n >= width) {
      V a = load(p);
      i = width;
      if (n >= 4 * width) {
        V b = load(p + width), c = load(p + 2 * width), d = load(p + 3 * width);
        for (i = 4 * width; i + 4 * width <= n; i += 4 * width) {
          a = Op::combine(a, load(p + i));
          b = Op::combine(b, load(p + i + width));
          c = Op::combine(c, load(p + i + 2 * width));
          d = Op::combine(d, load(p + i + 3 * width));
        }
        a = Op::combine(Op::combine(a, b), Op::combine(c, d));
      }
      for (; i + width <= n; i += width) a = Op::combine(a, load(p + i));
      total = fold(a);
    }
    for (; i < n; ++i) total = Op::combine(total, static_cast<W>(value(p[i])));
    return total;
  }

  // N vectors of columns, whose first `skip` lanes were already done by the tile before.
  template <int N>
  static void tile(const T* p, std::int64_t row_stride, std::int64_t rows, W* out, std::int64_t skip) {
    V acc[N];
    for (int k = 0; k < N; ++k) acc[k] = load(p + k * width);
    for (std::int64_t r = 1; r < rows; ++r)
      for (int k = 0; k < N; ++k) acc[k] = Op::combine(acc[k], load(p + r * row_stride + k * width));
    alignas(64) L lanes[N * width];
    std::memcpy(lanes, acc, sizeof(acc));
    for (std::int64_t i = skip; i < N * width; ++i) out[i] = Op::combine(out[i], static_cast<W>(lanes[i]));
  }

  // out[c] is combined with column c of `rows` rows; columns lie side by side.
  static void columns(const T* p, std::int64_t row_stride, std::int64_t rows, std::int64_t n, W* out) {
    if (n < 64 && n % width != 0 && row_stride == n && rows * n >= 512) {
      // Several short rows make one that fills the registers.
      const std::int64_t group = width / std::gcd(n, width), groups = rows / group;
      if (groups >= 2) {
        W wide[64 * width];
        std::fill_n(wide, group * n, Op::template identity<W>());
        columns(p, group * n, groups, group * n, wide);
        for (std::int64_t i = 0; i < group * n; ++i) out[i % n] = Op::combine(out[i % n], wide[i]);
        p += groups * group * n;
        rows -= groups * group;
      }
    }
    for (; rows > 0; p += kBlockRows * row_stride, rows -= kBlockRows) {
      const std::int64_t some = std::min(rows, kBlockRows);
      std::int64_t c = 0;
      if (n < width)
        for (; c < n; ++c) out[c] = Op::combine(out[c], block(p + c, row_stride, some));
      for (; c + 4 * width <= n; c += 4 * width) tile<4>(p + c, row_stride, some, out + c, 0);
      for (; c + width <= n; c += width) tile<1>(p + c, row_stride, some, out + c, 0);
      if (c < n) tile<1>(p + n - width, row_stride, some, out + n - width, c - (n - width));
    }
  }
};

}  // namespace spool::kernels::cpu::reducing
