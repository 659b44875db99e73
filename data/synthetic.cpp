#include "spool/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "spool/core/errors.h"
#include "spool/core/generator.h"
#include "spool/core/parallel.h"

namespace spool {
namespace {

constexpr int kSide = 32;
const std::vector<std::string> kNames = {"disc", "ring",  "square", "frame",  "triangle",
                                         "plus", "cross", "bars",   "checks", "dots"};

// Uniform numbers of one picture.
class Numbers {
 public:
  Numbers(std::uint64_t seed, std::uint64_t picture) : seed_(seed), picture_(picture) {}
  float uniform(float low, float high) {
    if (used_ % 4 == 0) block_ = Philox(seed_, picture_, used_ / 4);
    return low + (high - low) * block_.uniform(static_cast<int>(used_++ % 4));
  }
  // In (-1, 1), a triangle distribution, from two bytes: there are 3,072 per picture.
  float grain() {
    if (grains_ % 8 == 0) grain_block_ = Philox(seed_, picture_, kGrainStream + grains_ / 8);
    const std::uint32_t bits = grain_block_.words[grains_ / 2 % 4] >> (grains_ % 2 * 16);
    ++grains_;
    return (static_cast<float>(bits & 0xffu) + static_cast<float>(bits >> 8 & 0xffu)) / 255.0f - 1;
  }

 private:
  static constexpr std::uint64_t kGrainStream = std::uint64_t{1} << 32;
  std::uint64_t seed_, picture_, used_ = 0, grains_ = 0;
  Philox block_{0, 0}, grain_block_{0, 0};
};

// How deep a point of the plane lies inside a figure of size about 1 (negative outside).
float inside(std::int64_t figure, float u, float v) {
  const float x = std::abs(u), y = std::abs(v), radius = std::hypot(u, v), box = std::max(x, y);
  constexpr float kArm = 0.28f;
  switch (figure) {
    case 0: return 1 - radius;
    case 1: return 0.26f - std::abs(radius - 0.8f);
    case 2: return 0.9f - box;
    case 3: return 0.22f - std::abs(box - 0.75f);
    case 4: return std::min(v + 0.6f, 0.5f * (1.1f - v) - 0.866f * x);
    case 5: return std::min(1 - box, kArm - std::min(x, y));
    case 6: {  // a plus turned by 45 degrees: its arms are diagonals of the frame it is drawn in
      const float p = std::abs(u + v) * 0.7071f, q = std::abs(u - v) * 0.7071f;
      return std::min(1 - std::max(p, q), kArm - std::min(p, q));
    }
    case 7: return std::min(1 - box, 0.18f - std::abs(v - 0.72f * std::round(v / 0.72f)));
    case 8: {
      const bool odd = (std::lround(std::floor(u * 2)) + std::lround(std::floor(v * 2))) % 2 != 0;
      return std::min(1 - box, odd ? 0.25f : -0.25f);
    }
    default: {  // nine dots
      const float du = u - 0.68f * std::round(std::clamp(u / 0.68f, -1.0f, 1.0f)),
                  dv = v - 0.68f * std::round(std::clamp(v / 0.68f, -1.0f, 1.0f));
      return 0.24f - std::hypot(du, dv);
    }
  }
}

void draw(std::int64_t figure, Numbers& random, std::uint8_t* out) {
  const float size = random.uniform(6.5f, 13.0f);
  const float cx = random.uniform(size * 0.8f, kSide - size * 0.8f), cy = random.uniform(size * 0.8f, kSide - size * 0.8f);
  // Less than 22.5 degrees, so that a plus stays apart from a cross.
  const float angle = random.uniform(-0.35f, 0.35f), cosine = std::cos(angle) / size, sine = std::sin(angle) / size;
  const float stretch = random.uniform(0.85f, 1.18f);
  float paint[3], ground[3], slope[3];
  float distance = 0;
  do {  // any two colours that can be told apart
    distance = 0;
    for (int c = 0; c < 3; ++c) {
      paint[c] = random.uniform(20, 235);
      ground[c] = random.uniform(20, 235);
      distance += std::abs(paint[c] - ground[c]);
    }
  } while (distance < 110);
  for (float& s : slope) s = random.uniform(-2.5f, 2.5f);
  const float direction = random.uniform(0, 2 * std::numbers::pi_v<float>), noise = random.uniform(10, 60);
  const float dx = std::cos(direction), dy = std::sin(direction);
  for (int row = 0; row < kSide; ++row)
    for (int column = 0; column < kSide; ++column) {
      const float x = static_cast<float>(column) + 0.5f - cx, y = static_cast<float>(row) + 0.5f - cy;
      const float depth = inside(figure, (cosine * x + sine * y) * stretch, (cosine * y - sine * x) / stretch);
      const float cover = std::clamp(depth * size + 0.5f, 0.0f, 1.0f);  // edges are a pixel wide
      for (int c = 0; c < 3; ++c) {
        const float light = slope[c] * (dx * (static_cast<float>(column) - 15.5f) + dy * (static_cast<float>(row) - 15.5f));

        *out++ = static_cast<std::uint8_t>(
            std::clamp(ground[c] + cover * (paint[c] - ground[c]) + light + noise * random.grain(), 0.0f, 255.0f));
      }
    }
}

ImageDataset make(const SyntheticOptions& options) {
  if (options.size < 0) throw ValueError("Synthetic", fmt::format("size must not be negative, it is {}", options.size));
  const std::int64_t n = options.size ? options.size : options.train ? 50000 : 10000;
  Tensor images = empty({n, 3, kSide, kSide}, {.dtype = DType::u8}, MemoryFormat::channels_last);
  Tensor labels = empty({n}, {.dtype = DType::i64});
  auto* pixels = static_cast<std::uint8_t*>(images.raw_data());
  auto* label = static_cast<std::int64_t*>(labels.raw_data());
  constexpr std::uint64_t kKey = 0x5370'6f6f'6c53'796eu, kTest = std::uint64_t{1} << 63;
  parallel_for(n, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Numbers random(options.seed ^ kKey, static_cast<std::uint64_t>(i) | (options.train ? 0 : kTest));
      label[i] = i % static_cast<std::int64_t>(kNames.size());
      draw(label[i], random, pixels + i * kSide * kSide * 3);
    }
  });
  return ImageDataset(images, labels, kNames);
}

}  // namespace

Synthetic::Synthetic(SyntheticOptions options) : ImageDataset(make(options)) {}

}  // namespace spool
