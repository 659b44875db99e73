// What the kernels of reduce.h compute, as plainly as it can be said. Sums and products run in double.
#pragma once
#include <limits>
#include <vector>

#include "spool/kernels/reduce.h"

namespace spool::kernels::ref {

// Calls f(index) for every index of the shape, in row-major order.
template <class F>
void for_each_index(const Shape& shape, F f) {
  Shape index = Shape::filled(shape.dim(), 0);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    f(index);
    for (int d = shape.dim() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

template <class T>
T& element(const Tensor& t, const Shape& index) {
  std::int64_t at = 0;
  for (int d = 0; d < t.dim(); ++d) at += index[d] * t.strides()[d];
  return static_cast<T*>(t.raw_data())[at];
}

inline void reduce(Reduce op, const Tensor& x, DimMask dims, Tensor& y) {
  const auto start = [op]() -> double {
    switch (op) {
      case Reduce::sum:
      case Reduce::any: return 0;
      case Reduce::prod:
      case Reduce::all: return 1;
      case Reduce::max: return -std::numeric_limits<double>::infinity();
      case Reduce::min: return std::numeric_limits<double>::infinity();
    }
    return 0;
  };
  const auto combine = [op](double a, double b) -> double {
    switch (op) {
      case Reduce::sum: return a + b;
      case Reduce::prod: return a * b;
      case Reduce::max: return b > a || b != b ? b : a;
      case Reduce::min: return b < a || b != b ? b : a;
      case Reduce::any: return a != 0 || b != 0;
      case Reduce::all: return a != 0 && b != 0;
    }
    return 0;
  };
  std::vector<double> totals(static_cast<std::size_t>(y.numel()), start());
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_index(x.shape(), [&](const Shape& in) {
      std::int64_t out = 0;  // in row-major order of y
      for (int d = 0; d < x.dim(); ++d)
        if (!(dims >> d & 1)) out = out * x.shape()[d] + in[d];
      double& total = totals[static_cast<std::size_t>(out)];
      total = combine(total, static_cast<double>(element<T>(x, in)));
    });
  });
  visit(y.dtype(), [&]<class R>(TypeTag<R>) {
    std::size_t i = 0;
    for_each_index(y.shape(), [&](const Shape& out) { element<R>(y, out) = static_cast<R>(totals[i++]); });
  });
}

inline void extreme(bool largest, const Tensor& x, int dim, Tensor& values, Tensor& indices) {
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_index(values.shape(), [&](Shape at) {
      const Shape out = at;
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < x.shape()[dim]; ++i) {
        at[dim] = best;
        const T champion = element<T>(x, at);
        at[dim] = i;
        const T v = element<T>(x, at);
        if (champion == champion && (v != v || (largest ? v > champion : v < champion))) best = i;
      }
      at[dim] = best;
      element<T>(values, out) = element<T>(x, at);
      element<std::int64_t>(indices, out) = best;
    });
  });
}

inline void cumsum(const Tensor& x, int dim, Tensor& y) {
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    visit(y.dtype(), [&]<class R>(TypeTag<R>) {
      for_each_index(x.shape(), [&](const Shape& out) {
        double total = 0;
        Shape at = out;
        for (at[dim] = 0; at[dim] <= out[dim]; ++at[dim]) total += static_cast<double>(element<T>(x, at));
        element<R>(y, out) = static_cast<R>(total);
      });
    });
  });
}

}  // namespace spool::kernels::ref
