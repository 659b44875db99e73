// Shape and Strides: up to eight dimensions, stored in place.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace spool {

inline constexpr int kMaxDims = 8;

class Shape {
 public:
  Shape() noexcept = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(dims.begin(), static_cast<int>(dims.size())) {}
  Shape(const std::int64_t* dims, int n);  // throws ShapeError beyond kMaxDims
  explicit Shape(std::span<const std::int64_t> dims) : Shape(dims.data(), static_cast<int>(dims.size())) {}
  static Shape filled(int n, std::int64_t value);

  int dim() const noexcept { return n_; }
  std::int64_t* begin() noexcept { return dims_; }
  std::int64_t* end() noexcept { return dims_ + n_; }
  const std::int64_t* begin() const noexcept { return dims_; }
  const std::int64_t* end() const noexcept { return dims_ + n_; }
  std::int64_t& operator[](int i) noexcept { return dims_[i]; }
  std::int64_t operator[](int i) const noexcept { return dims_[i]; }
  void push_back(std::int64_t d);
  void insert(int at, std::int64_t d);
  void erase(int at);

  // The number of elements; throws ShapeError where it does not fit 63 bits.
  std::int64_t numel() const;
  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.n_ != b.n_) return false;
    for (int i = 0; i < a.n_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  std::int64_t dims_[kMaxDims];
  int n_ = 0;
};

using Strides = Shape;

// "[2, 3, 4]"
std::string to_string(const Shape& shape);

// How a dense tensor lies in memory. `channels_last` keeps the channel of dimension 1 innermost (N, H, W, C); shapes and
// indices stay N, C, H, W for the user.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

// The strides, in elements, of a dense tensor of this shape; channels_last takes four dimensions.
Strides dense_strides(const Shape& shape, MemoryFormat format = MemoryFormat::contiguous);

// Sorts a handful of dimensions, stably; the standard sorts allocate or expect more of them.
template <class Less>
void sort_dims(int* dims, int n, Less less) {
  for (int i = 1; i < n; ++i)
    for (int j = i; j > 0 && less(dims[j], dims[j - 1]); --j) {
      const int d = dims[j];
      dims[j] = dims[j - 1];
      dims[j - 1] = d;
    }
}

}  // namespace spool
