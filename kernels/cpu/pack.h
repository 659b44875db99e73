// Pack<T>: one vector register's worth of numbers (64 bytes), on which the formulas of unary_ops.h run as they stand. Arithmetic and comparisons are the
// compiler's vector extension; exp, log and the like are Eigen's vectorised ones.
#pragma once
#include <Eigen/Core>
#include <cmath>
#include <cstring>

#include "spool/core/dtype.h"

namespace spool::kernels::cpu {

template <class T>
struct PackTypes;
template <>
struct PackTypes<float> {
  typedef float Vector __attribute__((vector_size(64)));
  typedef std::int32_t Mask __attribute__((vector_size(64)));
};
template <>
struct PackTypes<double> {
  typedef double Vector __attribute__((vector_size(64)));
  typedef std::int64_t Mask __attribute__((vector_size(64)));
};

#define SPOOL_INLINE inline __attribute__((always_inline))

template <class T>
struct Pack {
  static constexpr int width = 64 / sizeof(T);
  using Vector = typename PackTypes<T>::Vector;
  using Array = Eigen::Array<T, width, 1>;
  Vector v;

  friend SPOOL_INLINE Pack operator+(const Pack& a, const Pack& b) { return {a.v + b.v}; }
  friend SPOOL_INLINE Pack operator-(const Pack& a, const Pack& b) { return {a.v - b.v}; }
  friend SPOOL_INLINE Pack operator*(const Pack& a, const Pack& b) { return {a.v * b.v}; }
  friend SPOOL_INLINE Pack operator/(const Pack& a, const Pack& b) { return {a.v / b.v}; }
  friend SPOOL_INLINE Pack operator-(const Pack& a) { return {-a.v}; }
  struct Mask {
    typename PackTypes<T>::Mask m;
  };
  friend SPOOL_INLINE Mask operator>(const Pack& a, const Pack& b) { return {a.v > b.v}; }
  friend SPOOL_INLINE Mask operator<(const Pack& a, const Pack& b) { return {a.v < b.v}; }
  friend SPOOL_INLINE Mask operator<=(const Pack& a, const Pack& b) { return {a.v <= b.v}; }
  friend SPOOL_INLINE Pack select(const Mask& c, const Pack& a, const Pack& b) { return {c.m ? a.v : b.v}; }
  friend SPOOL_INLINE Pack like(const Pack&, double value) { return {Vector{} + static_cast<T>(value)}; }

  // Functions that the compiler or libm does lane by lane.
  template <class F>
  SPOOL_INLINE Pack map(F f) const {
    alignas(64) T lanes[width];
    std::memcpy(lanes, &v, 64);
    for (T& x : lanes) x = f(x);
    Pack r;
    std::memcpy(&r.v, lanes, 64);
    return r;
  }
  SPOOL_INLINE Array array() const {
    Array a;
    std::memcpy(a.data(), &v, 64);
    return a;
  }
  static SPOOL_INLINE Pack from(const Array& a) {
    Pack r;
    std::memcpy(&r.v, a.data(), 64);
    return r;
  }
  friend SPOOL_INLINE Pack abs(const Pack& x) {
    return x.map([](T t) { return std::abs(t); });
  }
  friend SPOOL_INLINE Pack sqrt(const Pack& x) {
    return x.map([](T t) { return std::sqrt(t); });
  }
  friend SPOOL_INLINE Pack floor(const Pack& x) {
    return x.map([](T t) { return std::floor(t); });
  }
  friend SPOOL_INLINE Pack ceil(const Pack& x) {
    return x.map([](T t) { return std::ceil(t); });
  }
  friend SPOOL_INLINE Pack rint(const Pack& x) {
    return x.map([](T t) { return std::rint(t); });
  }
  friend SPOOL_INLINE Pack erf(const Pack& x) {
    return x.map([](T t) { return std::erf(t); });
  }
  friend SPOOL_INLINE Pack expm1(const Pack& x) {
    return x.map([](T t) { return std::expm1(t); });
  }
  friend SPOOL_INLINE Pack pow(const Pack& x, const Pack& y) {
    const T exponent = y.v[0];
    return x.map([exponent](T t) { return std::pow(t, exponent); });
  }
  friend SPOOL_INLINE Pack exp(const Pack& x) {
    if constexpr (std::is_same_v<T, float>) {
      // Eigen's overflows from 88.376 on, a float only from 88.723 on: e^x = e^(x - h) e^h with an h that subtracts exactly.
      const Mask large = x > like(x, 88);
      const Pack y = from(select(large, x - like(x, 45426.0 / 65536), x).array().exp());
      return select(large, y * like(x, 1.9999971427884002), y);
    }
    return from(x.array().exp());
  }
  friend SPOOL_INLINE Pack log(const Pack& x) { return from(x.array().log()); }
  friend SPOOL_INLINE Pack log1p(const Pack& x) {
    return x.map([](T t) { return std::log1p(t); });
  }
  friend SPOOL_INLINE Pack sin(const Pack& x) { return from(x.array().sin()); }
  friend SPOOL_INLINE Pack cos(const Pack& x) { return from(x.array().cos()); }
  friend SPOOL_INLINE Pack tanh(const Pack& x) { return from(x.array().tanh()); }
};

// bf16 is computed in float.
template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<bfloat16> {
  using type = float;
};
template <class T>
using compute_t = typename ComputeType<T>::type;

// bf16 is the upper half of a float; rounding is to nearest, ties to even, and a NaN stays one.
typedef std::uint16_t Halves __attribute__((vector_size(32)));
typedef std::uint32_t Words __attribute__((vector_size(64)));
SPOOL_INLINE Pack<float> load_bf16(const void* p) {
  Halves h;
  std::memcpy(&h, p, 32);
  const Words w = __builtin_convertvector(h, Words) << 16;
  Pack<float> r;
  std::memcpy(&r.v, &w, 64);
  return r;
}
SPOOL_INLINE void store_bf16(const Pack<float>& x, void* p) {
  Words w;
  std::memcpy(&w, &x.v, 64);
  const Words rounded = (w + (0x7FFFu + ((w >> 16) & 1u))) >> 16, quiet = (w >> 16) | 0x40u;
  const auto number = x.v == x.v;
  const Halves h = __builtin_convertvector(number ? rounded : quiet, Halves);
  std::memcpy(p, &h, 32);
}

// The first n of up to `width` elements at p, `stride` bytes apart; the rest of the pack is 1, where every formula is finite.
template <class T>
SPOOL_INLINE Pack<compute_t<T>> load(const std::byte* p, std::int64_t stride, std::int64_t n) {
  using C = compute_t<T>;
  Pack<C> r;
  if constexpr (std::is_same_v<T, C>) {
    if (n == Pack<C>::width && stride == sizeof(T)) {
      std::memcpy(&r.v, p, 64);
      return r;
    }
  } else if (n == Pack<C>::width && stride == sizeof(T)) {
    return load_bf16(p);
  }
  alignas(64) C lanes[Pack<C>::width];
  if (stride == sizeof(T)) {
    for (int i = 0; i < Pack<C>::width; ++i) lanes[i] = i < n ? static_cast<C>(reinterpret_cast<const T*>(p)[i]) : C(1);
  } else {
    for (int i = 0; i < Pack<C>::width; ++i)
      lanes[i] = i < n ? static_cast<C>(*reinterpret_cast<const T*>(p + i * stride)) : C(1);
  }
  std::memcpy(&r.v, lanes, 64);
  return r;
}

template <class T>
SPOOL_INLINE void store(const Pack<compute_t<T>>& x, std::byte* p, std::int64_t stride, std::int64_t n) {
  using C = compute_t<T>;
  if constexpr (std::is_same_v<T, C>) {
    if (n == Pack<C>::width && stride == sizeof(T)) {
      std::memcpy(p, &x.v, 64);
      return;
    }
  } else if (n == Pack<C>::width && stride == sizeof(T)) {
    store_bf16(x, p);
    return;
  }
  alignas(64) C lanes[Pack<C>::width];
  std::memcpy(lanes, &x.v, 64);
  for (int i = 0; i < n; ++i) *reinterpret_cast<T*>(p + i * stride) = static_cast<T>(lanes[i]);
}

}  // namespace spool::kernels::cpu
