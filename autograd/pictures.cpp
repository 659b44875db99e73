#include "spool/autograd/pictures.h"

#include "spool/autograd/ops/checks.h"
#include "spool/core/errors.h"

namespace spool {

std::pair<Tensor, Tensor> gather_pictures(const Tensor& pictures, const Tensor& labels, const Tensor& order, Size2 size,
                                          const PictureParams& params) {
  const char* op = "gather_pictures";
  detail::check_dims(op, "pictures", pictures, 4, "[N, C, H, W]");
  if (pictures.dtype() != DType::u8 || labels.dtype() != DType::i64 || order.dtype() != DType::i64)
    throw DTypeError(op, "pictures are u8, labels and their order i64",
                     {{"pictures", pictures}, {"labels", labels}, {"order", order}});
  if (labels.shape() != Shape{pictures.shape()[0]} || order.dim() != 1 || pictures.shape()[1] > PictureParams::kMaxChannels)
    throw ShapeError(op, "labels are [N], one for each picture, order is [B], and a picture has at most 4 channels",
                     {{"pictures", pictures}, {"labels", labels}, {"order", order}});
  if (labels.device() != pictures.device() || order.device() != pictures.device())
    throw DeviceError(op, "pictures, labels and order are on different devices: move them with to(device)",
                      {{"pictures", pictures}, {"labels", labels}, {"order", order}});
  if (!pictures.is_contiguous(MemoryFormat::channels_last) || !labels.is_contiguous() || !order.is_contiguous())
    throw ShapeError(op, "pictures must lie channels-last and the rest row-major: use contiguous()", {{"pictures", pictures}});
  const Device device = pictures.device();
  Tensor inputs = empty({order.numel(), pictures.shape()[1], size.h, size.w}, {.device = device}, MemoryFormat::channels_last);
  Tensor targets = empty({order.numel()}, {.dtype = DType::i64, .device = device});
  kernels::gather_pictures(pictures, labels, order, params, inputs, targets);
  return {std::move(inputs), std::move(targets)};
}

}  // namespace spool
