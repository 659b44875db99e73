// A block for each picture of the batch: its threads share the window and go over its numbers in memory order.
#include "spool/kernels/pictures.h"

#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels::cuda {
namespace {

struct Sizes {
  std::int64_t c, h, w, out_h, out_w;
};

__global__ void __launch_bounds__(kThreads)
    gather_pictures_kernel(const std::uint8_t* pictures, const std::int64_t* labels, const std::int64_t* order, PictureParams p,
                           Sizes s, float* inputs, std::int64_t* targets) {
  const std::int64_t index = order[blockIdx.x];
  const PictureWindow at(p, static_cast<std::uint64_t>(index), s.h, s.w, s.out_h, s.out_w);
  if (threadIdx.x == 0) targets[blockIdx.x] = labels[index];
  const std::int64_t row_size = s.out_w * s.c, n = s.out_h * row_size;
  const std::uint8_t* picture = pictures + index * s.h * s.w * s.c;
  float* out = inputs + blockIdx.x * n;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    out[i] = picture_value(p, at, picture, s.h, s.w, s.c, s.out_w, i / row_size, i % row_size / s.c, i % s.c);
}

}  // namespace

void gather_pictures(const Tensor& pictures, const Tensor& labels, const Tensor& order, const PictureParams& p, Tensor& inputs,
                     Tensor& targets) {
  if (order.numel() == 0) return;
  const std::size_t read = static_cast<std::size_t>(inputs.numel());
  Context& c = begin("gather_pictures", inputs.device().index,
                     read + spool::cuda::bytes_of(inputs) + spool::cuda::bytes_of(order) + 2 * spool::cuda::bytes_of(targets));
  const Sizes s{pictures.shape()[1], pictures.shape()[2], pictures.shape()[3], inputs.shape()[2], inputs.shape()[3]};
  launch(c, gather_pictures_kernel, static_cast<unsigned>(order.numel()), kThreads, data<const std::uint8_t>(pictures),
         data<const std::int64_t>(labels), data<const std::int64_t>(order), p, s, data<float>(inputs),
         data<std::int64_t>(targets));
}

}  // namespace spool::kernels::cuda
