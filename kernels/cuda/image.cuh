// Pictures [N, C, H, W] that lie channels-last, as kernels go through them.
#pragma once
#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels::cuda {

struct Image {
  std::int64_t n, c, h, w;
  explicit Image(const Tensor& t) : n(t.shape()[0]), c(t.shape()[1]), h(t.shape()[2]), w(t.shape()[3]) {}
  SPOOL_HD std::int64_t numel() const { return n * c * h * w; }
  SPOOL_HD std::int64_t at(std::int64_t in, std::int64_t ic, std::int64_t ih, std::int64_t iw) const {
    return ((in * h + ih) * w + iw) * c + ic;
  }
};

// Where element i of the memory is.
struct Pixel {
  std::int64_t n, c, h, w;
  SPOOL_HD Pixel(const Image& s, std::int64_t i) : n(i / s.c / s.w / s.h), c(i % s.c), h(i / s.c / s.w % s.h), w(i / s.c % s.w) {}
};

}  // namespace spool::kernels::cuda
