// Batches on a device: a data set that lives there gives the batches that the host would make.
#include "cuda_support.h"

using namespace spool;
using namespace spool::test;

namespace {

ImageDataset pictures(std::int64_t n, std::int64_t channels = 3) {
  Generator g(6);
  return ImageDataset(randint(0, 256, {n, channels, 9, 7}, {.dtype = u8}, g).contiguous(MemoryFormat::channels_last),
                      randint(0, 10, {n}, {.dtype = i64}, g));
}

struct Difference {
  double inputs = 0;
  std::int64_t batches = 0, bytes = 0;
};

// Two epochs on the device beside two on the host.
Difference compare(const Dataset& data, const Transform& transform, int workers) {
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 3, .num_workers = workers, .transform = transform};
  DataLoader host(data, options);
  options.device = gpu;
  DataLoader device(data, options);
  Difference d;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto it = device.begin();
    for (const Batch& want : host) {
      const auto before = cuda_work().bytes_to_device;
      const Batch got = *it;
      CHECK(got.inputs.device() == gpu);
      CHECK(got.inputs.strides() == want.inputs.strides());
      d.inputs = std::max(d.inputs, abs(got.inputs.to(Device::cpu()) - want.inputs).max().item<double>());
      CHECK(got.targets.to_vector<std::int64_t>() == want.targets.to_vector<std::int64_t>());
      ++it;
      if (it != device.end()) d.bytes += static_cast<std::int64_t>(cuda_work().bytes_to_device - before);
      ++d.batches;
    }
    CHECK(it == device.end());
  }
  return d;
}

}  // namespace

TEST_CASE("A data set on a device is cropped, flipped and normalised as on the host") {
  SPOOL_NEED_CUDA();
  const ImageDataset data = pictures(37);
  const RandomCrop crop({.size = {8, 6}, .padding = {3, 2}, .fill = 9});
  for (const Transform& t : {Transform(), Transform(Normalize({0.5}, {0.25})), Transform(crop), Transform(RandomHorizontalFlip()),
                             Transform(Compose({crop, RandomHorizontalFlip(), Normalize({0.1, 0.2, 0.3}, {0.5, 0.6, 0.7})})),
                             Transform(Compose({RandomHorizontalFlip(0.3), crop}))}) {
    const Difference d = compare(data, t, 0);
    CHECK(d.batches == 10);
    CHECK(d.inputs < 1e-6);
    CHECK(d.bytes == 0);  // nothing but the epoch's order crosses over
  }
  CHECK(compare(pictures(9, 1), RandomHorizontalFlip(), 0).inputs < 1e-6);
}

TEST_CASE("What a device cannot transform is made by the workers and copied") {
  SPOOL_NEED_CUDA();
  const Difference d = compare(pictures(20), Compose({Cutout({.size = 3}), RandomHorizontalFlip()}), 2);
  CHECK(d.inputs == 0);
  CHECK(d.bytes > 0);
  Generator g(1);
  const TensorDataset rows(randn({10, 4}, {}, g), arange(0, 10));
  DataLoader loader(rows, {.batch_size = 5, .device = gpu});
  for (const auto& [x, y] : loader) CHECK((x.is_cuda() && y.is_cuda()));
}
