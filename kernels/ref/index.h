// What the kernels of index.h compute, as plainly as it can be said.
#pragma once
#include <algorithm>
#include <vector>

#include "spool/kernels/index.h"
#include "spool/kernels/ref/reduce.h"

namespace spool::kernels::ref {

inline void gather(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_index(y.shape(), [&](Shape at) {
      T& to = element<T>(y, at);
      at[dim] = element<std::int64_t>(index, at);
      to = element<T>(x, at);
    });
  });
}

inline void scatter_add(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_index(x.shape(), [&](Shape at) {
      const T value = element<T>(x, at);
      at[dim] = element<std::int64_t>(index, at);
      T& to = element<T>(y, at);
      to = static_cast<T>(to + value);
    });
  });
}

inline void sort(const Tensor& x, int dim, bool descending, Tensor& values, Tensor& indices) {
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto less = [](T a, T b) { return a == a && (b != b || a < b); };
    for_each_index(values.shape(), [&](Shape at) {
      if (at[dim] != 0) return;  // once for each row
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < x.shape()[dim]; ++i) order.push_back(i);
      const auto value = [&](std::int64_t i) {
        at[dim] = i;
        return element<T>(x, at);
      };
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return descending ? less(value(b), value(a)) : less(value(a), value(b));
      });
      for (std::int64_t i = 0; i < values.shape()[dim]; ++i) {
        const std::int64_t from = order[static_cast<std::size_t>(i)];
        const T v = value(from);
        at[dim] = i;
        element<T>(values, at) = v;
        element<std::int64_t>(indices, at) = from;
      }
    });
  });
}

}  // namespace spool::kernels::ref
