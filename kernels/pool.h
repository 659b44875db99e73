// Pooling over two dimensions. x [N, C, H, W], y [N, C, OH, OW]; window (i, j) covers the rows i * stride.h - padding.h + u * dilation.h, u < kernel.h, and the
// columns likewise; positions outside of x do not take part, and every window has at least one inside. Images lie channels-last and are of one floating type;
// outputs are overwritten.
#pragma once
#include "spool/core/size2.h"
#include "spool/kernels/dispatch.h"

namespace spool::kernels {

struct PoolParams {
  Size2 kernel = 2, stride = 2, padding = 0, dilation = 1;
  bool count_include_pad = true;  // of averages: padding counts in the divisor
};

// y: the largest, NaN if there is one, else the first of equals. index [N, C, OH, OW], channels-last: its place u * kernel.w + v in the window, u8 where the kernel has at
// most 256 elements, else i32.
SPOOL_KERNEL(max_pool2d, (const Tensor& x, Tensor& y, Tensor& index, const PoolParams& p), (x, y, index, p), y)
// gx: gy at the place of each maximum, summed where windows overlap, else 0.
SPOOL_KERNEL(max_pool2d_backward, (const Tensor& gy, const Tensor& index, Tensor& gx, const PoolParams& p), (gy, index, gx, p),
             gx)
// y: x at the place of each maximum.
SPOOL_KERNEL(max_pool2d_gather, (const Tensor& x, const Tensor& index, Tensor& y, const PoolParams& p), (x, index, y, p), y)

// y: the mean of each window. With count_include_pad it is divided by the size of the window within the padded input, else by the elements inside of x.
SPOOL_KERNEL(avg_pool2d, (const Tensor& x, Tensor& y, const PoolParams& p), (x, y, p), y)
SPOOL_KERNEL(avg_pool2d_backward, (const Tensor& gy, Tensor& gx, const PoolParams& p), (gy, gx, p), gx)
// Window i of OH covers the rows floor(i * H / OH) up to ceil((i + 1) * H / OH), columns likewise.
SPOOL_KERNEL(adaptive_avg_pool2d, (const Tensor& x, Tensor& y), (x, y), y)
SPOOL_KERNEL(adaptive_avg_pool2d_backward, (const Tensor& gy, Tensor& gx), (gy, gx), gx)

}  // namespace spool::kernels
