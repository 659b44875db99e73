#include "spool/kernels/pictures.h"

#include "spool/core/parallel.h"

namespace spool::kernels::cpu {

void gather_pictures(const Tensor& pictures, const Tensor& labels, const Tensor& order, const PictureParams& p, Tensor& inputs,
                     Tensor& targets) {
  const std::int64_t c = pictures.shape()[1], h = pictures.shape()[2], w = pictures.shape()[3], out_h = inputs.shape()[2],
                     out_w = inputs.shape()[3];
  const auto* pixels = static_cast<const std::uint8_t*>(pictures.raw_data());
  const auto *label = static_cast<const std::int64_t*>(labels.raw_data()),
             *index = static_cast<const std::int64_t*>(order.raw_data());
  auto* out = static_cast<float*>(inputs.raw_data());
  parallel_for(order.numel(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const PictureWindow at(p, static_cast<std::uint64_t>(index[b]), h, w, out_h, out_w);
      static_cast<std::int64_t*>(targets.raw_data())[b] = label[index[b]];
      float* to = out + b * out_h * out_w * c;
      for (std::int64_t row = 0; row < out_h; ++row)
        for (std::int64_t column = 0; column < out_w; ++column)
          for (std::int64_t k = 0; k < c; ++k)
            *to++ = picture_value(p, at, pixels + index[b] * h * w * c, h, w, c, out_w, row, column, k);
    }
  });
}

}  // namespace spool::kernels::cpu
