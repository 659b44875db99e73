#include "spool/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "spool/autograd/grad_mode.h"
#include "spool/core/parallel.h"
#include "spool/data/batch_maker.h"
#include "spool/data/device_pictures.h"
#include "spool/data/shuffle.h"

namespace spool {

LoaderError::LoaderError(std::int64_t index, std::int64_t batch, std::uint64_t epoch, const std::string& why)
    : Error("DataLoader", fmt::format("example {} (batch {} of epoch {}): {}", index, batch, epoch, why)),
      index_(index),
      batch_(batch),
      epoch_(epoch),
      cause_(std::current_exception()) {}

// One pass through the data set. Workers take the numbers of batches in order and leave the results in a ring of slots; the consumer empties the
// slots in order, and a worker waits until its slot is free.
class LoaderEpoch {
 public:
  LoaderEpoch(std::shared_ptr<const BatchMaker> maker, std::shared_ptr<const DevicePictures> on_device,
              const DataLoaderOptions& options, std::uint64_t epoch, std::int64_t first_batch, std::int64_t batches)
      : maker_(std::move(maker)),
        on_device_(std::move(on_device)),
        device_(options.device),
        epoch_(epoch),
        batch_size_(options.batch_size),
        batches_(batches),
        started_(first_batch),
        taken_(first_batch) {
    if (options.shuffle) {
      order_ = shuffled_indices(maker_->dataset().size(), options.seed, epoch);
    } else {
      order_.resize(static_cast<std::size_t>(maker_->dataset().size()));
      std::iota(order_.begin(), order_.end(), std::int64_t{0});
    }
    if (on_device_) {
      device_order_ = on_device_->to_device(order_);
      return;
    }
    const auto workers = std::min<std::int64_t>(options.num_workers, batches_ - first_batch);
    slots_.resize(static_cast<std::size_t>(std::max<std::int64_t>(workers, 0) * options.prefetch));
    try {
      for (std::int64_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& e) {
      stop();
      throw ValueError("DataLoader", fmt::format("could not start worker thread {} of {}: {}; use fewer workers",
                                                 threads_.size() + 1, workers, e.what()));
    }
  }
  ~LoaderEpoch() { stop(); }
  LoaderEpoch(const LoaderEpoch&) = delete;
  LoaderEpoch& operator=(const LoaderEpoch&) = delete;

  // The next batch, or nothing behind the last one. The workers have ended when this returns nothing or throws.
  bool next(Batch& batch) {
    batch = {};  // its memory may serve the one in the making
    if (taken_ == batches_) {
      stop();
      return false;
    }
    if (slots_.empty()) {
      NoGrad no_grad;
      const std::int64_t number = std::exchange(taken_, batches_);  // stays so if this throws
      batch = moved(make(number, scratch_));
      taken_ = number + 1;
      return true;
    }
    Slot slot;
    {
      std::unique_lock lock(mutex_);
      Slot& due = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
      ready_.wait(lock, [&] { return due.full; });
      slot = std::exchange(due, {});
      ++taken_;
    }
    room_.notify_one();
    if (slot.error) {
      stop();
      taken_ = batches_;
      std::rethrow_exception(slot.error);
    }
    batch = moved(std::move(slot.batch));
    return true;
  }

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr error;
    bool full = false;
  };

  Batch make(std::int64_t number, Picture& scratch) const {
    const auto from = static_cast<std::size_t>(number * batch_size_);
    const std::size_t count = std::min(static_cast<std::size_t>(batch_size_), order_.size() - from);
    if (on_device_)
      return on_device_->gather(device_order_.narrow(0, static_cast<std::int64_t>(from), static_cast<std::int64_t>(count)),
                                epoch_);
    return maker_->make(std::span(order_).subspan(from, count), epoch_, number, scratch);
  }

  Batch moved(Batch batch) const {
    NoGrad no_grad;
    return {batch.inputs.to(device_), batch.targets.to(device_)};
  }

  void work() {
    SingleThreaded alone;  // the cores belong to the training step
    NoGrad no_grad;
    Picture scratch;
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] {
        return stopping_ || started_ == batches_ || started_ < taken_ + static_cast<std::int64_t>(slots_.size());
      });
      if (stopping_ || started_ == batches_) return;
      const std::int64_t number = started_++;
      lock.unlock();
      Slot made;
      made.full = true;
      try {
        made.batch = make(number, scratch);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      slots_[static_cast<std::size_t>(number) % slots_.size()] = std::move(made);
      ready_.notify_one();
    }
  }

  void stop() noexcept {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& t : threads_)
      if (t.joinable()) t.join();
  }

  const std::shared_ptr<const BatchMaker> maker_;
  const std::shared_ptr<const DevicePictures> on_device_;
  Tensor device_order_;  // where on_device_ is
  const Device device_;
  const std::uint64_t epoch_;
  const std::int64_t batch_size_, batches_;
  std::vector<std::int64_t> order_;
  Picture scratch_;

  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::vector<Slot> slots_;       // batch k is left in slot k modulo their number
  std::int64_t started_, taken_;  // batches given to workers, and to the consumer
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

DataLoader::DataLoader(DatasetRef dataset, DataLoaderOptions options) : options_(std::move(options)) {
  const auto& o = options_;
  if (o.batch_size < 1) throw ValueError("DataLoader", fmt::format("batch_size must be at least 1, not {}", o.batch_size));
  if (o.num_workers < 0 || o.num_workers > 256)
    throw ValueError("DataLoader", fmt::format("num_workers must be 0 to 256, not {}", o.num_workers));
  if (o.prefetch < 1 || o.prefetch > 1024)
    throw ValueError("DataLoader", fmt::format("prefetch must be 1 to 1024, not {}", o.prefetch));
  check_usable(o.device);
  maker_ = std::make_shared<const BatchMaker>(std::move(dataset), o.transform, o.seed);
  if (o.device.is_cuda()) on_device_ = DevicePictures::make(maker_->dataset(), o.transform, o.seed, o.device);
}

std::int64_t DataLoader::size() const {
  const std::int64_t n = dataset().size();
  return n / options_.batch_size + (!options_.drop_last && n % options_.batch_size ? 1 : 0);
}

const Dataset& DataLoader::dataset() const { return maker_->dataset(); }

void DataLoader::set_epoch(std::uint64_t epoch, std::int64_t first_batch) {
  if (first_batch < 0 || first_batch > size())
    throw ValueError("DataLoader", fmt::format("there is no batch {}: an epoch has {}", first_batch, size()));
  epoch_ = epoch;
  first_batch_ = first_batch;
}

DataLoader::Iterator DataLoader::begin() {
  const std::uint64_t epoch = epoch_++;
  const std::int64_t first = std::exchange(first_batch_, 0);
  return Iterator(std::make_unique<LoaderEpoch>(maker_, on_device_, options_, epoch, first, size()));
}

DataLoader::Iterator::Iterator(std::unique_ptr<LoaderEpoch> epoch) : epoch_(std::move(epoch)) { ++*this; }
DataLoader::Iterator::Iterator(Iterator&&) noexcept = default;
DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&&) noexcept = default;
DataLoader::Iterator::~Iterator() = default;

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  done_ = !epoch_->next(batch_);
  return *this;
}

}  // namespace spool
