// Constants, choices, sequences and random numbers.
#include <cmath>
#include <numbers>

#include "spool/kernels/cuda/convert.cuh"
#include "spool/kernels/cuda/loops.cuh"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cuda {
namespace {

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

template <class T>
struct Choose {
  __device__ T operator()(bool condition, T a, T b) const { return condition ? a : b; }
};

template <class T>
__global__ void arange_kernel(T* y, std::int64_t n, bool whole, std::int64_t start, std::int64_t step, double from, double by) {
  for (std::int64_t i = first_index(); i < n; i += index_step())
    y[i] = whole ? convert<T>(start + i * step) : convert<T>(from + static_cast<double>(i) * by);
}

// Each thread makes the numbers of one counter, `per` of them: the same as on the CPU.
template <class T>
__global__ void uniform_kernel(T* y, std::int64_t n, double low, double high, Generator::Draw draw, const Live* live) {
  if (live) draw.stream += live->draws;
  constexpr int per = std::is_same_v<T, double> ? 2 : 4;
  for (std::int64_t b = first_index(); b * per < n; b += index_step()) {
    const Philox r = draw(static_cast<std::uint64_t>(b));
    for (int j = 0; j < per && b * per + j < n; ++j) {
      if constexpr (per == 2) {
        y[b * per + j] = low + (high - low) * r.uniform_double(j);
      } else {
        // Rounding may reach `high` itself, which the interval excludes.
        const float v = static_cast<float>(low) + static_cast<float>(high - low) * r.uniform(j);
        y[b * per + j] = static_cast<T>(v < static_cast<float>(high) ? v : static_cast<float>(low));
      }
    }
  }
}

template <class T>
__global__ void normal_kernel(T* y, std::int64_t n, double mean, double std, Generator::Draw draw, const Live* live) {
  if (live) draw.stream += live->draws;
  for (std::int64_t b = first_index(); 2 * b < n; b += index_step()) {
    const Philox r = draw(static_cast<std::uint64_t>(b));
    const double radius = ::sqrt(-2 * ::log(1 - r.uniform_double(0))), angle = 2 * std::numbers::pi * r.uniform_double(1);
    y[2 * b] = static_cast<T>(mean + std * radius * ::cos(angle));
    if (2 * b + 1 < n) y[2 * b + 1] = static_cast<T>(mean + std * radius * ::sin(angle));
  }
}

template <class T>
__global__ void integers_kernel(T* y, std::int64_t n, std::int64_t low, std::uint64_t range, Generator::Draw draw,
                                const Live* live) {
  if (live) draw.stream += live->draws;
  for (std::int64_t i = first_index(); i < n; i += index_step()) {
    const Philox r = draw(static_cast<std::uint64_t>(i));
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t word = (std::uint64_t{r.words[0]} << 32) | r.words[1];
    const auto scaled = static_cast<std::uint64_t>((static_cast<Wide>(word) * range) >> 64);
    y[i] = convert<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + scaled));
  }
}

}  // namespace

void fill(Tensor& y, Scalar value) {
  visit(y.dtype(), [&]<class T>(TypeTag<T>) {
    T v;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      v = value.is_integer ? static_cast<T>(value.integer) : convert<T>(value.value);
    else
      v = convert<T>(value.value);
    map<T>("fill", Constant<T>{v}, y);
  });
}

void where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  visit(y.dtype(), [&]<class T>(TypeTag<T>) { map<T, bool, T, T>("where", Choose<T>{}, y, condition, a, b); });
}

void arange(Tensor& y, Scalar start, Scalar step) {
  if (y.numel() == 0) return;
  Context& c = begin("arange", {&y});
  visit(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, arange_kernel<T>, grid_for(c, y.numel()), kThreads, data<T>(y), y.numel(), start.is_integer && step.is_integer,
           start.integer, step.integer, start.value, step.value);
  });
}

void random_uniform(Tensor& y, double low, double high, Generator::Draw draw) {
  if (y.numel() == 0) return;
  Context& c = begin("rand", {&y});
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, uniform_kernel<T>, grid_for(c, y.numel(), 4 * kThreads), kThreads, data<T>(y), y.numel(), low, high, draw, live());
  });
}

void random_normal(Tensor& y, double mean, double std, Generator::Draw draw) {
  if (y.numel() == 0) return;
  Context& c = begin("randn", {&y});
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, normal_kernel<T>, grid_for(c, y.numel(), 2 * kThreads), kThreads, data<T>(y), y.numel(), mean, std, draw, live());
  });
}

void random_integers(Tensor& y, std::int64_t low, std::int64_t high, Generator::Draw draw) {
  if (y.numel() == 0) return;
  Context& c = begin("randint", {&y});
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  visit(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, integers_kernel<T>, grid_for(c, y.numel()), kThreads, data<T>(y), y.numel(), low, range, draw, live());
  });
}

}  // namespace spool::kernels::cuda
