#include "spool/data/dataset.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "spool/core/errors.h"
#include "spool/core/parallel.h"
#include "spool/data/shuffle.h"

namespace spool {
namespace {

Shape with_batch(std::int64_t n, const Shape& example) {
  Shape shape = example;
  shape.insert(0, n);
  return shape;
}

Shape without_batch(const Shape& shape) {
  Shape example = shape;
  example.erase(0);
  return example;
}

const std::byte* row(const Tensor& t, std::int64_t index) {
  return static_cast<const std::byte*>(t.raw_data()) +
         index * (t.numel() / t.shape()[0]) * static_cast<std::int64_t>(size_of(t.dtype()));
}

void need_host_rows(const char* who, const char* what, const Tensor& t) {
  if (t.dim() < 1) throw ShapeError(who, fmt::format("{} need a first dimension that counts the examples", what), {{what, t}});
  if (t.is_cuda()) throw DeviceError(who, fmt::format("{} must be in host memory: use to(Device::cpu())", what), {{what, t}});
}

}  // namespace

Example::Example(const ExampleSpec& spec, void* input, void* target, ExampleRandom draws)
    : random(draws),
      input_(input),
      target_(target),
      input_elements_(static_cast<std::size_t>(spec.input.numel())),
      target_elements_(static_cast<std::size_t>(spec.target.numel())),
      input_dtype_(spec.input_dtype),
      target_dtype_(spec.target_dtype) {}

void Example::check(DType have, DType wanted, const char* what) {
  if (have != wanted)
    throw DTypeError(
        "Example", fmt::format("the {} of this data set's spec() is {}, asked for as {}", what, name_of(have), name_of(wanted)));
}

const std::vector<std::string>& Dataset::class_names() const {
  static const std::vector<std::string> none;
  return none;
}

Batch Dataset::get(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw IndexError("Dataset", fmt::format("there is no example {}: the data set has {}", index, size()));
  const ExampleSpec s = spec();
  Batch b{empty(s.input, {.dtype = s.input_dtype}), empty(s.target, {.dtype = s.target_dtype})};
  if (s.input_format == MemoryFormat::channels_last) {
    const std::int64_t c = s.input[0], w = s.input[2];
    b.inputs = alias(b.inputs, s.input, {1, w * c, c}, 0);
  }
  Example example(s, b.inputs.raw_data(), b.targets.raw_data());
  read(index, example);
  return b;
}

Subset::Subset(DatasetRef dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  const std::int64_t n = dataset_->size();
  for (std::size_t i = 0; i < indices_.size(); ++i)
    if (indices_[i] < 0 || indices_[i] >= n)
      throw IndexError("Subset",
                       fmt::format("index {} at position {} is out of range: the data set has {} examples", indices_[i], i, n));
}

std::vector<Subset> random_split(DatasetRef dataset, const std::vector<Scalar>& sizes, std::uint64_t seed) {
  const std::int64_t n = dataset->size();
  std::vector<std::int64_t> counts;
  double fractions = 0;
  bool integers = true;
  for (const Scalar& s : sizes) {
    if (!(s.value >= 0) || !std::isfinite(s.value))
      throw ValueError("random_split", fmt::format("a part cannot have size {}", s.value));
    integers = integers && s.is_integer;
    fractions += s.value;
  }
  if (integers) {
    for (const Scalar& s : sizes) counts.push_back(s.integer);
  } else {
    if (std::abs(fractions - 1) > 1e-6)
      throw ValueError("random_split", fmt::format("the fractions add up to {}, not 1 (sizes are given as integers)", fractions));
    for (const Scalar& s : sizes) counts.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(n) * s.value)));
    std::int64_t left = n - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    for (std::size_t i = 0; left > 0; i = (i + 1) % counts.size(), --left) ++counts[i];
  }
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (total != n)
    throw ValueError("random_split", fmt::format("the parts have {} examples together, the data set has {}", total, n));
  const std::vector<std::int64_t> order = shuffled_indices(n, seed, kSplitStream);
  std::vector<Subset> parts;
  auto from = order.begin();
  for (const std::int64_t count : counts) {
    parts.emplace_back(dataset, std::vector<std::int64_t>(from, from + count));
    from += count;
  }
  return parts;
}

TensorDataset::TensorDataset(const Tensor& inputs, const Tensor& targets) {
  need_host_rows("TensorDataset", "inputs", inputs);
  need_host_rows("TensorDataset", "targets", targets);
  if (inputs.shape()[0] != targets.shape()[0])
    throw ShapeError("TensorDataset", fmt::format("{} inputs but {} targets", inputs.shape()[0], targets.shape()[0]),
                     {{"inputs", inputs}, {"targets", targets}});
  // Examples are read by several threads, outside of the tape.
  const bool last = !inputs.is_contiguous() && inputs.is_contiguous(MemoryFormat::channels_last);
  inputs_ = last ? inputs.detach() : inputs.detach().contiguous();
  targets_ = targets.detach().contiguous();
  spec_ = {.input = without_batch(inputs.shape()),
           .input_dtype = inputs.dtype(),
           .input_format = last ? MemoryFormat::channels_last : MemoryFormat::contiguous,
           .target = without_batch(targets.shape()),
           .target_dtype = targets.dtype()};
}

void TensorDataset::read(std::int64_t index, Example& example) const {
  // An empty row has no address to copy from.
  if (example.input_bytes()) std::memcpy(example.input_data(), row(inputs_, index), example.input_bytes());
  if (example.target_bytes()) std::memcpy(example.target_data(), row(targets_, index), example.target_bytes());
}

ImageDataset::ImageDataset(const Tensor& images, const Tensor& labels, std::vector<std::string> class_names)
    : images_(images), labels_(labels), class_names_(std::make_shared<const std::vector<std::string>>(std::move(class_names))) {
  need_host_rows("ImageDataset", "images", images);
  need_host_rows("ImageDataset", "labels", labels);
  if (images.dim() != 4 || labels.dim() != 1 || images.shape()[0] != labels.shape()[0])
    throw ShapeError("ImageDataset", "expected images [N, C, H, W] and labels [N]", {{"images", images}, {"labels", labels}});
  if (images.dtype() != DType::u8 || labels.dtype() != DType::i64)
    throw DTypeError("ImageDataset", "expected u8 images and i64 labels (TensorDataset takes any)",
                     {{"images", images}, {"labels", labels}});
  if (!images.is_contiguous(MemoryFormat::channels_last)) images_ = images.contiguous(MemoryFormat::channels_last);
  if (!labels.is_contiguous()) labels_ = labels.contiguous();
  const auto classes = static_cast<std::int64_t>(class_names_->size());
  const std::int64_t* label = labels_.data<std::int64_t>();
  for (std::int64_t i = 0; i < size(); ++i)
    if (label[i] < 0 || (classes && label[i] >= classes))
      throw IndexError("ImageDataset", classes ? fmt::format("label {} of image {} is not one of the {} classes (0 to {})",
                                                             label[i], i, classes, classes - 1)
                                               : fmt::format("label {} of image {} is negative", label[i], i));
}

ExampleSpec ImageDataset::spec() const {
  return ExampleSpec::picture(images_.shape()[1], images_.shape()[2], images_.shape()[3]);
}

void ImageDataset::read(std::int64_t index, Example& example) const {
  if (example.input_bytes()) std::memcpy(example.input_data(), row(images_, index), example.input_bytes());
  std::memcpy(example.target_data(), row(labels_, index), sizeof(std::int64_t));
}

ImageDataset load_images(const Dataset& dataset) {
  const ExampleSpec s = dataset.spec();
  if (!s.is_picture() || s.target.dim() != 0 || s.target_dtype != DType::i64)
    throw DTypeError("load_images",
                     fmt::format("the examples are {} {} with targets {} {}, not u8 pictures with i64 labels", to_string(s.input),
                                 name_of(s.input_dtype), to_string(s.target), name_of(s.target_dtype)));
  const std::int64_t n = dataset.size(), bytes = s.input.numel();
  Tensor images = empty(with_batch(n, s.input), {.dtype = DType::u8}, MemoryFormat::channels_last);
  Tensor labels = empty({n}, {.dtype = DType::i64});
  parallel_for(n, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Example example(s, static_cast<std::uint8_t*>(images.raw_data()) + i * bytes,
                      static_cast<std::int64_t*>(labels.raw_data()) + i);
      dataset.read(i, example);
    }
  });
  return ImageDataset(images, labels, dataset.class_names());
}

}  // namespace spool
