// Batches gathered from pictures that are held in memory; what a loader with a device does (data/loader.h). Not differentiable.
#pragma once
#include <utility>

#include "spool/kernels/pictures.h"

namespace spool {

using kernels::PictureParams;

// Inputs [B, C, h, w] f32, channels-last, and targets [B] of the pictures [N, C, H, W] u8, channels-last, and labels [N] i64 that order [B] i64, 0 .. N-1, names; all on one
// device. Throws ShapeError or DTypeError where they do not fit.
std::pair<Tensor, Tensor> gather_pictures(const Tensor& pictures, const Tensor& labels, const Tensor& order, Size2 size,
                                          const PictureParams& params);

}  // namespace spool
