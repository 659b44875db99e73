#include "spool/kernels/cuda/conv_direct.cuh"

#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels::cuda::direct {
namespace {

// A tensor of four dimensions by index, whatever its strides.
template <class T>
struct View {
  T* data;
  std::int64_t size[4], stride[4];
  explicit View(const Tensor& t) : data(static_cast<T*>(t.raw_data())) {
    for (int d = 0; d < 4; ++d) {
      size[d] = t.shape()[d];
      stride[d] = t.strides()[d];
    }
  }
  __device__ T& operator()(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return data[a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3]];
  }
  std::int64_t numel() const { return size[0] * size[1] * size[2] * size[3]; }
  // Element i, the second dimension innermost.
  struct Place {
    std::int64_t a, b, c, d;
  };
  __device__ Place place(std::int64_t i) const {
    return {i / size[1] / size[3] / size[2], i % size[1], i / size[1] / size[3] % size[2], i / size[1] % size[3]};
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) forward_kernel(View<const T> x, View<const T> weight, const T* bias,
                                                           std::int64_t bias_step, View<T> y, std::int64_t n, ConvParams p) {
  const std::int64_t outputs_per_group = weight.size[0] / p.groups;
  for (std::int64_t index = first_index(); index < n; index += index_step()) {
    const auto [image, o, i, j] = y.place(index);
    const std::int64_t first = o / outputs_per_group * weight.size[1];
    double sum = bias ? static_cast<double>(bias[o * bias_step]) : 0;
    for (std::int64_t u = 0; u < weight.size[2]; ++u)
      for (std::int64_t v = 0; v < weight.size[3]; ++v) {
        const std::int64_t h = i * p.stride.h + u * p.dilation.h - p.padding.h,
                           w = j * p.stride.w + v * p.dilation.w - p.padding.w;
        if (h < 0 || h >= x.size[2] || w < 0 || w >= x.size[3]) continue;
        for (std::int64_t c = 0; c < weight.size[1]; ++c)
          sum += static_cast<double>(x(image, first + c, h, w)) * static_cast<double>(weight(o, c, u, v));
      }
    y(image, o, i, j) = static_cast<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    input_grad_kernel(View<const T> g, View<const T> weight, View<T> gx, std::int64_t n, ConvParams p) {
  const std::int64_t outputs_per_group = weight.size[0] / p.groups;
  for (std::int64_t index = first_index(); index < n; index += index_step()) {
    const auto [image, c, h, w] = gx.place(index);
    const std::int64_t group = c / weight.size[1];
    double sum = 0;
    for (std::int64_t u = 0; u < weight.size[2]; ++u)
      for (std::int64_t v = 0; v < weight.size[3]; ++v) {
        const std::int64_t i = h + p.padding.h - u * p.dilation.h, j = w + p.padding.w - v * p.dilation.w;
        if (i < 0 || j < 0 || i % p.stride.h || j % p.stride.w || i / p.stride.h >= g.size[2] || j / p.stride.w >= g.size[3])
          continue;
        for (std::int64_t o = group * outputs_per_group; o < (group + 1) * outputs_per_group; ++o)
          sum += static_cast<double>(g(image, o, i / p.stride.h, j / p.stride.w)) *
                 static_cast<double>(weight(o, c % weight.size[1], u, v));
      }
    gx(image, c, h, w) = static_cast<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    weight_grad_kernel(View<const T> x, View<const T> g, View<T> gw, std::int64_t n, ConvParams p) {
  const std::int64_t outputs_per_group = gw.size[0] / p.groups;
  for (std::int64_t index = first_index(); index < n; index += index_step()) {
    const auto [o, c, u, v] = gw.place(index);
    const std::int64_t channel = o / outputs_per_group * gw.size[1] + c;
    double sum = 0;
    for (std::int64_t image = 0; image < x.size[0]; ++image)
      for (std::int64_t i = 0; i < g.size[2]; ++i)
        for (std::int64_t j = 0; j < g.size[3]; ++j) {
          const std::int64_t h = i * p.stride.h + u * p.dilation.h - p.padding.h,
                             w = j * p.stride.w + v * p.dilation.w - p.padding.w;
          if (h < 0 || h >= x.size[2] || w < 0 || w >= x.size[3]) continue;
          sum += static_cast<double>(x(image, channel, h, w)) * static_cast<double>(g(image, o, i, j));
        }
    gw(o, c, u, v) = static_cast<T>(sum);
  }
}

}  // namespace

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p) {
  Context& c = begin("conv2d", {&x, &weight, &bias, &y});
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, forward_kernel<T>, grid_for(c, y.numel()), kThreads, View<const T>(x), View<const T>(weight), data<const T>(bias),
           bias.defined() ? bias.strides()[0] : 0, View<T>(y), y.numel(), p);
  });
}

void conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p) {
  Context& c = begin("conv2d", {&gy, &weight, &gx});
  visit_floating(gx.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, input_grad_kernel<T>, grid_for(c, gx.numel()), kThreads, View<const T>(gy), View<const T>(weight), View<T>(gx),
           gx.numel(), p);
  });
}

void conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, const ConvParams& p) {
  Context& c = begin("conv2d", {&x, &gy, &gw});
  visit_floating(gw.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, weight_grad_kernel<T>, grid_for(c, gw.numel()), kThreads, View<const T>(x), View<const T>(gy), View<T>(gw),
           gw.numel(), p);
  });
}

}  // namespace spool::kernels::cuda::direct
