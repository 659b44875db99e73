// Copies, constants, choices and random numbers.
#include <cmath>
#include <cstring>
#include <numbers>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/cpu/pack.h"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cpu {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    // Out of range, the language leaves the result undefined; here it is the nearest representable number, and 0 for NaN.
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

template <class To, class From>
void copy_row(const void*, std::byte* const* p, const std::int64_t* s, std::int64_t n) {
  if (s[0] == sizeof(To) && s[1] == sizeof(From)) {
    if constexpr (std::is_same_v<To, From>) {
      std::memmove(p[0], p[1], static_cast<std::size_t>(n) * sizeof(To));
    } else {
      To* y = reinterpret_cast<To*>(p[0]);
      const From* x = reinterpret_cast<const From*>(p[1]);
      std::int64_t i = 0;
      if constexpr (std::is_same_v<compute_t<To>, float> && std::is_same_v<compute_t<From>, float>)
        for (; i + 16 <= n; i += 16) store<To>(load<From>(p[1] + i * s[1], s[1], 16), p[0] + i * s[0], s[0], 16);
      SPOOL_IVDEP
      for (; i < n; ++i) y[i] = convert<To>(x[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i)
    *reinterpret_cast<To*>(p[0] + i * s[0]) = convert<To>(*reinterpret_cast<const From*>(p[1] + i * s[1]));
}

}  // namespace

void copy(const Tensor& x, Tensor& y) {
  visit(y.dtype(), [&]<class To>(TypeTag<To>) {
    visit(x.dtype(), [&]<class From>(TypeTag<From>) { for_each_row({&y, &x}, &copy_row<To, From>, nullptr); });
  });
}

void fill(Tensor& y, Scalar value) {
  visit(y.dtype(), [&]<class T>(TypeTag<T>) {
    T v;
    if constexpr (std::is_same_v<T, bool>)
      v = value.value != 0;
    else if constexpr (std::is_integral_v<T>)
      v = value.is_integer ? static_cast<T>(value.integer) : convert<T>(value.value);
    else
      v = static_cast<T>(value.value);
    for_each_row({&y}, [v](std::byte* const* p, const std::int64_t* s, std::int64_t n) {
      if (s[0] == sizeof(T)) {
        T* out = reinterpret_cast<T*>(p[0]);
        for (std::int64_t i = 0; i < n; ++i) out[i] = v;
      } else {
        for (std::int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(p[0] + i * s[0]) = v;
      }
    });
  });
}

void where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  visit(y.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_row({&y, &condition, &a, &b}, [](std::byte* const* p, const std::int64_t* s, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i)
        *reinterpret_cast<T*>(p[0] + i * s[0]) = *reinterpret_cast<const bool*>(p[1] + i * s[1])
                                                     ? *reinterpret_cast<const T*>(p[2] + i * s[2])
                                                     : *reinterpret_cast<const T*>(p[3] + i * s[3]);
    });
  });
}

void arange(Tensor& y, Scalar start, Scalar step) {
  visit(y.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(y.raw_data());
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      if (start.is_integer && step.is_integer)
        out[i] = convert<T>(start.integer + i * step.integer);
      else
        out[i] = convert<T>(start.value + static_cast<double>(i) * step.value);
    }
  });
}

void random_uniform(Tensor& y, double low, double high, Generator::Draw draw) {
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(y.raw_data());
    constexpr std::int64_t per = std::is_same_v<T, double> ? 2 : 4;
    const std::int64_t n = y.numel();
    parallel_for((n + per - 1) / per, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const Philox r = draw(static_cast<std::uint64_t>(b));
        for (int j = 0; j < per && b * per + j < n; ++j) {
          if constexpr (per == 2) {
            out[b * per + j] = low + (high - low) * r.uniform_double(j);
          } else {
            // Rounding may reach `high` itself, which the interval excludes.
            const float v = static_cast<float>(low) + static_cast<float>(high - low) * r.uniform(j);
            out[b * per + j] = static_cast<T>(v < static_cast<float>(high) ? v : static_cast<float>(low));
          }
        }
      }
    });
  });
}

void random_normal(Tensor& y, double mean, double std, Generator::Draw draw) {
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(y.raw_data());
    const std::int64_t n = y.numel();
    // Box and Muller, "A note on the generation of random normal deviates" (1958): two normals of two uniforms.
    parallel_for((n + 1) / 2, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const Philox r = draw(static_cast<std::uint64_t>(b));
        const double radius = std::sqrt(-2 * std::log(1 - r.uniform_double(0))),
                     angle = 2 * std::numbers::pi * r.uniform_double(1);
        out[2 * b] = static_cast<T>(mean + std * radius * std::cos(angle));
        if (2 * b + 1 < n) out[2 * b + 1] = static_cast<T>(mean + std * radius * std::sin(angle));
      }
    });
  });
}

void random_integers(Tensor& y, std::int64_t low, std::int64_t high, Generator::Draw draw) {
  visit(y.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(y.raw_data());
    const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const Philox r = draw(static_cast<std::uint64_t>(i));
      __extension__ using Wide = unsigned __int128;
      // 128-bit multiply and shift: biased by less than range / 2^64.
      const std::uint64_t word = (std::uint64_t{r.words[0]} << 32) | r.words[1];
      const auto scaled = static_cast<std::uint64_t>((static_cast<Wide>(word) * range) >> 64);
      out[i] = convert<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + scaled));
    }
  });
}

}  // namespace spool::kernels::cpu
