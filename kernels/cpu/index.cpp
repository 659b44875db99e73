#include "spool/kernels/index.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/loops.h"

namespace spool::kernels::cpu {
namespace {

// x with `shape`, standing still along `dim`: what an index then moves in.
Tensor fixed(const Tensor& x, const Shape& shape, int dim) {
  Strides strides = x.strides();
  strides[dim] = 0;
  return alias(x, shape, strides, x.offset());
}

std::int64_t index_at(const std::byte* p) { return *reinterpret_cast<const std::int64_t*>(p); }

// Moving is the same for all types of one size.
template <class F>
void visit_size(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f(TypeTag<std::uint8_t>{});
    case 2: return f(TypeTag<std::uint16_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    default: return f(TypeTag<std::uint64_t>{});
  }
}

Tensor part(const Tensor& x, int dim, std::int64_t begin, std::int64_t end) {
  Shape shape = x.shape();
  shape[dim] = end - begin;
  return alias(x, shape, x.strides(), x.offset() + begin * x.strides()[dim]);
}

}  // namespace

void gather(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  const Tensor from = fixed(x, y.shape(), dim);
  const std::int64_t jump = x.strides()[dim];
  visit_size(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_row({&y, &index, &from}, [jump](std::byte* const* p, const std::int64_t* s, std::int64_t n) {
      if (s[1] == 0) {
        const std::byte* row = p[2] + index_at(p[1]) * jump * static_cast<std::int64_t>(sizeof(T));
        if (s[0] == sizeof(T) && s[2] == sizeof(T)) {
          std::memcpy(p[0], row, static_cast<std::size_t>(n) * sizeof(T));
        } else {
          for (std::int64_t i = 0; i < n; ++i)
            *reinterpret_cast<T*>(p[0] + i * s[0]) = *reinterpret_cast<const T*>(row + i * s[2]);
        }
        return;
      }
      for (std::int64_t i = 0; i < n; ++i)
        *reinterpret_cast<T*>(p[0] + i * s[0]) = reinterpret_cast<const T*>(p[2] + i * s[2])[index_at(p[1] + i * s[1]) * jump];
    });
  });
}

void scatter_add(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  if (x.numel() == 0) return;
  const Tensor to = fixed(y, x.shape(), dim);
  const std::int64_t jump = y.strides()[dim];
  // Threads share another dimension: along `dim` the order of the additions must stay.
  int shared = dim == 0 && x.dim() > 1 ? 1 : 0;
  for (int d = 0; d < x.dim(); ++d)
    if (d != dim && x.shape()[d] > x.shape()[shared]) shared = d;
  const auto add = [&](const Tensor& from, const Tensor& at, const Tensor& into) {
    visit(x.dtype(), [&]<class T>(TypeTag<T>) {
      const auto plus = [](T a, T b) {
        if constexpr (std::is_same_v<T, bool>)
          return a || b;
        else
          return static_cast<T>(a + b);
      };
      for_each_row_in_order({&from, &at, &into}, [&](std::byte* const* p, const std::int64_t* s, std::int64_t n) {
        if (s[1] == 0 && s[0] == sizeof(T) && s[2] == sizeof(T)) {
          T* row = reinterpret_cast<T*>(p[2]) + index_at(p[1]) * jump;
          const T* source = reinterpret_cast<const T*>(p[0]);
          SPOOL_IVDEP
          for (std::int64_t i = 0; i < n; ++i) row[i] = plus(row[i], source[i]);
          return;
        }
        for (std::int64_t i = 0; i < n; ++i) {
          T& target = reinterpret_cast<T*>(p[2] + i * s[2])[index_at(p[1] + i * s[1]) * jump];
          target = plus(target, *reinterpret_cast<const T*>(p[0] + i * s[0]));
        }
      });
    });
  };
  const std::int64_t n = x.shape()[shared];
  if (shared == dim) return add(x, index, to);
  parallel_for(n, std::max<std::int64_t>(1, kParallelGrain * n / x.numel()), [&](std::int64_t begin, std::int64_t end) {
    add(part(x, shared, begin, end), part(index, shared, begin, end), part(to, shared, begin, end));
  });
}

void find_out_of_range(const Tensor& index, std::int64_t size, Tensor& position) {
  std::int64_t& found = *static_cast<std::int64_t*>(position.raw_data());
  found = -1;
  const std::int64_t n = index.numel();
  const auto outside = [size](std::int64_t i) { return i < 0 || i >= size; };
  const auto* p = static_cast<const std::int64_t*>(index.raw_data());
  if (index.is_contiguous()) {
    const std::int64_t at = std::find_if(p, p + n, outside) - p;
    if (at < n) found = at;
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t at = 0, rest = i;
    for (int d = index.dim() - 1; d >= 0; --d) {
      at += rest % index.shape()[d] * index.strides()[d];
      rest /= index.shape()[d];
    }
    if (!outside(p[at])) continue;
    found = i;
    return;
  }
}

void sort(const Tensor& x, int dim, bool descending, Tensor& values, Tensor& indices) {
  const std::int64_t n = x.dim() ? x.shape()[dim] : 1, k = x.dim() ? values.shape()[dim] : 1;
  if (x.numel() == 0 || k == 0) return;
  const auto stride = [dim](const Tensor& t) { return t.dim() ? t.strides()[dim] : 1; };
  const std::int64_t x_step = stride(x), value_step = stride(values), index_step = stride(indices);
  const auto starts = [dim](const Tensor& t) {
    Shape shape = t.shape();
    if (t.dim()) shape[dim] = 1;
    return alias(t, shape, t.strides(), t.offset());
  };
  const Tensor from = starts(x), to_values = starts(values), to_indices = starts(indices);
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_row({&to_values, &to_indices, &from}, [&](std::byte* const* p, const std::int64_t* s, std::int64_t rows) {
      std::vector<std::pair<T, std::int64_t>> row(static_cast<std::size_t>(n));
      // Ties go by the index, which makes any sorting stable; only a NaN differs from itself.
      const auto ascends = [](const auto& a, const auto& b) {
        const bool a_nan = a.first != a.first, b_nan = b.first != b.first;
        if (a_nan || b_nan) return a_nan == b_nan ? a.second < b.second : b_nan;
        return a.first < b.first || (a.first == b.first && a.second < b.second);
      };
      const auto descends = [](const auto& a, const auto& b) {
        const bool a_nan = a.first != a.first, b_nan = b.first != b.first;
        if (a_nan || b_nan) return a_nan == b_nan ? a.second < b.second : a_nan;
        return a.first > b.first || (a.first == b.first && a.second < b.second);
      };
      const auto arrange = [&](const auto& before) {
        if (k == n)
          std::sort(row.begin(), row.end(), before);
        else
          std::partial_sort(row.begin(), row.begin() + k, row.end(), before);
      };
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* in = reinterpret_cast<const T*>(p[2] + r * s[2]);
        for (std::int64_t i = 0; i < n; ++i) row[static_cast<std::size_t>(i)] = {in[i * x_step], i};
        if (descending)
          arrange(descends);
        else
          arrange(ascends);
        T* value = reinterpret_cast<T*>(p[0] + r * s[0]);
        auto* where = reinterpret_cast<std::int64_t*>(p[1] + r * s[1]);
        for (std::int64_t i = 0; i < k; ++i) {
          value[i * value_step] = row[static_cast<std::size_t>(i)].first;
          where[i * index_step] = row[static_cast<std::size_t>(i)].second;
        }
      }
    });
  });
}

}  // namespace spool::kernels::cpu
