// Making tensors from nothing: constants, ranges, random numbers, data of the caller's (copied). Names, argument order and semantics are PyTorch's.
// All throw ShapeError for impossible sizes and DeviceError for a device this build cannot use.
#pragma once
#include <span>
#include <vector>

#include "spool/core/generator.h"
#include "spool/core/tensor.h"

namespace spool {

Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor full(const Shape& shape, Scalar value, TensorOptions options = {});
Tensor zeros_like(const Tensor& t);
Tensor ones_like(const Tensor& t);
Tensor full_like(const Tensor& t, Scalar value);
// start, start + step, ... below end. i64 when all three are integers and no dtype is given, else f32.
Tensor arange(Scalar start, Scalar end, Scalar step = 1, std::optional<DType> dtype = {}, Device device = Device::cpu());
inline Tensor arange(Scalar end) { return arange(0, end); }
// `steps` numbers from start to end, both included.
Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options = {});
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, TensorOptions options = {});

// Uniform in [0, 1); floating point.
Tensor rand(const Shape& shape, TensorOptions options = {}, Generator& generator = default_generator());
// Standard normal; floating point.
Tensor randn(const Shape& shape, TensorOptions options = {}, Generator& generator = default_generator());
// Integers in [low, high).
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options = {.dtype = DType::i64},
               Generator& generator = default_generator());
// A permutation of 0 .. n-1, i64.
Tensor randperm(std::int64_t n, Generator& generator = default_generator());

// A copy of the caller's values in row-major order. The element type is T's, except that double becomes the default f32; `dtype` overrides.
// Throws ShapeError when the number of values is not that of the shape.
template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape, std::optional<DType> dtype = {}, Device device = Device::cpu());
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape, std::optional<DType> dtype = {}, Device device = Device::cpu()) {
  return tensor(std::span<const T>(values), shape, dtype, device);
}
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(std::span<const T>(values), {static_cast<std::int64_t>(values.size())});
}

// Nested braces: tensor({{1, 2, 3}, {4, 5, 6}}). Rows must have equal lengths.
class NestedValues {
 public:
  NestedValues(double value) : value_(value), leaf_(true) {}
  NestedValues(std::initializer_list<NestedValues> rows) : rows_(rows) {}
  Shape shape() const;
  void collect(std::vector<double>& out) const;
  void check(const Shape& expected, int depth = 0) const;  // throws ShapeError when rows differ in length

 private:
  double value_ = 0;
  bool leaf_ = false;
  std::vector<NestedValues> rows_;
};
// f32 unless `options` says otherwise.
Tensor tensor(std::initializer_list<NestedValues> values, TensorOptions options = {});
// 0-d.
Tensor scalar_tensor(Scalar value, TensorOptions options = {});

}  // namespace spool
