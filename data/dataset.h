// Data sets: something with a size whose examples can be read by index, each an input and a target.
//
// An example is not a Tensor: read() writes it into memory that it is given, so that a loader fills a batch in place. Pictures are u8, of
// shape [C, H, W], and lie H, W, C in memory (the order in which decoders produce them, batches are trained on, and a GPU gathers them); the loader
// applies transforms to them and makes them f32. Inputs of any other kind are stacked as they are.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "spool/core/scalar.h"
#include "spool/core/tensor.h"
#include "spool/data/random.h"

namespace spool {

// What every example of a data set looks like.
struct ExampleSpec {
  Shape input;  // of one example, without the batch dimension
  DType input_dtype = DType::f32;
  // channels_last: an input [C, H, W] lies H, W, C in memory.
  MemoryFormat input_format = MemoryFormat::contiguous;
  Shape target = {};  // no dimensions: one number, such as a label
  DType target_dtype = DType::i64;

  bool is_picture() const { return input_dtype == DType::u8 && input.dim() == 3 && input_format == MemoryFormat::channels_last; }
  static ExampleSpec picture(std::int64_t channels, std::int64_t height, std::int64_t width) {
    return {.input = {channels, height, width}, .input_dtype = DType::u8, .input_format = MemoryFormat::channels_last};
  }
};

// Where one example is written to.
class Example {
 public:
  Example(const ExampleSpec& spec, void* input, void* target, ExampleRandom draws = {});

  // The elements of the input and of the target, in the order of the spec. Throw DTypeError when T is not the spec's type.
  template <class T>
  std::span<T> input() const {
    check(input_dtype_, dtype_of<T>, "input");
    return {static_cast<T*>(input_), input_elements_};
  }
  template <class T>
  std::span<T> target() const {
    check(target_dtype_, dtype_of<T>, "target");
    return {static_cast<T*>(target_), target_elements_};
  }
  void* input_data() const { return input_; }
  void* target_data() const { return target_; }
  std::size_t input_bytes() const { return input_elements_ * size_of(input_dtype_); }
  std::size_t target_bytes() const { return target_elements_ * size_of(target_dtype_); }

  // For a data set that draws random numbers itself.
  ExampleRandom random;

  // The same kind of example somewhere else.
  void move_to(void* input, void* target) { input_ = input, target_ = target; }

 private:
  static void check(DType have, DType wanted, const char* what);
  void *input_, *target_;
  std::size_t input_elements_, target_elements_;
  DType input_dtype_, target_dtype_;
};

// Inputs and targets of one or more examples: `auto [images, labels] = batch`.
struct Batch {
  Tensor inputs, targets;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  // The number of examples.
  virtual std::int64_t size() const = 0;
  virtual ExampleSpec spec() const = 0;
  // Writes example `index`, which the caller has checked to be in [0, size()). Called from several threads at once.
  virtual void read(std::int64_t index, Example& example) const = 0;
  // By label; empty where labels have no names.
  virtual const std::vector<std::string>& class_names() const;

  // One example as tensors without a batch dimension. Throws IndexError.
  Batch get(std::int64_t index) const;

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset(Dataset&&) = default;
  Dataset& operator=(const Dataset&) = default;
  Dataset& operator=(Dataset&&) = default;
};

// A data set that something works on: one that the caller keeps alive (given as a variable), or one that moves in (given as a temporary or as a
// shared_ptr).
class DatasetRef {
 public:
  DatasetRef(const Dataset& dataset) : p_(std::shared_ptr<void>(), &dataset) {}
  template <class D>
  requires(std::derived_from<D, Dataset> && !std::is_abstract_v<D> && !std::is_const_v<D> && !std::is_reference_v<D>)
      DatasetRef(D&& dataset)
      : p_(std::make_shared<const D>(std::move(dataset))) {}
  template <std::derived_from<Dataset> D>
  DatasetRef(std::shared_ptr<D> dataset) : p_(std::move(dataset)) {}

  const Dataset& operator*() const { return *p_; }
  const Dataset* operator->() const { return p_.get(); }

 private:
  std::shared_ptr<const Dataset> p_;
};

// Chosen examples of another data set, in the order given. Throws IndexError, naming the position, for an index that the data set does not have.
class Subset final : public Dataset {
 public:
  Subset(DatasetRef dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  ExampleSpec spec() const override { return dataset_->spec(); }
  void read(std::int64_t index, Example& example) const override {
    dataset_->read(indices_[static_cast<std::size_t>(index)], example);
  }
  const std::vector<std::string>& class_names() const override { return dataset_->class_names(); }
  const std::vector<std::int64_t>& indices() const { return indices_; }
  const Dataset& dataset() const { return *dataset_; }

 private:
  DatasetRef dataset_;
  std::vector<std::int64_t> indices_;
};

// Splits at random, as a function of the seed alone: random_split(data, {45000, 5000}) or, by fractions that add up to 1, {0.9, 0.1} (what rounding
// leaves over goes one each to the first parts). Throws ValueError when the sizes do not add up to the data set's.
std::vector<Subset> random_split(DatasetRef dataset, const std::vector<Scalar>& sizes, std::uint64_t seed = 0);

// Row i of `inputs` with row i of `targets`, of any types; the rows are shared with the tensors, not copied. Throws ShapeError when the
// numbers of rows differ, DeviceError outside host memory.
class TensorDataset final : public Dataset {
 public:
  TensorDataset(const Tensor& inputs, const Tensor& targets);
  std::int64_t size() const override { return inputs_.shape()[0]; }
  ExampleSpec spec() const override { return spec_; }
  void read(std::int64_t index, Example& example) const override;
  const Tensor& inputs() const { return inputs_; }
  const Tensor& targets() const { return targets_; }

 private:
  Tensor inputs_, targets_;
  ExampleSpec spec_;
};

// Pictures with labels, held in memory as they will be read: what CIFAR-10 and the synthetic set are. Copies share the pixels.
class ImageDataset : public Dataset {
 public:
  // images [N, C, H, W] u8, labels [N] i64 in [0, number of names) where there are names and not negative where there are none. Images that
  // are not channels-last in memory are copied into that order.
  ImageDataset(const Tensor& images, const Tensor& labels, std::vector<std::string> class_names = {});
  std::int64_t size() const final { return images_.shape()[0]; }
  ExampleSpec spec() const final;
  void read(std::int64_t index, Example& example) const final;
  const std::vector<std::string>& class_names() const final { return *class_names_; }

  // [N, C, H, W] u8, channels-last in memory: what a device holds to gather batches from.
  const Tensor& images() const { return images_; }
  // [N] i64
  const Tensor& labels() const { return labels_; }

 private:
  Tensor images_, labels_;
  std::shared_ptr<const std::vector<std::string>> class_names_;
};

// Reads a data set of pictures with labels into memory, on all compute threads: an ImageFolder decoded once, say. Throws DTypeError where the
// examples are something else, and what reading an example throws.
ImageDataset load_images(const Dataset& dataset);

}  // namespace spool
