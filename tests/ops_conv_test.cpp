// Convolution against numbers of PyTorch's (computed in f64), and its kernels against the reference loops.
#include <cmath>

#include "spool/autograd/node.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

// sin(step * i) over the row-major index i.
Tensor waves(const Shape& shape, double step = 1) { return sin(reshape(arange(0, shape.numel(), 1, f64) * step, shape)); }
Tensor cosines(const Shape& shape) { return cos(reshape(arange(0, shape.numel(), 1, f64), shape)); }

Tensor leaf(const Tensor& t, DType type) {
  Tensor x = t.to(type).detach();
  return x.set_requires_grad();
}

double margin(DType type) { return type == f64 ? 1e-6 : 1e-5; }

}  // namespace

TEST_CASE("conv2d and its gradients are PyTorch's, with stride, padding and dilation") {
  for (const DType type : {f64, f32}) {
    const Tensor x = leaf(waves({1, 2, 4, 5}), type), w = leaf(cosines({3, 2, 3, 2}), type),
                 b = leaf(tensor({0.5, -1, 2}, {.dtype = f64}), type);
    const Tensor y = conv2d(x, w, b, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}});
    y.backward(waves(y.shape(), 0.7).to(type));
    REQUIRE(y.shape() == Shape{1, 3, 2, 3});
    CHECK(y.is_contiguous(MemoryFormat::channels_last));
    check_close(y,
                {0.4034757, 0.4840399, 0.5792777, 0.5475729, 1.6481221, 1.6930931, -0.9530754, -1.0987493, -1.1536335, -0.3139716,
                 0.5810693, 0.0224824, 2.1757194, 1.8493002, 1.6614337, 3.1102426, 3.5202611, 2.5325586},
                margin(type));
    check_close(x.grad(), {0.4336797,  -0.1959961, -0.3210278, 0.0153657,  -0.3889594, 0.5162802,  0.6866426,  -0.2557025,
                           0.0209827,  0.8218656,  -0.9260149, -0.6830187, -0.729139,  -0.5446847, -0.2228449, 0.266467,
                           0.0944299,  0.7762773,  0.6467261,  0.0909905,  0.3572519,  -0.2284557, -0.2406758, -0.0530848,
                           -0.5472442, 0.8505906,  0.7755173,  -0.1094793, 0.2443863,  0.8190194,  -0.8525983, -0.5974893,
                           -0.8453979, -0.6520683, -0.2134326, 0.005376,   -0.1071388, 0.620571,   0.5362937,  0.0305246},
                margin(type));
    check_close(w.grad(),
                {-1.1518132, 0.753976, 0.8217892,  -1.324791,  1.2695553, -0.0905494, -0.1942799, 1.1490945,  -0.6513914,
                 -0.8121901, 0.957611, -1.273767,  0.4495178,  1.068284,  -2.5970661, 0.7924878,  -0.4326833, -2.1662173,
                 1.4438256,  -0.46172, -1.3492456, 2.5997705,  -2.53226,  0.4555055,  0.7110513,  -1.8014516, 1.7246903,
                 0.5477396,  -0.8453,  2.2145724,  -1.2214224, -0.696368, 1.9743559,  -1.7369411, 1.5253247,  0.8271339},
                margin(type));
    check_close(b.grad(), {2.4770817, -0.8233263, -1.6697925}, margin(type));
  }
}

TEST_CASE("conv_transpose2d and its gradients are PyTorch's") {
  for (const DType type : {f64, f32}) {
    const Tensor x = leaf(waves({1, 2, 2, 3}), type), w = leaf(cosines({2, 2, 2, 3}), type),
                 b = leaf(tensor({0.5, -1}, {.dtype = f64}), type);
    const Tensor y = conv_transpose2d(x, w, b, {.stride = {2, 1}, .padding = {0, 1}, .output_padding = {1, 0}});
    y.backward(waves(y.shape(), 0.7).to(type));
    REQUIRE(y.shape() == Shape{1, 2, 5, 3});
    check_close(
        y, {1.642317,   3.2567939,  1.6287445,  -0.5645698, -2.2541078, -0.9839099, -0.2656538, -2.207717, -0.6849939, 1.1756037,
            3.1513049,  2.0194633,  0.5,        0.5,        0.5,        -0.0344847, 1.6962983,  0.8093748, -1.8471359, -3.5845223,
            -3.0986251, -1.5720314, -3.5418269, -2.8235206, -0.5429902, 1.3814743,  1.0910801,  -1,        -1,         -1},
        margin(type));
    check_close(x.grad(),
                {-1.28328, -3.3160479, -1.7731381, 1.4472232, 1.415334, -1.220428, -2.4904833, -3.1777449, -1.0957207, 1.2451419,
                 -0.1409263, -1.8857345},
                margin(type));
    check_close(w.grad(), {2.1874939,  2.6640201,  1.1683278,  0.3882443,  -1.4794983, -0.9503081, -2.5613331, -1.1296915,
                           -0.1882158, 2.2443953,  2.6572719,  1.153626,   2.0939607,  2.2047481,  0.4059584,  0.232413,
                           -1.7068054, -0.5908888, -2.3099254, -0.4433523, 0.2002652,  2.1430059,  2.1803744,  0.3906959},
                margin(type));
    check_close(b.grad(), {2.4609736, -0.7592898}, margin(type));
  }
}

TEST_CASE("Border pixels that no window reaches get a gradient of exactly zero") {
  for (const DType type : {f64, f32}) {
    const auto run = [&](Tensor x, Tensor w, Tensor b, const ConvOptions& o) {
      x = leaf(x, type), w = leaf(w, type);
      if (b.defined()) b = leaf(b, type);
      const Tensor y = conv2d(x, w, b, o);
      y.backward(ones_like(y.detach()));
      return std::vector<Tensor>{y, x.grad(), w.grad(), b.defined() ? b.grad() : Tensor()};
    };
    const Tensor ramp = reshape(arange(1, 7), {1, 1, 1, 6}), w = reshape(arange(1, 4), {1, 1, 1, 3});
    // Six pixels, three taps, stride 2: the last pixel is never seen.
    auto r = run(ramp, w, {}, {.stride = {1, 2}});
    check_close(r[0], {14, 26});
    check_close(r[1], {1, 2, 4, 2, 3, 0}, 0);
    check_close(r[2], {4, 6, 8});
    // Padded and dilated: every second pixel is stepped over.
    r = run(ramp, w, {}, {.stride = {1, 2}, .padding = {0, 1}, .dilation = {1, 2}});
    check_close(r[0], {16, 28});
    check_close(r[1], {0, 3, 0, 5, 0, 3}, 0);
    check_close(r[2], {2, 6, 10});
    // Two groups, dilated, stride 2.
    const Tensor two = reshape(tensor({1, 2, 3, 4, 5, 6, 1, 0, 1, 0, 1, 0}), {1, 2, 1, 6});
    r = run(two, reshape(arange(1, 9), {4, 1, 1, 2}), tensor({0, 0, 0, 100}),
            {.stride = {1, 2}, .dilation = {1, 2}, .groups = 2});
    check_close(r[0], {7, 13, 15, 29, 11, 11, 115, 115});
    check_close(r[1], {4, 0, 10, 0, 6, 0, 12, 0, 26, 0, 14, 0}, 0);
    check_close(r[2], {4, 8, 4, 8, 2, 2, 2, 2});
    check_close(r[3], {2, 2, 2, 2});
  }
}

TEST_CASE("A kernel that fits only with padding is taken") {
  check_close(conv2d(ones({1, 1, 2, 2}), ones({1, 1, 3, 3}), {}, {.padding = 1}), {4, 4, 4, 4});
}

TEST_CASE("Fast convolutions equal the reference loops on sizes of every kind") {
  Generator generator(11);
  struct Size {
    std::int64_t n, c, h, w, o, kh, kw;
    ConvOptions options;
  };
  for (const Size& s : {Size{3, 3, 16, 15, 32, 3, 3, {.padding = 1}}, Size{2, 32, 9, 8, 17, 3, 3, {.stride = 2, .padding = 1}},
                        Size{2, 16, 7, 7, 48, 1, 1, {}},
                        Size{1, 8, 12, 11, 24, 5, 3, {.stride = {1, 3}, .padding = {2, 0}, .dilation = {2, 1}, .groups = 4}},
                        Size{2, 20, 8, 8, 20, 3, 3, {.padding = 1, .groups = 20}}}) {
    const Tensor x = randn({s.n, s.c, s.h, s.w}, {}, generator),
                 w = randn({s.o, s.c / s.options.groups, s.kh, s.kw}, {}, generator), b = randn({s.o}, {}, generator);
    const auto run = [&](DType type, MemoryFormat weight_format) {
      const Tensor lx = leaf(x, type), lw = leaf(w.contiguous(weight_format), type), lb = leaf(b, type);
      const Tensor y = conv2d(lx, lw, lb, s.options);
      y.backward(cosines(y.shape()).to(type));
      return std::vector<Tensor>{y, lx.grad(), lw.grad(), lb.grad()};
    };
    const auto want = run(f64, MemoryFormat::contiguous);
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      const auto got = run(f32, format);
      for (std::size_t i = 0; i < want.size(); ++i) {
        INFO(s.c << " -> " << s.o << ", tensor " << i);
        const double scale = max(abs(want[i])).item<double>();
        CHECK(max(abs(got[i].to(f64) - want[i])).item<double>() <= 1e-5 * scale);
      }
    }
  }
}

TEST_CASE("A weight's gradient lies in memory as the weight does") {
  const Tensor x = leaf(waves({2, 3, 5, 5}), f32);
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const Tensor w = leaf(cosines({4, 3, 3, 3}).contiguous(format), f32);
    sum(conv2d(x, w)).backward();
    CHECK(w.grad().strides() == w.strides());
  }
}

TEST_CASE("An empty batch gives zero gradients of weight and bias, not garbage") {
  const Tensor w = leaf(ones({2, 3, 3, 3}), f32), b = leaf(ones({2}), f32);
  const Tensor y = conv2d(zeros({0, 3, 8, 8}), w, b);
  REQUIRE(y.shape() == Shape{0, 2, 6, 6});
  sum(y).backward();
  check_close(w.grad(), std::vector<double>(54, 0.0), 0);
  check_close(b.grad(), {0, 0}, 0);
}

TEST_CASE("Seventy thousand images go through a 1x1 convolution") {
  const Tensor y = conv2d(ones({70000, 1, 1, 1}), full({1, 1, 1, 1}, 3));
  CHECK(y.numel() == 70000);
  CHECK(sum(y).item() == 210000);
}

TEST_CASE("More shapes than the cache of primitives holds still compute right") {
  for (std::int64_t h = 1; h <= 600; ++h) {
    const Tensor y = conv2d(ones({1, 1, h, 1}), full({1, 1, 1, 1}, 2));
    REQUIRE(sum(y).item() == 2 * static_cast<float>(h));
  }
}

TEST_CASE("The tape names a transposed convolution as such") {
  const Tensor y = conv_transpose2d(leaf(waves({1, 2, 3, 3}), f32), cosines({2, 1, 2, 2}).to(f32));
  CHECK(std::string(y.grad_fn()->op) == "conv_transpose2d");
}
