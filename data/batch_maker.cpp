#include "spool/data/batch_maker.h"

#include <fmt/format.h>

#include <exception>

#include "spool/core/errors.h"
#include "spool/data/loader.h"

namespace spool {
namespace {

std::string describe(const PictureShape& s) { return fmt::format("{} x {} with {} channels", s.height, s.width, s.channels); }

template <class T>
Shape batch_shape(std::int64_t n, const T& example) {
  Shape shape = example;
  shape.insert(0, n);
  return shape;
}

}  // namespace

BatchMaker::BatchMaker(DatasetRef dataset, Transform transform, std::uint64_t seed)
    : dataset_(std::move(dataset)), transform_(std::move(transform)), seed_(seed), spec_(dataset_->spec()) {
  if (spec_.input_format == MemoryFormat::channels_last && spec_.input.dim() != 3)
    throw ShapeError("DataLoader", fmt::format("the data set's inputs {} cannot be channels-last: that takes [C, H, W]",
                                               to_string(spec_.input)));
  if (!spec_.is_picture()) {
    if (transform_)
      throw ValueError("DataLoader",
                       fmt::format("transforms work on u8 pictures, this data set's inputs are {} {}: apply it to the tensors "
                                   "beforehand, or make the data set an ImageDataset",
                                   to_string(spec_.input), name_of(spec_.input_dtype)));
    return;
  }
  read_shape_ = {spec_.input[1], spec_.input[2], spec_.input[0]};
  batch_shape_ = transform_ ? transform_->output(read_shape_) : read_shape_;
  const auto channels = static_cast<std::size_t>(batch_shape_.channels);
  constexpr std::size_t kPixels = 32;
  const Normalize* normalize = transform_ ? transform_->normalize() : nullptr;
  for (std::size_t i = 0; i < kPixels * channels; ++i) {
    double mean = 0, std = 1;
    if (normalize) {
      const std::size_t c = normalize->mean().size() == 1 ? 0 : i % channels;
      mean = normalize->mean()[c], std = normalize->std()[c];
    }
    affine_.scale.push_back(static_cast<float>(1 / (255 * std)));
    affine_.shift.push_back(static_cast<float>(-mean / std));
  }
}

void BatchMaker::Affine::run(const std::uint8_t* pixels, std::size_t n, float* out) const {
  const std::size_t period = scale.size();
  const float *a = scale.data(), *b = shift.data();
  for (std::size_t at = 0; at < n; at += period) {
    const std::size_t count = n - at < period ? n - at : period;
    for (std::size_t i = 0; i < count; ++i) out[at + i] = static_cast<float>(pixels[at + i]) * a[i] + b[i];
  }
}

void BatchMaker::read_picture(Example& example, float* out, Picture& scratch) const {
  scratch.resize(read_shape_);
  example.move_to(scratch.data(), example.target_data());
  dataset_->read(static_cast<std::int64_t>(example.random.index), example);
  if (transform_) {
    ExampleRandom random = example.random;
    random.drawer = 1;
    transform_->apply(scratch, random);
    if (scratch.shape() != batch_shape_)
      throw ShapeError("DataLoader", fmt::format("the transform made a picture of {}, although its output() announced {}",
                                                 describe(scratch.shape()), describe(batch_shape_)));
  }
  affine_.run(scratch.data(), batch_shape_.bytes(), out);
}

Batch BatchMaker::make(std::span<const std::int64_t> indices, std::uint64_t epoch, std::int64_t batch_number,
                       Picture& scratch) const {
  const auto n = static_cast<std::int64_t>(indices.size());
  const bool picture = spec_.is_picture();
  const Shape input = picture ? Shape{batch_shape_.channels, batch_shape_.height, batch_shape_.width} : spec_.input;
  Batch batch{empty(batch_shape(n, input), {.dtype = picture ? DType::f32 : spec_.input_dtype}, spec_.input_format),
              empty(batch_shape(n, spec_.target), {.dtype = spec_.target_dtype})};
  const std::size_t input_bytes = picture ? batch_shape_.bytes() * sizeof(float) : Example(spec_, nullptr, nullptr).input_bytes();
  auto* input_at = static_cast<std::byte*>(batch.inputs.raw_data());
  auto* target_at = static_cast<std::byte*>(batch.targets.raw_data());
  Example example(spec_, nullptr, nullptr, {.seed = seed_, .epoch = epoch});
  for (const std::int64_t index : indices) {
    example.random.index = static_cast<std::uint64_t>(index);
    try {
      example.move_to(input_at, target_at);
      if (picture)
        read_picture(example, reinterpret_cast<float*>(input_at), scratch);
      else
        dataset_->read(index, example);
    } catch (const std::exception& e) {
      throw LoaderError(index, batch_number, epoch, e.what());
    } catch (...) {
      throw LoaderError(index, batch_number, epoch, "something was thrown that is not a std::exception");
    }
    input_at += input_bytes;
    target_at += example.target_bytes();
  }
  return batch;
}

}  // namespace spool
