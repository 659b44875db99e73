#include "spool/data/transforms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "spool/core/errors.h"

namespace spool {

Compose::Compose(const std::vector<Transform>& transforms) {
  for (const Transform& t : transforms) {
    if (!t) throw ValueError("Compose", fmt::format("transform {} is empty", transforms_.size()));
    if (const auto* inner = dynamic_cast<const Compose*>(&*t))
      transforms_.insert(transforms_.end(), inner->transforms_.begin(), inner->transforms_.end());
    else
      transforms_.push_back(t);
  }
  for (std::size_t i = 0; i + 1 < transforms_.size(); ++i)
    if (transforms_[i]->normalize())
      throw ValueError("Compose",
                       fmt::format("Normalize is transform {} of {}: it makes numbers of pixels, so it has to come last", i + 1,
                                   transforms_.size()));
}

PictureShape Compose::output(const PictureShape& input) const {
  PictureShape shape = input;
  for (const Transform& t : transforms_) shape = t->output(shape);
  return shape;
}

void Compose::apply(Picture& picture, const ExampleRandom& random) const {
  ExampleRandom own = random;
  for (const Transform& t : transforms_) {
    t->apply(picture, own);
    ++own.drawer;
  }
}

const Normalize* Compose::normalize() const { return transforms_.empty() ? nullptr : transforms_.back()->normalize(); }

Normalize::Normalize(std::vector<double> mean, std::vector<double> std) : mean_(std::move(mean)), std_(std::move(std)) {
  if (mean_.empty() || mean_.size() != std_.size())
    throw ValueError("Normalize", fmt::format("{} means but {} standard deviations; give one of each, or one of each per channel",
                                              mean_.size(), std_.size()));
  for (std::size_t c = 0; c < mean_.size(); ++c)
    if (!std::isfinite(mean_[c]) || !std::isfinite(std_[c]) || !(std_[c] > 0))
      throw ValueError("Normalize", fmt::format("channel {} has mean {} and standard deviation {}; the latter must be positive",
                                                c, mean_[c], std_[c]));
}

PictureShape Normalize::output(const PictureShape& input) const {
  if (mean_.size() != 1 && static_cast<std::int64_t>(mean_.size()) != input.channels)
    throw ShapeError("Normalize", fmt::format("{} means for pictures with {} channels", mean_.size(), input.channels));
  return input;
}

RandomCrop::RandomCrop(RandomCropOptions options) : options_(options) {
  const auto& [size, padding, fill] = options_;
  if (size.h < 1 || size.w < 1 || padding.h < 0 || padding.w < 0)
    throw ValueError("RandomCrop", fmt::format("a size of {} x {} with a padding of {} x {} is impossible", size.h, size.w,
                                               padding.h, padding.w));
}

PictureShape RandomCrop::output(const PictureShape& input) const {
  const auto& [size, padding, fill] = options_;
  if (size.h > input.height + 2 * padding.h || size.w > input.width + 2 * padding.w)
    throw ShapeError(
        "RandomCrop",
        fmt::format("the window {} x {} is larger than the picture {} x {} with its padding of {} x {}: use a smaller size "
                    "or a larger padding",
                    size.h, size.w, input.height, input.width, padding.h, padding.w));
  return {size.h, size.w, input.channels};
}

void RandomCrop::apply(Picture& picture, const ExampleRandom& random) const {
  const auto& [size, padding, fill] = options_;
  const PictureShape in = picture.shape(), out{size.h, size.w, in.channels};
  const Philox r = random();
  const auto position = [](std::uint32_t word, std::int64_t choices) {
    return static_cast<std::int64_t>(below(word, static_cast<std::uint32_t>(choices)));
  };
  const std::int64_t top = position(r.words[0], in.height + 2 * padding.h - size.h + 1) - padding.h;
  const std::int64_t left = position(r.words[1], in.width + 2 * padding.w - size.w + 1) - padding.w;
  if (top == 0 && left == 0 && in == out) return;
  // Columns [from, to) of the window lie in the picture; they may be none.
  const std::int64_t from = std::clamp<std::int64_t>(-left, 0, size.w),
                     to = std::clamp<std::int64_t>(in.width - left, from, size.w);
  const std::size_t row_bytes = static_cast<std::size_t>(size.w * in.channels);
  const std::size_t before = static_cast<std::size_t>(from * in.channels),
                    inside = static_cast<std::size_t>((to - from) * in.channels);
  std::uint8_t* dst = picture.spare(out);
  for (std::int64_t y = 0; y < size.h; ++y, dst += row_bytes) {
    const std::int64_t source = top + y;
    if (source < 0 || source >= in.height || inside == 0) {
      std::memset(dst, fill, row_bytes);
      continue;
    }
    if (before) std::memset(dst, fill, before);
    std::memcpy(dst + before, picture.row(source) + (left + from) * in.channels, inside);
    if (before + inside < row_bytes) std::memset(dst + before + inside, fill, row_bytes - before - inside);
  }
  picture.accept(out);
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  if (!(p >= 0 && p <= 1)) throw ValueError("RandomHorizontalFlip", fmt::format("p is a probability, not {}", p));
}

namespace {
template <int C>
void mirror(Picture& picture, std::uint8_t* dst) {
  const std::int64_t w = picture.width();
  for (std::int64_t y = 0; y < picture.height(); ++y, dst += w * C) {
    const std::uint8_t* src = picture.row(y) + (w - 1) * C;
    for (std::int64_t x = 0; x < w; ++x, src -= C)
      for (int c = 0; c < C; ++c) dst[x * C + c] = src[c];
  }
}
}  // namespace

void RandomHorizontalFlip::apply(Picture& picture, const ExampleRandom& random) const {
  if (!(random().uniform_double(0) < p_)) return;
  const std::int64_t w = picture.width(), channels = picture.channels();
  std::uint8_t* dst = picture.spare(picture.shape());
  if (channels == 3) {
    mirror<3>(picture, dst);
  } else if (channels == 1) {
    mirror<1>(picture, dst);
  } else {
    for (std::int64_t y = 0; y < picture.height(); ++y, dst += w * channels)
      for (std::int64_t x = 0; x < w; ++x) std::copy_n(picture.row(y) + (w - 1 - x) * channels, channels, dst + x * channels);
  }
  picture.accept(picture.shape());
}

Cutout::Cutout(CutoutOptions options) : options_(options) {
  if (options.size < 1)
    throw ValueError("Cutout", fmt::format("the square's side must be at least one pixel, not {}", options.size));
}

void Cutout::apply(Picture& picture, const ExampleRandom& random) const {
  const std::int64_t h = picture.height(), w = picture.width(), size = options_.size;
  const Philox r = random();
  const auto span = [size](std::uint32_t word, std::int64_t n) {
    const std::int64_t start = static_cast<std::int64_t>(below(word, static_cast<std::uint32_t>(n))) - size / 2;
    return std::pair(std::max<std::int64_t>(start, 0), std::min(start + size, n));
  };
  const auto [top, bottom] = span(r.words[0], h);
  const auto [left, right] = span(r.words[1], w);
  for (std::int64_t y = top; y < bottom; ++y)
    std::memset(picture.row(y) + left * picture.channels(), options_.fill,
                static_cast<std::size_t>((right - left) * picture.channels()));
}

}  // namespace spool
