// Making a batch of a data set of pictures that is held in memory, on the host or on a device.
#pragma once
#include "spool/core/generator.h"
#include "spool/core/size2.h"
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// What happens to each picture: a window of its padded self, mirrored perhaps, then pixel * scale + shift for each channel. Random numbers come from counter i for picture
// number i of the data set.
struct PictureParams {
  static constexpr int kMaxChannels = 4;
  Size2 padding = 0;
  std::uint8_t fill = 0;  // of the padding
  bool crops = false;     // else the window is the picture
  Generator::Draw crop{0, 0};
  double flip_probability = 0;
  bool flips_first = false;  // before the window is chosen
  Generator::Draw flip{0, 0};
  float scale[kMaxChannels] = {}, shift[kMaxChannels] = {};
};

// Where in a padded picture of height x width the window [height, width] of `out` begins, and whether the picture is mirrored.
struct PictureWindow {
  std::int64_t top = 0, left = 0;
  bool mirrored = false;
  SPOOL_HD PictureWindow(const PictureParams& p, std::uint64_t index, std::int64_t h, std::int64_t w, std::int64_t out_h,
                         std::int64_t out_w) {
    if (p.crops) {
      const Philox r = p.crop(index);
      top = place(r.words[0], h + 2 * p.padding.h - out_h + 1) - p.padding.h;
      left = place(r.words[1], w + 2 * p.padding.w - out_w + 1) - p.padding.w;
    }
    mirrored = p.flip_probability > 0 && p.flip(index).uniform_double(0) < p.flip_probability;
  }

 private:
  // 0 .. n-1 from a random word.
  SPOOL_HD static std::int64_t place(std::uint32_t word, std::int64_t n) {
    return static_cast<std::int64_t>((std::uint64_t{word} * static_cast<std::uint32_t>(n)) >> 32);
  }
};

// inputs [B, C, h, w] f32 and targets [B] i64 from pictures [N, C, H, W] u8 and labels [N] i64, by order [B] i64, whose numbers have been checked. Pictures and inputs are
// channels-last and have at most kMaxChannels channels; the rest is row-major.
SPOOL_KERNEL(gather_pictures,
             (const Tensor& pictures, const Tensor& labels, const Tensor& order, const PictureParams& p, Tensor& inputs,
              Tensor& targets),
             (pictures, labels, order, p, inputs, targets), inputs)

// One number of the batch: pixel (row, column, channel) of what the window shows.
SPOOL_HD float picture_value(const PictureParams& p, const PictureWindow& at, const std::uint8_t* picture, std::int64_t h,
                             std::int64_t w, std::int64_t channels, std::int64_t out_w, std::int64_t row, std::int64_t column,
                             std::int64_t channel) {
  if (at.mirrored && !p.flips_first) column = out_w - 1 - column;
  const std::int64_t y = at.top + row;
  std::int64_t x = at.left + column;
  if (at.mirrored && p.flips_first) x = w - 1 - x;
  const std::uint8_t pixel = y < 0 || y >= h || x < 0 || x >= w ? p.fill : picture[(y * w + x) * channels + channel];
  return static_cast<float>(pixel) * p.scale[channel] + p.shift[channel];
}

}  // namespace spool::kernels
