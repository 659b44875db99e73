// What the stand-ins of cuBLASLt and cuDNN share: elements of the types they take, read as double.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "internal.h"

namespace emulator {

enum class Element { f32, f64, bf16 };
inline std::size_t size_of(Element e) { return e == Element::f64 ? 8 : e == Element::f32 ? 4 : 2; }

inline float bf16_to_float(std::uint16_t bits) {
  const std::uint32_t u = std::uint32_t{bits} << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
inline std::uint16_t float_to_bf16(float f) {
  std::uint32_t u;
  std::memcpy(&u, &f, 4);
  if (f != f) return static_cast<std::uint16_t>((u >> 16) | 0x40);
  return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline double load(const void* p, std::size_t i, Element e) {
  switch (e) {
    case Element::f64: return static_cast<const double*>(p)[i];
    case Element::f32: return static_cast<double>(static_cast<const float*>(p)[i]);
    case Element::bf16: break;
  }
  return static_cast<double>(bf16_to_float(static_cast<const std::uint16_t*>(p)[i]));
}
inline void store(void* p, std::size_t i, double v, Element e) {
  switch (e) {
    case Element::f64: static_cast<double*>(p)[i] = v; return;
    case Element::f32: static_cast<float*>(p)[i] = static_cast<float>(v); return;
    case Element::bf16: break;
  }
  static_cast<std::uint16_t*>(p)[i] = float_to_bf16(static_cast<float>(v));
}
// n elements as an array of doubles.
inline std::vector<double> load_all(const void* p, std::size_t n, Element e) {
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = load(p, i, e);
  return v;
}
inline void store_all(const std::vector<double>& v, void* p, Element e, double alpha, double beta) {
  for (std::size_t i = 0; i < v.size(); ++i) store(p, i, alpha * v[i] + (beta != 0 ? beta * load(p, i, e) : 0), e);
}

inline bool aligned(const void* p, std::size_t n) { return reinterpret_cast<std::uintptr_t>(p) % n == 0; }

}  // namespace emulator
