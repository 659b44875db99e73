// Tutorial 04: convolution, pooling and batch norm, from formula to kernel to gradient check. README.md quotes this file.
#include <spool/spool.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <vector>

using namespace spool;

namespace {

// [elements]
// A tensor's elements by index, wherever they lie. All loops below are for f64.
struct Elements {
  double* first;
  Strides strides;
  explicit Elements(const Tensor& t) : first(t.data<double>()), strides(t.strides()) {}
  double& operator()(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return first[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};
// [/elements]

// [geometry]
// Calls f(n, o, i, j, c, u, v, h, w) for every product in a convolution: y[n, o, i, j] has a term weight[o, c, u, v] * x[n, c, h, w].
template <class F>
void for_each_product(const Shape& x, const Shape& weight, const Shape& y, std::int64_t stride, std::int64_t padding,
                      const F& f) {
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t o = 0; o < y[1]; ++o)
      for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t j = 0; j < y[3]; ++j)
          for (std::int64_t c = 0; c < weight[1]; ++c)
            for (std::int64_t u = 0; u < weight[2]; ++u)
              for (std::int64_t v = 0; v < weight[3]; ++v) {
                const std::int64_t h = i * stride + u - padding, w = j * stride + v - padding;
                if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) f(n, o, i, j, c, u, v, h, w);
              }
}
// [/geometry]

// [conv]
struct PlainConv : Function<PlainConv> {
  static constexpr const char* name = "plain_conv";
  static constexpr std::int64_t stride = 2, padding = 1;

  static Tensor forward(FunctionContext& ctx, const Tensor& x, const Tensor& weight) {
    ctx.save("x", x);
    ctx.save("weight", weight);
    const auto size = [](std::int64_t in, std::int64_t kernel) { return (in + 2 * padding - kernel) / stride + 1; };
    const Tensor y =
        zeros({x.size(0), weight.size(0), size(x.size(2), weight.size(2)), size(x.size(3), weight.size(3))}, {.dtype = f64});
    const Elements xs(x), ws(weight), ys(y);
    for_each_product(x.shape(), weight.shape(), y.shape(), stride, padding,
                     [&](auto n, auto o, auto i, auto j, auto c, auto u, auto v, auto h, auto w) {
                       ys(n, o, i, j) += ws(o, c, u, v) * xs(n, c, h, w);
                     });
    return y;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) {
    const Tensor x = ctx.saved("x"), weight = ctx.saved("weight");
    const Tensor gx = zeros_like(x), gw = zeros_like(weight);
    const Elements xs(x), ws(weight), gs(g), gxs(gx), gws(gw);
    for_each_product(x.shape(), weight.shape(), g.shape(), stride, padding,
                     [&](auto n, auto o, auto i, auto j, auto c, auto u, auto v, auto h, auto w) {
                       gxs(n, c, h, w) += ws(o, c, u, v) * gs(n, o, i, j);
                       gws(o, c, u, v) += xs(n, c, h, w) * gs(n, o, i, j);
                     });
    return {gx, gw};
  }
};
// [/conv]

// [pool]
// Windows of 2 x 2, side by side.
struct PlainPool : Function<PlainPool> {
  static constexpr const char* name = "plain_pool";

  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    const Tensor y = zeros({x.size(0), x.size(1), x.size(2) / 2, x.size(3) / 2}, {.dtype = f64});
    const Tensor from = zeros_like(x);  // 1 where a maximum was taken from
    const Elements xs(x), ys(y), marks(from);
    for (std::int64_t n = 0; n < y.size(0); ++n)
      for (std::int64_t c = 0; c < y.size(1); ++c)
        for (std::int64_t i = 0; i < y.size(2); ++i)
          for (std::int64_t j = 0; j < y.size(3); ++j) {
            std::int64_t h = 2 * i, w = 2 * j;
            for (std::int64_t u = 0; u < 2; ++u)
              for (std::int64_t v = 0; v < 2; ++v)
                if (xs(n, c, 2 * i + u, 2 * j + v) > xs(n, c, h, w)) h = 2 * i + u, w = 2 * j + v;
            ys(n, c, i, j) = xs(n, c, h, w);
            marks(n, c, h, w) = 1;
          }
    ctx.save("from", from);
    return y;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) {
    const Tensor from = ctx.saved("from"), gx = zeros_like(from);
    const Elements marks(from), gs(g), gxs(gx);
    for (std::int64_t n = 0; n < g.size(0); ++n)
      for (std::int64_t c = 0; c < g.size(1); ++c)
        for (std::int64_t h = 0; h < 2 * g.size(2); ++h)
          for (std::int64_t w = 0; w < 2 * g.size(3); ++w) gxs(n, c, h, w) = marks(n, c, h, w) * gs(n, c, h / 2, w / 2);
    return {gx};
  }
};
// [/pool]

// [norm]
struct PlainNorm : Function<PlainNorm> {
  static constexpr const char* name = "plain_norm";

  static Tensor per_channel(const Tensor& t) { return t.mean({0, 2, 3}, true); }  // [1, C, 1, 1]
  static Tensor inv_std(const Tensor& x) { return rsqrt(per_channel(square(x - per_channel(x))) + 1e-5); }

  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save("x", x);
    return (x - per_channel(x)) * inv_std(x);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) {
    const Tensor x = ctx.saved("x"), s = inv_std(x), normal = (x - per_channel(x)) * s;
    return {s * (g - per_channel(g) - normal * per_channel(g * normal))};
  }
};
// [/norm]

// [compare]
bool same(const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && allclose(a, b, 0, 1e-10); }
// [/compare]

}  // namespace

int main() {
  set_num_threads(1);
  manual_seed(0);
  std::cout << std::boolalpha;
  {
    // [conv_example]
    const Tensor picture = tensor({{0, 0, 1, 1}, {0, 0, 1, 1}, {0, 0, 1, 1}, {0, 0, 1, 1}}).view({1, 1, 4, 4});
    const Tensor edge = tensor({{-1, 0, 1}, {-1, 0, 1}, {-1, 0, 1}}).view({1, 1, 3, 3});
    std::cout << conv2d(picture, edge, {}, {.padding = 1})[0][0] << "\n";
    // [/conv_example]
  }
  {
    // [conv_check]
    Tensor x = randn({2, 3, 7, 6}, {.dtype = f64, .requires_grad = true});
    Tensor weight = randn({4, 3, 3, 3}, {.dtype = f64, .requires_grad = true});
    const Tensor y = PlainConv::apply(x, weight), reference = conv2d(x, weight, {}, {.stride = 2, .padding = 1});
    std::cout << "convolution: " << to_string(y.shape()) << ", equal " << same(y.detach(), reference.detach());
    const Tensor g = randn(y.shape(), {.dtype = f64});
    const auto ours = grad(std::vector{y}, std::vector{x, weight}, {}, std::vector{g});
    const auto theirs = grad(std::vector{reference}, std::vector{x, weight}, {}, std::vector{g});
    std::cout << ", gradients equal " << same(ours[0], theirs[0]) << " " << same(ours[1], theirs[1]) << "\n";
    gradcheck([](const std::vector<Tensor>& in) { return std::vector{PlainConv::apply(in[0], in[1])}; }, {x, weight});
    std::cout << "and gradcheck agrees\n";
    // [/conv_check]
    // [transposed]
    NoGrad guard;
    const Tensor back = conv_transpose2d(g, weight, {}, {.stride = 2, .padding = 1, .output_padding = {0, 1}});
    std::cout << "the gradient of x is conv_transpose2d of g: " << same(back, ours[0]) << "\n";
    // [/transposed]
  }
  {
    // [pool_check]
    Tensor x = randn({2, 3, 4, 6}, {.dtype = f64, .requires_grad = true});
    const Tensor y = PlainPool::apply(x), reference = max_pool2d(x, {.kernel_size = 2});
    const Tensor g = ones(y.shape(), {.dtype = f64});
    const Tensor ours = grad(std::vector{y}, std::vector{x}, {}, std::vector{g})[0];
    const Tensor theirs = grad(std::vector{reference}, std::vector{x}, {}, std::vector{g})[0];
    std::cout << "pooling: equal " << same(y.detach(), reference.detach()) << ", gradient equal " << same(ours, theirs) << "\n";
    std::cout << x.detach()[0][0] << "\n" << ours[0][0] << "\n";
    gradcheck([](const std::vector<Tensor>& in) { return std::vector{PlainPool::apply(in[0])}; }, {x});
    std::cout << "and gradcheck agrees\n";
    // [/pool_check]
  }
  {
    // [norm_check]
    Tensor x = randn({4, 3, 2, 2}, {.dtype = f64, .requires_grad = true});
    Tensor no_mean, no_var;
    const Tensor y = PlainNorm::apply(x);
    const Tensor reference = batch_norm(x, {}, {}, no_mean, no_var, {.training = true, .eps = 1e-5});
    const Tensor g = randn(y.shape(), {.dtype = f64});
    const Tensor ours = grad(std::vector{y}, std::vector{x}, {}, std::vector{g})[0];
    const Tensor theirs = grad(std::vector{reference}, std::vector{x}, {}, std::vector{g})[0];
    std::cout << "batch norm: equal " << same(y.detach(), reference.detach()) << ", gradient equal " << same(ours, theirs)
              << "\n";
    gradcheck([](const std::vector<Tensor>& in) { return std::vector{PlainNorm::apply(in[0])}; }, {x}, {.second_order = true});
    std::cout << "and gradcheck agrees, for the second derivative too\n";
    // [/norm_check]
    // [norm_facts]
    NoGrad guard;
    const Tensor zero = zeros({3}, {.dtype = f64});
    std::cout << "the gradient of a channel sums to zero: " << same(ours.sum({0, 2, 3}), zero) << "\n";
    const Tensor scaled = batch_norm(x * 10 + 5, {}, {}, no_mean, no_var, {.training = true, .eps = 0});
    const Tensor plain = batch_norm(x, {}, {}, no_mean, no_var, {.training = true, .eps = 0});
    std::cout << "scale and shift of the input do not matter: " << same(scaled, plain) << "\n";
    // [/norm_facts]
  }
  {
    // [running]
    BatchNorm2d bn({.num_features = 1});
    for (const int step : {1, 2, 50}) {
      while (bn.num_batches_tracked.item<int>() < step) bn(randn({64, 1, 4, 4}) * 3 + 7);
      std::printf("after %2d batches: mean %.1f, variance %.1f\n", step, bn.running_mean.item<double>(),
                  bn.running_var.item<double>());
    }
    bn.eval();
    std::printf("in eval mode 7 becomes %.1f, alone in its batch\n", bn(full({1, 1, 1, 1}, 7)).item<double>());
    // [/running]
  }
}
