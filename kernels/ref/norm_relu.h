// Batch norm with ReLU and max-pooling, as kernels/norm_relu.h defines them: one after the other.
#pragma once
#include "spool/kernels/norm_relu.h"
#include "spool/kernels/ref/norm.h"
#include "spool/kernels/ref/pool.h"

namespace spool::kernels::ref {

inline PoolParams side_by_side(Size2 kernel) { return {.kernel = kernel, .stride = kernel}; }

template <class T>
void batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& mean, const Tensor& inv_std, const Tensor& weight,
                     const Tensor& bias, Tensor& y) {
  batch_norm_apply<T>(x, mean, inv_std, weight, bias, y);
  T* values = static_cast<T*>(y.raw_data());
  const T* more = residual.defined() ? static_cast<const T*>(residual.raw_data()) : nullptr;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    if (more) values[i] = static_cast<T>(values[i] + more[i]);
    if (values[i] <= T(0)) values[i] = T(0);
  }
}

template <class T>
void batch_norm_relu_backward(const Tensor& x, const Tensor& y, const Tensor& gy, const Tensor& weight, const Tensor& mean,
                              const Tensor& inv_std, bool training, Tensor& gx, Tensor& gw, Tensor& gb, Tensor& gresidual) {
  const Tensor passed = gresidual.defined() ? gresidual : empty_like(gy);
  const T *values = static_cast<const T*>(y.raw_data()), *g = static_cast<const T*>(gy.raw_data());
  for (std::int64_t i = 0; i < y.numel(); ++i) static_cast<T*>(passed.raw_data())[i] = values[i] <= T(0) ? T(0) : g[i];
  batch_norm_backward<T>(x, passed, weight, mean, inv_std, training, gx, gw, gb);
}

template <class T>
void batch_norm_relu_pool(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias,
                          Size2 kernel, Tensor& y, Tensor& index) {
  Tensor all = empty_like(x);
  batch_norm_relu<T>(x, {}, mean, inv_std, weight, bias, all);
  max_pool2d<T, std::uint8_t>(all, y, index, side_by_side(kernel));
  for (std::int64_t i = 0; i < y.numel(); ++i)
    if (static_cast<const T*>(y.raw_data())[i] <= T(0)) static_cast<std::uint8_t*>(index.raw_data())[i] = kNoMaximum;
}

template <class T>
void batch_norm_relu_pool_backward(const Tensor& x, const Tensor& index, const Tensor& gy, const Tensor& weight,
                                   const Tensor& mean, const Tensor& inv_std, bool training, Size2 kernel, Tensor& gx, Tensor& gw,
                                   Tensor& gb) {
  Tensor all = empty_like(x);
  max_pool2d_backward<T, std::uint8_t>(gy, index, all, side_by_side(kernel));
  batch_norm_backward<T>(x, all, weight, mean, inv_std, training, gx, gw, gb);
}

}  // namespace spool::kernels::ref
