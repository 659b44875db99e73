// Pictures as PNG files in memory; what train/*.cpp share, not for users.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spool/core/tensor.h"

namespace spool::detail {

// `pixels`: rows from top to bottom, `channels` (1, 3 or 4: with transparency) bytes a pixel. Throws IoError when it cannot be encoded.
std::string encode_png(const std::uint8_t* pixels, int width, int height, int channels);
// The bytes as "data:image/png;base64,...".
std::string data_uri(const std::string& png);

// Convolution weights [O, C, H, W] with C of 1 or 3, each scaled to the full range by itself, side by side with a transparent pixel between them.
struct FilterSheet {
  std::string png;
  int width = 0, height = 0;
};
FilterSheet filter_sheet(const Tensor& weight);

}  // namespace spool::detail
