#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "catch.h"
#include "data_support.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/core/generator.h"
#include "spool/core/parallel.h"
#include "spool/data/loader.h"

using namespace spool;
using namespace spool::test;

namespace {

// Example i is the number i, with target 10 i.
class Counting : public Dataset {
 public:
  explicit Counting(std::int64_t n) : n_(n) {}
  std::int64_t size() const override { return n_; }
  ExampleSpec spec() const override { return {.input = {}, .input_dtype = DType::i64}; }
  void read(std::int64_t index, Example& example) const override {
    if (index == faulty) throw std::runtime_error("the disk is on fire");
    example.input<std::int64_t>()[0] = index;
    example.target<std::int64_t>()[0] = 10 * index;
    ++*reads;
  }
  std::int64_t faulty = -1;
  std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);

 private:
  std::int64_t n_;
};

std::vector<std::int64_t> one_epoch(DataLoader& loader) {
  std::vector<std::int64_t> seen;
  for (const auto& [inputs, targets] : loader)
    for (const std::int64_t v : inputs.to_vector<std::int64_t>()) seen.push_back(v);
  return seen;
}

ImageDataset pictures(std::int64_t n) {
  std::vector<std::int64_t> pixels, labels;
  for (std::int64_t i = 0; i < n * 3 * 8 * 8; ++i) pixels.push_back(i * 37 % 256);
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(i % 10);
  return ImageDataset(tensor(pixels, {n, 3, 8, 8}, DType::u8), tensor(labels, {n}));
}

// Draws one number by itself.
class Drawing : public Counting {
 public:
  using Counting::Counting;
  void read(std::int64_t, Example& example) const override {
    example.input<std::int64_t>()[0] = example.random().words[0];
    example.target<std::int64_t>()[0] = 0;
  }
};

}  // namespace

TEST_CASE("Batches arrive in order, the last one short, dropped when asked", "[threads]") {
  const Counting data(10);
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(data, {.batch_size = 4, .num_workers = workers});
    CHECK(loader.size() == 3);
    std::vector<std::vector<std::int64_t>> batches;
    for (auto [inputs, targets] : loader) {
      batches.push_back(inputs.to_vector<std::int64_t>());
      CHECK(targets.shape() == inputs.shape());
      CHECK(targets.to_vector<std::int64_t>()[0] == 10 * batches.back()[0]);
    }
    CHECK(batches == std::vector<std::vector<std::int64_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
    DataLoader full(data, {.batch_size = 4, .drop_last = true, .num_workers = workers});
    CHECK(full.size() == 2);
    CHECK(one_epoch(full).size() == 8);
  }
}

TEST_CASE("An empty data set, and one smaller than a full batch, give no batches", "[threads]") {
  for (const int workers : {0, 2}) {
    DataLoader none(Counting(0), {.batch_size = 4, .shuffle = true, .num_workers = workers});
    CHECK(none.size() == 0);
    CHECK(one_epoch(none).empty());
    DataLoader small(Counting(3), {.batch_size = 4, .drop_last = true, .num_workers = workers});
    CHECK(one_epoch(small).empty());
  }
}

TEST_CASE(
    "Shuffling gives another order each epoch, by the seed alone: no worker count, other loader or generator changes it "
    "[threads]",
    "[threads]") {
  const Counting data(8), validation(5);
  std::set<std::vector<std::vector<std::int64_t>>> runs;
  for (const int workers : {0, 1, 4})
    for (const bool disturbed : {false, true}) {
      DataLoader loader(data, {.batch_size = 3, .shuffle = true, .seed = 7, .num_workers = workers});
      DataLoader other(validation, {.batch_size = 2, .shuffle = true, .seed = 7, .num_workers = workers});
      std::vector<std::vector<std::int64_t>> epochs;
      for (int e = 0; e < 3; ++e) {
        epochs.push_back(one_epoch(loader));
        if (disturbed) {
          one_epoch(other);
          manual_seed(static_cast<std::uint64_t>(e));
          rand({3});
        }
        CHECK(std::set<std::int64_t>(epochs.back().begin(), epochs.back().end()).size() == 8);
      }
      CHECK(std::set<std::vector<std::int64_t>>(epochs.begin(), epochs.end()).size() == 3);
      runs.insert(epochs);
    }
  CHECK(runs.size() == 1);
  DataLoader another(data, {.batch_size = 3, .shuffle = true, .seed = 8});
  CHECK(one_epoch(another) != runs.begin()->front());
}

TEST_CASE("set_epoch resumes at any epoch and batch", "[threads]") {
  const Counting data(50);
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 3, .num_workers = workers};
    DataLoader straight(data, options), resumed(data, options);
    one_epoch(straight);
    CHECK(straight.epoch() == 1);
    const std::vector<std::int64_t> second = one_epoch(straight), third = one_epoch(straight);
    resumed.set_epoch(1, 5);
    CHECK(one_epoch(resumed) == std::vector<std::int64_t>(second.begin() + 20, second.end()));
    CHECK(one_epoch(resumed) == third);
    resumed.set_epoch(1, 13);
    CHECK(one_epoch(resumed).empty());
    CHECK(mentions(message_of<ValueError>([&] { resumed.set_epoch(1, 14); }), {"14", "13"}));
  }
}

TEST_CASE("Random numbers of examples are all different, and the same for any number of workers", "[threads]") {
  const auto run = [](int workers) {
    DataLoader loader(Drawing(16), {.batch_size = 3, .shuffle = true, .seed = 11, .num_workers = workers});
    std::vector<std::int64_t> all;
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const std::int64_t v : one_epoch(loader)) all.push_back(v);
    return all;
  };
  const std::vector<std::int64_t> four = run(4);
  CHECK(std::set<std::int64_t>(four.begin(), four.end()).size() == 48);
  CHECK(run(4) == four);
  CHECK(run(1) == four);
  CHECK(run(0) == four);
}

TEST_CASE("Pictures arrive as floats, channels-last, normalised; augmented the same for any number of workers", "[threads]") {
  const ImageDataset data = pictures(21);
  DataLoader plain(data, {.batch_size = 8});
  for (const auto& [images, labels] : plain) {
    CHECK(images.dtype() == DType::f32);
    CHECK(images.is_contiguous(MemoryFormat::channels_last));
    CHECK(labels.dtype() == DType::i64);
  }
  const std::vector<float> first = plain.begin()->inputs.to_vector<float>();
  for (const std::size_t i : {0u, 5u, 63u, 64u, 191u, 192u, 1000u})
    CHECK(first[i] == Approx(static_cast<double>(i * 37 % 256) / 255));
  DataLoader normalised(data, {.batch_size = 21, .transform = Normalize({0.5, 0.25, 0}, {0.5, 1, 2})});
  const std::vector<float> n = normalised.begin()->inputs.to_vector<float>();
  CHECK(n[3] == Approx((111 / 255.0 - 0.5) / 0.5));
  CHECK(n[64 + 3] == Approx((67 * 37 % 256) / 255.0 - 0.25));
  CHECK(n[128 + 3] == Approx((131 * 37 % 256) / 255.0 / 2));
  CHECK(n[192 * 20 + 191] == Approx(((192 * 20 + 191) * 37 % 256) / 255.0 / 2));

  const Compose augment({RandomCrop({.size = 6, .padding = 2}), RandomHorizontalFlip(), Normalize({0.5}, {0.5})});
  std::set<std::vector<float>> results;
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(data, {.batch_size = 4, .shuffle = true, .seed = 1, .num_workers = workers, .transform = augment});
    std::vector<float> all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const auto& [images, labels] : loader) {
        CHECK((images.shape() == Shape{4, 3, 6, 6} || images.shape() == Shape{1, 3, 6, 6}));
        for (const float v : images.to_vector<float>()) all.push_back(v);
      }
    results.insert(all);
  }
  CHECK(results.size() == 1);
}

TEST_CASE("Rows of tensors are stacked in their own type and order") {
  const Tensor x = arange(2 * 2 * 3).reshape({2, 2, 3}).to(DType::f64);
  DataLoader loader(TensorDataset(x, tensor({{1, 2}, {3, 4}})), {.batch_size = 2});
  for (const auto& [inputs, targets] : loader) {
    CHECK(inputs.dtype() == DType::f64);
    CHECK(inputs.shape() == Shape{2, 2, 3});
    CHECK(inputs.to_vector<double>() == x.to_vector<double>());
    CHECK(targets.shape() == Shape{2, 2});
  }
  DataLoader empty_rows(TensorDataset(zeros({2, 0}), zeros({2})), {.batch_size = 2});
  for (const auto& [inputs, targets] : empty_rows) CHECK(inputs.shape() == Shape{2, 0});
}

TEST_CASE("An exception reaches the consumer when its batch is due, threads end, and the next epoch works", "[threads]") {
  Counting data(100);
  for (const int workers : {0, 1, 4}) {
    data.faulty = 37;
    DataLoader loader(data, {.batch_size = 8, .num_workers = workers});
    int batches = 0;
    const auto start = std::chrono::steady_clock::now();
    try {
      for (const auto& batch : loader) batches += batch.inputs.defined();
      FAIL("the exception was lost");
    } catch (const LoaderError& e) {
      CHECK(mentions(e.what(), {"example 37", "batch 4 of epoch 0", "the disk is on fire"}));
      CHECK(e.index() == 37);
      CHECK(e.batch() == 4);
      CHECK_THROWS_AS(std::rethrow_exception(e.cause()), std::runtime_error);
    }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
    CHECK(batches == 4);
    data.faulty = -1;
    const int before = *data.reads;
    batches = 0;
    for (const auto& batch : loader) batches += batch.inputs.defined();
    CHECK(batches == 13);
    CHECK(*data.reads - before == 100);  // nobody of the first epoch is still reading
  }
}

TEST_CASE("After an exception the iterator is at its end", "[threads]") {
  Counting data(10);
  data.faulty = 3;
  for (const int workers : {0, 2}) {
    DataLoader loader(data, {.batch_size = 2, .num_workers = workers});
    auto it = loader.begin();
    CHECK_THROWS_AS(++it, LoaderError);
    ++it;
    CHECK(it == loader.end());
  }
}

TEST_CASE("Leaving early, and destroying an unfinished iterator or loader, never hangs", "[threads]") {
  const Counting data(1000);
  for (int round = 0; round < 20; ++round) {
    DataLoader loader(data, {.batch_size = 3, .shuffle = true, .num_workers = round % 4, .prefetch = 1 + round % 3});
    int seen = 0;
    for (const auto& batch : loader) {
      seen += batch.inputs.defined();
      if (seen == round) break;
    }
    auto unfinished = std::make_unique<DataLoader::Iterator>(loader.begin());
    auto second = loader.begin();  // two passes at once
    CHECK(unfinished->operator->()->inputs.numel() == 3);
    unfinished.reset();
    CHECK(second->inputs.numel() == 3);
  }
  auto outlives = DataLoader(Counting(100), {.batch_size = 3, .num_workers = 2}).begin();
  for (int i = 0; i < 33; ++i) ++outlives;
  CHECK(outlives->inputs.to_vector<int>() == std::vector<int>{99});
}

TEST_CASE("Workers keep no more than prefetch batches each ahead of the consumer", "[threads]") {
  const Counting data(1000);
  DataLoader loader(data, {.batch_size = 1, .num_workers = 2, .prefetch = 3});
  auto it = loader.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(*data.reads >= 1);
  CHECK(*data.reads <= 1 + 6);
}

TEST_CASE("Batches outlive their loader, and memory of dropped ones is used again", "[threads]") {
  Batch kept;
  {
    DataLoader loader(pictures(64), {.batch_size = 32, .num_workers = 1});
    for (const auto& batch : loader) kept = batch;
  }
  CHECK(kept.inputs.to_vector<float>()[1] == Approx((32 * 192 + 1) * 37 % 256 / 255.0));
  DataLoader loader(TensorDataset(zeros({256, 4096}), zeros({256})), {.batch_size = 32, .num_workers = 1});
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& batch : loader) CHECK(batch.inputs.numel() == 32 * 4096);
  const std::uint64_t before = memory_stats().system_allocations;
  for (int epoch = 0; epoch < 10; ++epoch)
    for (const auto& batch : loader) CHECK(batch.inputs.numel() == 32 * 4096);
  CHECK(memory_stats().system_allocations - before <= 2);
}

TEST_CASE("Workers read on one thread each, without recording gradients", "[threads]") {
  class Nosy : public Counting {
   public:
    using Counting::Counting;
    void read(std::int64_t index, Example& example) const override {
      std::set<std::thread::id> ids;
      std::mutex mutex;
      parallel_for(1000, 1, [&](std::int64_t, std::int64_t) {
        std::lock_guard lock(mutex);
        ids.insert(std::this_thread::get_id());
      });
      example.input<std::int64_t>()[0] = static_cast<std::int64_t>(ids.size());
      example.target<std::int64_t>()[0] = grad_enabled();
      (void)index;
    }
  };
  const int threads = get_num_threads();
  set_num_threads(4);
  DataLoader loader(Nosy(10), {.batch_size = 5, .num_workers = 2});
  for (const auto& [inputs, targets] : loader) {
    CHECK(inputs.to_vector<int>() == std::vector<int>(5, 1));
    CHECK(targets.to_vector<int>() == std::vector<int>(5, 0));
  }
  set_num_threads(threads);
  CHECK(grad_enabled());
}

TEST_CASE("A loader refuses options out of range, and transforms that do not suit the data set") {
  const Counting data(10);
  CHECK(mentions(message_of<ValueError>([&] { DataLoader(data, {.batch_size = 0}); }), {"batch_size", "0"}));
  CHECK(mentions(message_of<ValueError>([&] { DataLoader(data, {.num_workers = -1}); }), {"num_workers", "-1"}));
  CHECK(mentions(message_of<ValueError>([&] { DataLoader(data, {.prefetch = 0}); }), {"prefetch", "0"}));
  CHECK(
      mentions(message_of<ValueError>([&] { DataLoader(data, {.transform = RandomHorizontalFlip()}); }), {"u8 pictures", "i64"}));
  CHECK_THROWS_AS(DataLoader(pictures(2), {.transform = RandomCrop({.size = 9})}), ShapeError);
  CHECK_THROWS_AS(DataLoader(pictures(2), {.transform = Normalize({0, 0}, {1, 1})}), ShapeError);
}
