#include "data_pictures.h"

#include <cstdint>

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

namespace spool::test {
namespace {
void append(void* text, void* data, int n) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(data), static_cast<std::size_t>(n));
}
std::vector<std::uint8_t> bytes_of(const std::vector<int>& v) { return {v.begin(), v.end()}; }
}  // namespace

std::string png_of(int width, int height, int channels, const std::vector<int>& pixels) {
  std::string out;
  stbi_write_png_to_func(append, &out, width, height, channels, bytes_of(pixels).data(), width * channels);
  return out;
}
std::string bmp_of(int width, int height, int channels, const std::vector<int>& pixels) {
  std::string out;
  stbi_write_bmp_to_func(append, &out, width, height, channels, bytes_of(pixels).data());
  return out;
}
std::string jpeg_of(int width, int height, const std::vector<int>& rgb, int quality) {
  std::string out;
  stbi_write_jpg_to_func(append, &out, width, height, 3, bytes_of(rgb).data(), quality);
  return out;
}

}  // namespace spool::test
