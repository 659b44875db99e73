// What a loader does to pictures between reading and batching. Names and meanings are torchvision's; random ones draw by (seed, epoch, index) alone
// (random.h), so a picture of an epoch is the same whatever the number of workers.
//   DataLoader loader(train, {.batch_size = 128, .shuffle = true,
//                             .transform = Compose({RandomCrop({.size = 32, .padding = 4}), RandomHorizontalFlip(),
//                                                   Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5})})});
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "spool/core/size2.h"
#include "spool/data/picture.h"
#include "spool/data/random.h"

namespace spool {

class Normalize;

// Derive from this for a transform of your own. One object serves all workers at once.
class PictureTransform {
 public:
  virtual ~PictureTransform() = default;
  // The shape of the result. Throws ShapeError or ValueError for pictures that it cannot take; asked once, when a loader is made.
  virtual PictureShape output(const PictureShape& input) const { return input; }
  virtual void apply(Picture& picture, const ExampleRandom& random) const = 0;
  // Set in a Normalize, and in a Compose that ends in one.
  virtual const Normalize* normalize() const { return nullptr; }
};

// Any transform, or none; a handle, cheap to copy.
class Transform {
 public:
  Transform() = default;
  template <std::derived_from<PictureTransform> T>
  Transform(T transform) : p_(std::make_shared<const T>(std::move(transform))) {}
  explicit operator bool() const { return p_ != nullptr; }
  const PictureTransform& operator*() const { return *p_; }
  const PictureTransform* operator->() const { return p_.get(); }

 private:
  std::shared_ptr<const PictureTransform> p_;
};

// One after the other. A Normalize may only come last.
class Compose final : public PictureTransform {
 public:
  explicit Compose(const std::vector<Transform>& transforms);  // throws ValueError for an empty handle or a misplaced Normalize
  PictureShape output(const PictureShape& input) const override;
  void apply(Picture& picture, const ExampleRandom& random) const override;
  const Normalize* normalize() const override;
  const std::vector<Transform>& transforms() const { return transforms_; }

 private:
  std::vector<Transform> transforms_;  // those of a Compose inside a Compose are taken out of it
};

// x = (pixel / 255 - mean) / std, per channel; where a loader has none, x = pixel / 255.
class Normalize final : public PictureTransform {
 public:
  // One value, or one per channel. Throws ValueError for a std that is not positive, or for different lengths.
  Normalize(std::vector<double> mean, std::vector<double> std);
  PictureShape output(const PictureShape& input) const override;
  void apply(Picture&, const ExampleRandom&) const override {}  // happens as the batch is written
  const Normalize* normalize() const override { return this; }
  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& std() const { return std_; }

 private:
  std::vector<double> mean_, std_;
};

struct RandomCropOptions {
  Size2 size;
  Size2 padding = 0;      // on each side, before cropping
  std::uint8_t fill = 0;  // of the padding
};
// A window at a random position.
class RandomCrop final : public PictureTransform {
 public:
  explicit RandomCrop(RandomCropOptions options);  // throws ValueError for a size below 1 or a negative padding
  PictureShape output(const PictureShape& input) const override;
  void apply(Picture& picture, const ExampleRandom& random) const override;
  const RandomCropOptions& options() const { return options_; }

 private:
  RandomCropOptions options_;
};

// Mirrors left and right with probability p.
class RandomHorizontalFlip final : public PictureTransform {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);  // throws ValueError outside [0, 1]
  void apply(Picture& picture, const ExampleRandom& random) const override;
  double p() const { return p_; }

 private:
  double p_;
};

struct CutoutOptions {
  std::int64_t size;        // of the square's side, in pixels
  std::uint8_t fill = 128;  // mid-grey: about zero after Normalize, as in the paper
};
// Paints a square around a random pixel; what sticks out is cut off (DeVries and Taylor, "Improved regularization of convolutional neural
// networks with cutout", 2017).
class Cutout final : public PictureTransform {
 public:
  explicit Cutout(CutoutOptions options);  // throws ValueError for a size below 1
  void apply(Picture& picture, const ExampleRandom& random) const override;

 private:
  CutoutOptions options_;
};

struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0;
};
// Brightness, contrast and saturation, each by a factor from [max(0, 1 - value), 1 + value], in random order. Takes grey and RGB.
class ColorJitter final : public PictureTransform {
 public:
  explicit ColorJitter(ColorJitterOptions options);  // throws ValueError for a negative value
  PictureShape output(const PictureShape& input) const override;
  void apply(Picture& picture, const ExampleRandom& random) const override;

 private:
  ColorJitterOptions options_;
};

}  // namespace spool
