// A data set of pictures that lives on a device, and batches of it made there; what a loader with a device uses where it can. Internal.
#pragma once
#include <memory>
#include <optional>

#include "spool/autograd/pictures.h"
#include "spool/data/dataset.h"
#include "spool/data/transforms.h"

namespace spool {

class DevicePictures {
 public:
  // Null where batches cannot be made on a device: for data sets other than an ImageDataset, and transforms other than one RandomCrop, one RandomHorizontalFlip and one Normalize
  // in a Compose.
  static std::shared_ptr<const DevicePictures> make(const Dataset& dataset, const Transform& transform, std::uint64_t seed,
                                                    Device device);

  // The epoch's order, moved to the device.
  Tensor to_device(const std::vector<std::int64_t>& order) const;
  // The pictures that `order` names, transformed as BatchMaker does it; a device may round the last bit of a number differently.
  Batch gather(const Tensor& order, std::uint64_t epoch) const;

 private:
  Tensor pictures_, labels_;
  Size2 size_ = 0;
  PictureParams params_;
  std::uint64_t seed_ = 0;
  std::uint32_t crop_drawer_ = 0, flip_drawer_ = 0;
};

}  // namespace spool
