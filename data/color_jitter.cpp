#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "spool/core/errors.h"
#include "spool/data/transforms.h"

namespace spool {
namespace {

std::uint8_t to_byte(float v) { return static_cast<std::uint8_t>(std::clamp(v, 0.0f, 255.0f) + 0.5f); }

// Rec. 601, as Pillow and torchvision.
float grey(const std::uint8_t* p) {
  return 0.299f * static_cast<float>(p[0]) + 0.587f * static_cast<float>(p[1]) + 0.114f * static_cast<float>(p[2]);
}

void scale(Picture& picture, float factor) {
  std::uint8_t* p = picture.data();
  for (std::size_t i = 0; i < picture.shape().bytes(); ++i) p[i] = to_byte(factor * static_cast<float>(p[i]));
}

void change_contrast(Picture& picture, float factor) {
  const std::int64_t pixels = picture.height() * picture.width(), channels = picture.channels();
  std::uint8_t* p = picture.data();
  double sum = 0;
  for (std::int64_t i = 0; i < pixels; ++i)
    sum += static_cast<double>(channels == 3 ? grey(p + 3 * i) : static_cast<float>(p[i]));
  const float mean = static_cast<float>(std::floor(sum / static_cast<double>(std::max<std::int64_t>(pixels, 1)) + 0.5));
  for (std::int64_t i = 0; i < pixels * channels; ++i) p[i] = to_byte(mean + factor * (static_cast<float>(p[i]) - mean));
}

void change_saturation(Picture& picture, float factor) {
  if (picture.channels() != 3) return;  // grey has none
  std::uint8_t* p = picture.data();
  for (std::int64_t i = 0; i < picture.height() * picture.width(); ++i, p += 3) {
    const float g = grey(p);
    for (int c = 0; c < 3; ++c) p[c] = to_byte(g + factor * (static_cast<float>(p[c]) - g));
  }
}

}  // namespace

ColorJitter::ColorJitter(ColorJitterOptions options) : options_(options) {
  for (const double v : {options.brightness, options.contrast, options.saturation})
    if (!(v >= 0) || !std::isfinite(v))
      throw ValueError("ColorJitter", fmt::format("brightness, contrast and saturation are not negative; given {}, {}, {}",
                                                  options.brightness, options.contrast, options.saturation));
}

PictureShape ColorJitter::output(const PictureShape& input) const {
  if (input.channels != 1 && input.channels != 3)
    throw ShapeError("ColorJitter", fmt::format("takes grey or RGB pictures, these have {} channels", input.channels));
  return input;
}

void ColorJitter::apply(Picture& picture, const ExampleRandom& random) const {
  const Philox r = random();
  const auto factor = [&](double value, int word) {
    const double low = std::max(0.0, 1 - value), high = 1 + value;
    return static_cast<float>(low + (high - low) * static_cast<double>(r.uniform(word)));
  };
  struct Step {
    void (*change)(Picture&, float);
    double value;
  };
  Step steps[] = {{scale, options_.brightness}, {change_contrast, options_.contrast}, {change_saturation, options_.saturation}};
  // One of the six orders.
  const std::uint32_t order = below(r.words[3], 6);
  std::swap(steps[0], steps[order % 3]);
  std::swap(steps[1], steps[1 + order / 3]);
  int word = 0;
  for (const Step& s : steps) {
    if (s.value > 0) s.change(picture, factor(s.value, word));
    ++word;
  }
}

}  // namespace spool
