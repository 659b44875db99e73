// Element types of a tensor, and the visitor that turns a run-time DType into a C++ type.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define SPOOL_HD __host__ __device__ __forceinline__
#else
#define SPOOL_HD inline
#endif

namespace spool {

// The order is the order of type promotion: a binary operation computes in the later of its two types.
enum class DType : std::uint8_t { boolean, u8, i32, i64, bf16, f32, f64 };

inline constexpr DType boolean = DType::boolean, u8 = DType::u8, i32 = DType::i32, i64 = DType::i64, bf16 = DType::bf16,
                       f32 = DType::f32, f64 = DType::f64;

// bfloat16: the upper half of a float, rounded to nearest even. Arithmetic happens in float.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  SPOOL_HD explicit bfloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    // A NaN must stay one: rounding could carry its mantissa away into infinity.
    bits = value != value ? static_cast<std::uint16_t>((u >> 16) | 0x40u)
                          : static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  template <class T>
  requires std::is_arithmetic_v<T> SPOOL_HD explicit bfloat16(T value) : bfloat16(static_cast<float>(value)) {}
  SPOOL_HD operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;

constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::boolean:
    case DType::u8: return 1;
    case DType::bf16: return 2;
    case DType::i32:
    case DType::f32: return 4;
    case DType::i64:
    case DType::f64: return 8;
  }
  return 0;
}

constexpr bool is_floating(DType t) { return t >= DType::bf16; }
constexpr const char* name_of(DType t) {
  constexpr const char* names[] = {"bool", "u8", "i32", "i64", "bf16", "f32", "f64"};
  return names[static_cast<int>(t)];
}
constexpr DType promote(DType a, DType b) { return a < b ? b : a; }

// The type in which a kernel adds up values of type T.
template <class T>
struct Accumulate {
  using type = std::int64_t;
};
template <>
struct Accumulate<float> {
  using type = float;
};
template <>
struct Accumulate<bfloat16> {
  using type = float;
};
template <>
struct Accumulate<double> {
  using type = double;
};
template <class T>
using accumulate_t = typename Accumulate<T>::type;

// visit(dtype, [&]<class T>(TypeTag<T>) { ... }): calls the lambda with the C++ type of `dtype`.
template <class F>
decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case DType::boolean: return f(TypeTag<bool>{});
    case DType::u8: return f(TypeTag<std::uint8_t>{});
    case DType::i32: return f(TypeTag<std::int32_t>{});
    case DType::i64: return f(TypeTag<std::int64_t>{});
    case DType::bf16: return f(TypeTag<bfloat16>{});
    case DType::f64: return f(TypeTag<double>{});
    case DType::f32: break;
  }
  return f(TypeTag<float>{});
}

// The same for a dtype already known to be floating point (callers check; an integer type would be computed as f32).
template <class F>
decltype(auto) visit_floating(DType t, F&& f) {
  switch (t) {
    case DType::bf16: return f(TypeTag<bfloat16>{});
    case DType::f64: return f(TypeTag<double>{});
    default: return f(TypeTag<float>{});
  }
}

}  // namespace spool
