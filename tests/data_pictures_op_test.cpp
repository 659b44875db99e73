// The gathering of pictures on the host, which is what a device is compared with: against the loader's own way of making a batch.
#include "spool/autograd/pictures.h"
#include "spool/data/device_pictures.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("Gathered pictures are the loader's") {
  Generator g(6);
  const ImageDataset data(randint(0, 256, {12, 3, 6, 5}, {.dtype = u8}, g).contiguous(MemoryFormat::channels_last),
                          randint(0, 10, {12}, {.dtype = i64}, g));
  const Compose transform({RandomHorizontalFlip(), RandomCrop({.size = 4, .padding = 2, .fill = 77}), Normalize({0.4}, {0.2})});
  DataLoader loader(data, {.batch_size = 12, .seed = 5, .transform = transform});
  const auto resident = DevicePictures::make(data, transform, 5, Device::cpu());
  REQUIRE(resident);
  std::vector<std::int64_t> order(12);
  for (std::size_t i = 0; i < 12; ++i) order[i] = static_cast<std::int64_t>(i);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const Batch got = resident->gather(resident->to_device(order), epoch);
    for (const Batch& want : loader) {
      CHECK(abs(got.inputs - want.inputs).max().item() < 1e-5f);
      CHECK(got.targets.to_vector<std::int64_t>() == want.targets.to_vector<std::int64_t>());
    }
  }
  CHECK_FALSE(DevicePictures::make(data, Cutout({.size = 2}), 0, Device::cpu()));
}

TEST_CASE("Gathering names what does not fit") {
  const Tensor pictures = zeros({2, 3, 4, 4}, {.dtype = u8}).contiguous(MemoryFormat::channels_last), labels = zeros({2}, {.dtype = i64});
  const PictureParams p;
  CHECK_THROWS_AS(gather_pictures(pictures.to(f32), labels, labels, 4, p), DTypeError);
  CHECK_THROWS_AS(gather_pictures(pictures, zeros({3}, {.dtype = i64}), labels, 4, p), ShapeError);
  CHECK_THROWS_AS(gather_pictures(pictures.contiguous(), labels, labels, 4, p), ShapeError);
  CHECK_THROWS_AS(gather_pictures(pictures.select(0, 0), labels, labels, 4, p), ShapeError);
}
