// Each kernel: oneDNN where it can, else Eigen for f32, else the reference loops.
#include "spool/kernels/conv.h"

#include "spool/kernels/cpu/conv_eigen.h"
#include "spool/kernels/cpu/onednn.h"
#include "spool/kernels/ref/conv.h"

namespace spool::kernels::cpu {

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p) {
  if (onednn::conv2d(x, weight, bias, y, p)) return;
  if (y.dtype() == DType::f32) return eigen::conv2d(x, weight, bias, y, p);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) { ref::conv2d<T>(x, weight, bias, y, p); });
}

void conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p) {
  if (onednn::conv2d_input_grad(gy, weight, gx, p)) return;
  if (gx.dtype() == DType::f32) return eigen::conv2d_input_grad(gy, weight, gx, p);
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) { ref::conv2d_input_grad<T>(gy, weight, gx, p); });
}

void conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p) {
  if (onednn::conv2d_weight_grad(x, gy, gw, gb, p)) return;
  if (gw.dtype() == DType::f32) return eigen::conv2d_weight_grad(x, gy, gw, gb, p);
  visit_floating(gw.dtype(), [&]<class T>(TypeTag<T>) { ref::conv2d_weight_grad<T>(x, gy, gw, gb, p); });
}

}  // namespace spool::kernels::cpu
