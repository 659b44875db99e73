#include "spool/data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "spool/core/errors.h"
#include "spool/data/jpeg_markers.h"

// On damaged files stb_image computes with wrapped and over-shifted integers, and then refuses them; everything else is still looked for.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_sanitize("shift", "signed-integer-overflow"))), apply_to = function)
#endif
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 16384
#include <stb/stb_image.h>
#if defined(__clang__)
#pragma clang attribute pop
#endif

namespace spool {
namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;

using Bytes = std::unique_ptr<stbi_uc, void (*)(void*)>;

const stbi_uc* address(std::span<const std::byte> file) { return reinterpret_cast<const stbi_uc*>(file.data()); }

[[noreturn]] void refuse(std::string_view name, const char* why) {
  throw IoError("image", fmt::format("{} is not a picture that can be read: {} (JPEG, PNG and BMP are)", name, why));
}

// Sizes are checked from the header, before a decoder allocates anything.
PictureShape check_header(std::span<const std::byte> file, std::string_view name) {
  if (file.empty()) refuse(name, "the file is empty");
  if (file.size() > INT_MAX) refuse(name, "the file is larger than 2 GiB");
  const JpegMarkers jpeg = inspect_jpeg(file);
  if (jpeg.huffman_overflow) refuse(name, "bad Huffman table");
  int w = 0, h = 0, channels = 0;
  if (!stbi_info_from_memory(address(file), static_cast<int>(file.size()), &w, &h, &channels)) {
    // Only the decoder itself says what is wrong with the header.
    const Bytes pixels(stbi_load_from_memory(address(file), static_cast<int>(file.size()), &w, &h, &channels, 0),
                       stbi_image_free);
    refuse(name, pixels ? "its header and contents disagree" : stbi_failure_reason());
  }
  if (w < 1 || h < 1) refuse(name, "its header claims no pixels");
  if (w > STBI_MAX_DIMENSIONS || h > STBI_MAX_DIMENSIONS || std::int64_t{w} * h > kMaxPixels)
    throw IoError(
        "image", fmt::format("{} is too large: its header claims {} x {} pixels, the limit is {} per side and {} in all", name, w,
                             h, STBI_MAX_DIMENSIONS, kMaxPixels));
  if (jpeg.is_jpeg && !jpeg.ends) refuse(name, "it ends before its end marker, a part is missing");
  if (jpeg.components == 4)
    throw IoError(
        "image",
        fmt::format("{} is a CMYK JPEG, which is not supported: convert it to RGB (ImageMagick: convert in.jpg -colorspace sRGB "
                    "out.jpg)",
                    name));
  return {h, w, 3};
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& why) -> IoError {
    return {"image", fmt::format("{} cannot be read: {}", path.string(), why)};
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) throw fail("it does not exist");
  if (error) throw fail(error.message());
  if (status.type() != std::filesystem::file_type::regular) throw fail("it is not a regular file");
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw fail(error.message());
  if (size > INT_MAX) throw fail("it is larger than 2 GiB");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!in) throw fail(std::strerror(errno));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (!bytes.empty() && std::fread(bytes.data(), 1, bytes.size(), in.get()) != bytes.size()) throw fail("it ended early");
  return bytes;
}

// For each new coordinate: the old ones that it averages, by a triangle as wide as the area it covers (at least one pixel on each side).
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Taps> triangle_taps(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<Taps> taps(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - reach + 0.5));
    const auto end = std::min(from, static_cast<std::int64_t>(centre + reach + 0.5));
    Taps& t = taps[static_cast<std::size_t>(i)];
    t.first = begin;
    double sum = 0;
    for (std::int64_t k = begin; k < end; ++k)
      sum += std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - centre) / reach));
    for (std::int64_t k = begin; k < end; ++k)
      t.weights.push_back(static_cast<float>(std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - centre) / reach)) / sum));
  }
  return taps;
}

std::uint8_t to_byte(float v) { return static_cast<std::uint8_t>(std::clamp(v + 0.5f, 0.0f, 255.0f)); }

}  // namespace

Picture decode_image(std::span<const std::byte> file, std::string_view name) {
  const PictureShape shape = check_header(file, name);
  // The file's own number of channels is asked for, and converted here: stb_image's conversion of 16-bit pictures is where its overflows were.
  int w = 0, h = 0, channels = 0;
  const Bytes pixels(stbi_load_from_memory(address(file), static_cast<int>(file.size()), &w, &h, &channels, 0), stbi_image_free);
  if (!pixels) refuse(name, stbi_failure_reason());
  if (w != shape.width || h != shape.height || channels < 1 || channels > 4) refuse(name, "its header and contents disagree");
  Picture picture;
  picture.resize(shape);
  const std::size_t n = static_cast<std::size_t>(w) * static_cast<std::size_t>(h), step = static_cast<std::size_t>(channels);
  std::uint8_t* out = picture.data();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < 3; ++c) out[3 * i + c] = pixels.get()[i * step + (step >= 3 ? c : 0)];
  return picture;
}

Picture read_image(const std::filesystem::path& path) { return decode_image(read_bytes(path), path.string()); }

PictureShape image_shape(const std::filesystem::path& path) { return check_header(read_bytes(path), path.string()); }

Picture resize(const Picture& picture, Size2 size) {
  if (size.h < 1 || size.w < 1) throw ValueError("resize", fmt::format("the new size {} x {} has no pixels", size.h, size.w));
  const PictureShape in = picture.shape(), out{size.h, size.w, in.channels};
  if (in.bytes() == 0) throw ValueError("resize", "the picture has no pixels");
  Picture result;
  result.resize(out);
  if (in == out) {
    std::memcpy(result.data(), picture.data(), in.bytes());
    return result;
  }
  // First across, rounded to bytes in between, then down: Pillow's order.
  const std::int64_t channels = in.channels;
  const std::vector<Taps> across = triangle_taps(in.width, out.width), down = triangle_taps(in.height, out.height);
  std::vector<std::uint8_t> narrow(static_cast<std::size_t>(in.height * out.width * channels));
  for (std::int64_t y = 0; y < in.height; ++y)
    for (std::int64_t x = 0; x < out.width; ++x)
      for (std::int64_t c = 0; c < channels; ++c) {
        const Taps& t = across[static_cast<std::size_t>(x)];
        const std::uint8_t* src = picture.row(y) + t.first * channels + c;
        float sum = 0;
        for (const float weight : t.weights) sum += weight * static_cast<float>(*std::exchange(src, src + channels));
        narrow[static_cast<std::size_t>((y * out.width + x) * channels + c)] = to_byte(sum);
      }
  const std::int64_t row = out.width * channels;
  std::vector<float> sum(static_cast<std::size_t>(row));
  for (std::int64_t y = 0; y < out.height; ++y) {
    const Taps& t = down[static_cast<std::size_t>(y)];
    std::fill(sum.begin(), sum.end(), 0.0f);
    const std::uint8_t* src = narrow.data() + t.first * row;
    for (const float weight : t.weights) {
      for (std::int64_t i = 0; i < row; ++i) sum[static_cast<std::size_t>(i)] += weight * static_cast<float>(src[i]);
      src += row;
    }
    for (std::int64_t i = 0; i < row; ++i) result.row(y)[i] = to_byte(sum[static_cast<std::size_t>(i)]);
  }
  return result;
}

}  // namespace spool
