// Picture: the small buffer that a worker reads, crops and flips one example in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spool {

struct PictureShape {
  std::int64_t height = 0, width = 0, channels = 0;
  std::size_t bytes() const { return static_cast<std::size_t>(height * width * channels); }
  friend bool operator==(const PictureShape&, const PictureShape&) = default;
};

// Rows from top to bottom, pixels from left to right, channels of a pixel side by side; one byte each.
class Picture {
 public:
  // Contents are undefined afterwards.
  void resize(const PictureShape& shape) {
    shape_ = shape;
    if (pixels_.size() < shape.bytes()) pixels_.resize(shape.bytes());
  }
  const PictureShape& shape() const { return shape_; }
  std::int64_t height() const { return shape_.height; }
  std::int64_t width() const { return shape_.width; }
  std::int64_t channels() const { return shape_.channels; }
  std::uint8_t* data() { return pixels_.data(); }
  const std::uint8_t* data() const { return pixels_.data(); }
  std::uint8_t* row(std::int64_t y) { return pixels_.data() + y * shape_.width * shape_.channels; }
  const std::uint8_t* row(std::int64_t y) const { return pixels_.data() + y * shape_.width * shape_.channels; }

  // For transforms that cannot work in place: a second buffer with room for `shape`, which accept() makes the picture.
  std::uint8_t* spare(const PictureShape& shape) {
    if (spare_.size() < shape.bytes()) spare_.resize(shape.bytes());
    return spare_.data();
  }
  void accept(const PictureShape& shape) {
    pixels_.swap(spare_);
    shape_ = shape;
  }

 private:
  PictureShape shape_;
  std::vector<std::uint8_t> pixels_, spare_;
};

}  // namespace spool
