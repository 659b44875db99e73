#include "spool/core/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "spool/core/errors.h"

namespace spool {

Shape::Shape(const std::int64_t* dims, int n) : n_(n) {
  if (n > kMaxDims) throw ShapeError("", fmt::format("a tensor has at most {} dimensions, not {}", kMaxDims, n));
  std::copy_n(dims, n, dims_);
}

Shape Shape::filled(int n, std::int64_t value) {
  Shape s;
  for (int i = 0; i < n; ++i) s.push_back(value);
  return s;
}

void Shape::push_back(std::int64_t d) { insert(n_, d); }

void Shape::insert(int at, std::int64_t d) {
  if (n_ == kMaxDims) throw ShapeError("", fmt::format("a tensor has at most {} dimensions", kMaxDims));
  std::copy_backward(dims_ + at, dims_ + n_, dims_ + n_ + 1);
  dims_[at] = d;
  ++n_;
}

void Shape::erase(int at) {
  std::copy(dims_ + at + 1, dims_ + n_, dims_ + at);
  --n_;
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  bool overflow = false, zero = false;
  for (const std::int64_t d : *this) {
    if (d < 0) throw ShapeError("", fmt::format("size {} in shape {} is negative", d, to_string(*this)));
    zero = zero || d == 0;
    overflow = __builtin_mul_overflow(n, d == 0 ? 1 : d, &n) || overflow;
  }
  if (overflow) throw ShapeError("", fmt::format("shape {} has more elements than fit 64 bits", to_string(*this)));
  return zero ? 0 : n;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

Strides dense_strides(const Shape& shape, MemoryFormat format) {
  Strides strides = shape;
  std::int64_t next = 1;
  const auto place = [&](int d) {
    strides[d] = next;
    next *= std::max<std::int64_t>(shape[d], 1);
  };
  if (format == MemoryFormat::channels_last) {
    if (shape.dim() != 4)
      throw ShapeError("", fmt::format("channels_last needs four dimensions, the shape is {}", to_string(shape)));
    for (const int d : {1, 3, 2, 0}) place(d);
  } else {
    for (int d = shape.dim() - 1; d >= 0; --d) place(d);
  }
  return strides;
}

}  // namespace spool
