// DataLoader: batches of a data set, read ahead by worker threads.
//
//   DataLoader train(Cifar10(path), {.batch_size = 128, .shuffle = true, .num_workers = 1, .transform = augment});
//   for (int epoch = 0; epoch < 5; ++epoch)
//     for (auto [images, labels] : train) ...
//
// Pictures arrive as f32 [N, C, H, W], channels-last in memory, as pixel / 255 or as the transform's Normalize says; other inputs arrive
// stacked, in their own type. Order and contents depend on the data set, the options and the epoch's number alone, not on num_workers or prefetch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "spool/core/errors.h"
#include "spool/data/dataset.h"
#include "spool/data/transforms.h"

namespace spool {

// Reading or transforming an example failed: the text says which one and why, cause() is what was thrown.
class LoaderError : public Error {
 public:
  // Made inside the handler of what was thrown.
  LoaderError(std::int64_t index, std::int64_t batch, std::uint64_t epoch, const std::string& why);
  std::int64_t index() const noexcept { return index_; }  // in the data set
  std::int64_t batch() const noexcept { return batch_; }
  std::uint64_t epoch() const noexcept { return epoch_; }
  const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  std::int64_t index_, batch_;
  std::uint64_t epoch_;
  std::exception_ptr cause_;
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;    // a new order in each epoch
  std::uint64_t seed = 0;  // of the order and of random transforms
  bool drop_last = false;  // leave out a last batch that is not full
  int num_workers = 0;     // threads that read ahead, each on one core; 0 reads in the calling thread, when a batch is due
  int prefetch = 2;        // batches per worker that may be ready or in the making
  Transform transform = {};
  // Where batches arrive. An ImageDataset with crops, flips and Normalize moves to a CUDA device as a whole, and its batches are gathered there, by no worker; other batches are
  // made on the host and copied.
  Device device = Device::cpu();
};

class BatchMaker;
class DevicePictures;
class LoaderEpoch;

class DataLoader {
 public:
  // Throws ValueError for options out of range, and ShapeError or ValueError where the transform does not suit the data set. A data set given as
  // a variable must outlive the loader.
  explicit DataLoader(DatasetRef dataset, DataLoaderOptions options = {});

  // Goes through one epoch. Moving on may throw LoaderError, when the batch that failed is due; the workers have ended by then, and the next
  // begin() starts afresh. Leaving early, destroying the iterator or the loader ends them too.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(std::unique_ptr<LoaderEpoch> epoch);
    Iterator(Iterator&&) noexcept;
    Iterator& operator=(Iterator&&) noexcept;
    ~Iterator();
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return done_; }

   private:
    std::unique_ptr<LoaderEpoch> epoch_;
    Batch batch_;
    bool done_ = false;
  };

  // Starts epoch number epoch(), and counts it: the next begin() starts the one after.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  // Batches in an epoch; none when the data set is empty, or when drop_last leaves none.
  std::int64_t size() const;
  const Dataset& dataset() const;
  const DataLoaderOptions& options() const { return options_; }

  // The number of the epoch that begin() will start; 0 at first.
  std::uint64_t epoch() const { return epoch_; }
  // Resumes: begin() will start `epoch`, leaving out its first `first_batch` batches. Throws ValueError for one that it does not have.
  void set_epoch(std::uint64_t epoch, std::int64_t first_batch = 0);

 private:
  std::shared_ptr<const BatchMaker> maker_;
  std::shared_ptr<const DevicePictures> on_device_;  // null where batches are made on the host
  DataLoaderOptions options_;
  std::uint64_t epoch_ = 0;
  std::int64_t first_batch_ = 0;
};

}  // namespace spool
