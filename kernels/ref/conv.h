// Convolution, as kernels/conv.h defines it, in the plainest loops; sums are in double.
#pragma once
#include "spool/kernels/conv.h"
#include "spool/kernels/ref/view.h"

namespace spool::kernels::ref {

template <class T>
void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p) {
  const View<const T> xs(x), ws(weight);
  const View<T> ys(y);
  const T* b = bias.defined() ? static_cast<const T*>(bias.raw_data()) : nullptr;
  const std::int64_t step = bias.defined() ? bias.strides()[0] : 0;
  const Shape &in = x.shape(), &k = weight.shape(), &out = y.shape();
  const std::int64_t outputs_per_group = k[0] / p.groups;
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t o = 0; o < out[1]; ++o)
      for (std::int64_t i = 0; i < out[2]; ++i)
        for (std::int64_t j = 0; j < out[3]; ++j) {
          const std::int64_t first = o / outputs_per_group * k[1];
          double sum = b ? static_cast<double>(b[o * step]) : 0;
          for (std::int64_t u = 0; u < k[2]; ++u)
            for (std::int64_t v = 0; v < k[3]; ++v) {
              const std::int64_t h = i * p.stride.h + u * p.dilation.h - p.padding.h,
                                 w = j * p.stride.w + v * p.dilation.w - p.padding.w;
              if (h < 0 || h >= in[2] || w < 0 || w >= in[3]) continue;
              for (std::int64_t c = 0; c < k[1]; ++c)
                sum += static_cast<double>(xs(n, first + c, h, w)) * static_cast<double>(ws(o, c, u, v));
            }
          ys(n, o, i, j) = static_cast<T>(sum);
        }
}

template <class T>
void conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p) {
  const View<const T> gs(gy), ws(weight);
  const View<T> xs(gx);
  const Shape &in = gx.shape(), &k = weight.shape(), &out = gy.shape();
  const std::int64_t outputs_per_group = k[0] / p.groups;
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t c = 0; c < in[1]; ++c)
      for (std::int64_t h = 0; h < in[2]; ++h)
        for (std::int64_t w = 0; w < in[3]; ++w) {
          const std::int64_t group = c / k[1];
          double sum = 0;
          for (std::int64_t u = 0; u < k[2]; ++u)
            for (std::int64_t v = 0; v < k[3]; ++v) {
              const std::int64_t i = h + p.padding.h - u * p.dilation.h, j = w + p.padding.w - v * p.dilation.w;
              if (i < 0 || j < 0 || i % p.stride.h || j % p.stride.w || i / p.stride.h >= out[2] || j / p.stride.w >= out[3])
                continue;
              for (std::int64_t o = group * outputs_per_group; o < (group + 1) * outputs_per_group; ++o)
                sum += static_cast<double>(gs(n, o, i / p.stride.h, j / p.stride.w)) * static_cast<double>(ws(o, c % k[1], u, v));
            }
          xs(n, c, h, w) = static_cast<T>(sum);
        }
}

template <class T>
void conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p) {
  const View<const T> xs(x), gs(gy);
  const View<T> ws(gw);
  const Shape &in = x.shape(), &k = gw.shape(), &out = gy.shape();
  const std::int64_t outputs_per_group = k[0] / p.groups;
  for (std::int64_t o = 0; o < k[0]; ++o) {
    for (std::int64_t c = 0; c < k[1]; ++c)
      for (std::int64_t u = 0; u < k[2]; ++u)
        for (std::int64_t v = 0; v < k[3]; ++v) {
          const std::int64_t channel = o / outputs_per_group * k[1] + c;
          double sum = 0;
          for (std::int64_t n = 0; n < in[0]; ++n)
            for (std::int64_t i = 0; i < out[2]; ++i)
              for (std::int64_t j = 0; j < out[3]; ++j) {
                const std::int64_t h = i * p.stride.h + u * p.dilation.h - p.padding.h,
                                   w = j * p.stride.w + v * p.dilation.w - p.padding.w;
                if (h < 0 || h >= in[2] || w < 0 || w >= in[3]) continue;
                sum += static_cast<double>(xs(n, channel, h, w)) * static_cast<double>(gs(n, o, i, j));
              }
          ws(o, c, u, v) = static_cast<T>(sum);
        }
    if (!gb.defined()) continue;
    double sum = 0;
    for (std::int64_t n = 0; n < out[0]; ++n)
      for (std::int64_t i = 0; i < out[2]; ++i)
        for (std::int64_t j = 0; j < out[3]; ++j) sum += static_cast<double>(gs(n, o, i, j));
    static_cast<T*>(gb.raw_data())[o] = static_cast<T>(sum);
  }
}

}  // namespace spool::kernels::ref
