#include "spool/train/png.h"

#include <algorithm>
#include <cmath>

#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace spool::detail {

std::string encode_png(const std::uint8_t* pixels, int width, int height, int channels) {
  std::string png;
  const auto append = [](void* to, void* data, int bytes) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), static_cast<std::size_t>(bytes));
  };
  if (!stbi_write_png_to_func(append, &png, width, height, channels, pixels, width * channels))
    throw IoError("png", "a picture could not be encoded");
  return png;
}

std::string data_uri(const std::string& png) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = "data:image/png;base64,";
  for (std::size_t i = 0; i < png.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 3; ++j) word = word << 8 | (i + j < png.size() ? static_cast<unsigned char>(png[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j) text += j <= png.size() - i ? digits[word >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

FilterSheet filter_sheet(const Tensor& weight) {
  NoGrad guard;
  const auto count = static_cast<int>(weight.size(0)), channels = static_cast<int>(weight.size(1)),
             h = static_cast<int>(weight.size(2)), w = static_cast<int>(weight.size(3));
  const std::vector<float> values = weight.detach().to(Device::cpu()).to_vector<float>();
  const int columns = std::max(1, std::min(count, 16)), rows = (count + columns - 1) / columns;
  FilterSheet sheet{{}, columns * (w + 1) - 1, rows * (h + 1) - 1};
  std::vector<std::uint8_t> pixels(
      static_cast<std::size_t>(sheet.width * sheet.height * 4));  // what is between filters is transparent
  for (int f = 0; f < count; ++f) {
    const float* at = values.data() + f * channels * h * w;
    const auto [low, high] = std::minmax_element(at, at + channels * h * w);
    const float range = *high > *low ? *high - *low : 1;
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) {
        const int row = f / columns * (h + 1) + y, column = f % columns * (w + 1) + x;
        std::uint8_t* pixel = &pixels[static_cast<std::size_t>((row * sheet.width + column) * 4)];
        for (int c = 0; c < 3; ++c) {
          const float part = (at[((channels == 3 ? c : 0) * h + y) * w + x] - *low) / range;
          pixel[c] = static_cast<std::uint8_t>(std::isfinite(part) ? std::lround(255 * part) : 0);
        }
        pixel[3] = 255;
      }
  }
  sheet.png = encode_png(pixels.data(), sheet.width, sheet.height, 4);
  return sheet;
}

}  // namespace spool::detail
