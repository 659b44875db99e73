// A data set that needs neither disk nor network: drawn pictures in CIFAR-10's format, so that training can be shown anywhere.
#pragma once
#include <cstdint>

#include "spool/data/dataset.h"

namespace spool {

struct SyntheticOptions {
  bool train = true;      // the training pictures, else test pictures, which are others
  std::int64_t size = 0;  // 0: 50,000 for training, 10,000 for testing, as CIFAR-10
  std::uint64_t seed = 0;
};

// 32 x 32 RGB pictures of ten shapes and textures (disc, ring, square, frame, triangle, plus, cross, bars, checks, dots), with random positions,
// sizes, angles, colours and noise; as many of each class as of any other, but for a remainder. A function of (seed, train, index) alone. No pixel tells
// anything by itself: a linear model stays near 13 % where the ConvNet of the example passes 80 % in two epochs.
class Synthetic final : public ImageDataset {
 public:
  explicit Synthetic(SyntheticOptions options = {});  // throws ValueError for a negative size
};

}  // namespace spool
