// Reads chosen examples into a new batch. What a loader's workers share; internal.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "spool/data/dataset.h"
#include "spool/data/transforms.h"

namespace spool {

class BatchMaker {
 public:
  // Throws ValueError, ShapeError where the transform does not suit the data set.
  BatchMaker(DatasetRef dataset, Transform transform, std::uint64_t seed);

  const Dataset& dataset() const { return *dataset_; }
  // Callable from several threads, each with a `scratch` of its own. Throws LoaderError.
  Batch make(std::span<const std::int64_t> indices, std::uint64_t epoch, std::int64_t batch_number, Picture& scratch) const;

 private:
  // x = pixel * scale + shift for a whole number of pixels at a time, so that the loop over a picture is one long vector loop.
  struct Affine {
    std::vector<float> scale, shift;
    void run(const std::uint8_t* pixels, std::size_t n, float* out) const;
  };
  void read_picture(Example& example, float* out, Picture& scratch) const;

  DatasetRef dataset_;
  Transform transform_;
  std::uint64_t seed_;
  ExampleSpec spec_;
  PictureShape read_shape_, batch_shape_;  // before and after the transform
  Affine affine_;
};

}  // namespace spool
