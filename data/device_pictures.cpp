#include "spool/data/device_pictures.h"

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/data/random.h"

namespace spool {
namespace {

// The stream of ExampleRandom's numbers for one drawer.
Generator::Draw draw_of(std::uint64_t seed, std::uint64_t epoch, std::uint32_t drawer) {
  return {seed ^ ExampleRandom::kKey, (epoch << 32) | (std::uint64_t{drawer} << 16)};
}

}  // namespace

std::shared_ptr<const DevicePictures> DevicePictures::make(const Dataset& dataset, const Transform& transform, std::uint64_t seed,
                                                           Device device) {
  const auto* images = dynamic_cast<const ImageDataset*>(&dataset);
  if (!images || images->images().shape()[1] > PictureParams::kMaxChannels) return nullptr;
  auto made = std::make_shared<DevicePictures>();
  const Shape& shape = images->images().shape();
  made->size_ = {shape[2], shape[3]};
  made->seed_ = seed;
  std::vector<Transform> steps;
  if (transform) {
    const auto* all = dynamic_cast<const Compose*>(&*transform);
    steps = all ? all->transforms() : std::vector<Transform>{transform};
  }
  const Normalize* normalize = nullptr;
  std::uint32_t drawer = 1;  // 0 is the data set itself
  for (const Transform& step : steps) {
    if (const auto* crop = dynamic_cast<const RandomCrop*>(&*step); crop && !made->params_.crops) {
      made->params_.crops = true;
      made->params_.padding = crop->options().padding;
      made->params_.fill = crop->options().fill;
      made->params_.flips_first = made->flip_drawer_ != 0;
      made->size_ = crop->options().size;
      made->crop_drawer_ = drawer;
    } else if (const auto* flip = dynamic_cast<const RandomHorizontalFlip*>(&*step); flip && !made->flip_drawer_) {
      made->params_.flip_probability = flip->p();
      made->flip_drawer_ = drawer;
    } else if (step->normalize()) {
      normalize = step->normalize();
    } else {
      return nullptr;
    }
    ++drawer;
  }
  for (std::int64_t c = 0; c < shape[1]; ++c) {
    double mean = 0, std = 1;
    if (normalize) {
      const std::size_t at = normalize->mean().size() == 1 ? 0 : static_cast<std::size_t>(c);
      mean = normalize->mean()[at], std = normalize->std()[at];
    }
    made->params_.scale[c] = static_cast<float>(1 / (255 * std));
    made->params_.shift[c] = static_cast<float>(-mean / std);
  }
  NoGrad guard;
  made->pictures_ = images->images().to(device);
  made->labels_ = images->labels().to(device);
  return made;
}

Tensor DevicePictures::to_device(const std::vector<std::int64_t>& order) const {
  return tensor(std::span<const std::int64_t>(order), {static_cast<std::int64_t>(order.size())}, DType::i64, pictures_.device());
}

Batch DevicePictures::gather(const Tensor& order, std::uint64_t epoch) const {
  PictureParams params = params_;
  params.crop = draw_of(seed_, epoch, crop_drawer_);
  params.flip = draw_of(seed_, epoch, flip_drawer_);
  auto [inputs, targets] = gather_pictures(pictures_, labels_, order, size_, params);
  return {std::move(inputs), std::move(targets)};
}

}  // namespace spool
