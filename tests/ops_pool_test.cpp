// Pooling against numbers of PyTorch's.
#include <cmath>
#include <limits>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

Tensor image(std::vector<double> values, std::int64_t h, std::int64_t w, DType type) {
  Tensor x = tensor(values, {1, 1, h, w}, type);
  return x.set_requires_grad();
}
Tensor waves(DType type) {
  Tensor x = sin(reshape(arange(0, 30, 1, f64) * 1.3, {1, 1, 6, 5})).to(type).detach();
  return x.set_requires_grad();
}
// The gradient of x when every output weighs one.
Tensor gradient(const Tensor& x, const Tensor& y) {
  y.backward(ones_like(y.detach()));
  return x.grad();
}

}  // namespace

TEST_CASE("Padding of a maximum counts as minus infinity, not as zero") {
  for (const DType type : {f32, f64, bf16}) {
    const Tensor x = image({-4, -3, -2, -1}, 2, 2, type), y = max_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1});
    check_close(y, {-1});
    check_close(gradient(x, y), {0, 0, 0, 1});
  }
}

TEST_CASE("A window of minus infinity has a maximum, and a gradient that stays inside") {
  for (const DType type : {f32, f64}) {
    const Tensor x = image({-kInfinity, -kInfinity, -kInfinity, -kInfinity}, 2, 2, type), y = max_pool2d(x, {.kernel_size = 2});
    CHECK(y.to_vector<double>()[0] == -kInfinity);
    check_close(gradient(x, y), {1, 0, 0, 0});
  }
}

TEST_CASE("A NaN wins the maximum and gets the gradient") {
  for (const DType type : {f32, f64, bf16}) {
    const Tensor x = image({1, kNan, 3, 2}, 2, 2, type), y = max_pool2d(x, {.kernel_size = 2});
    check_close(y, {kNan});
    check_close(gradient(x, y), {0, 1, 0, 0});
    // Also where it comes first, and where a second one follows.
    check_close(max_pool2d(image({kNan, 5, 3, 2}, 2, 2, type), {.kernel_size = 2}), {kNan});
    const Tensor two = image({1, 2, kNan, kNan}, 2, 2, type);
    check_close(gradient(two, max_pool2d(two, {.kernel_size = 2})), {0, 0, 1, 0});
  }
}

TEST_CASE("Gradients of overlapping windows add up") {
  for (const DType type : {f32, f64}) {
    const Tensor x = image({1, 5, 2, 0, 3}, 1, 5, type), y = max_pool2d(x, {.kernel_size = {1, 3}, .stride = 1});
    check_close(y, {5, 5, 3});
    check_close(gradient(x, y), {0, 2, 0, 0, 1});
  }
}

TEST_CASE("Of equal maxima the first gets the whole gradient") {
  for (const DType type : {f32, f64}) {
    const Tensor x = image({5, 5, 5, 5}, 2, 2, type);
    check_close(gradient(x, max_pool2d(x, {.kernel_size = 2})), {1, 0, 0, 0});
  }
}

TEST_CASE("With ceil_mode no window begins beyond the input and its left padding") {
  const Tensor y =
      avg_pool2d(ones({1, 1, 6, 6}), {.kernel_size = {1, 2}, .stride = Size2{2, 2}, .padding = {0, 1}, .ceil_mode = true});
  REQUIRE(y.shape() == Shape{1, 1, 3, 4});
  check_close(y, {0.5, 1, 1, 0.5, 0.5, 1, 1, 0.5, 0.5, 1, 1, 0.5});
  const Tensor sparse =
      max_pool2d(reshape(arange(1, 5).to(f32), {1, 1, 1, 4}), {.kernel_size = 1, .stride = 2, .ceil_mode = true});
  check_close(sparse, {1, 3});
}

TEST_CASE("Maximum pooling is PyTorch's with overlap, padding and ceil_mode") {
  for (const DType type : {f32, f64}) {
    const Tensor x = waves(type), y = max_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1, .ceil_mode = true});
    REQUIRE(y.shape() == Shape{1, 1, 4, 3});
    check_close(y, {0.9985433, 0.9985433, -0.6877662, 0.9985433, 0.9985433, -0.4193609, 0.9287952, 0.9287952, 0.0008882,
                    0.8838704, 0.6871211, 0.0008882});
    check_close(gradient(x, y), {0, 0, 0, 1, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 2});
  }
}

TEST_CASE("Average pooling is PyTorch's with padding counted and not") {
  for (const DType type : {f32, f64}) {
    Tensor x = waves(type);
    const AvgPool2dOptions options{.kernel_size = {3, 2}, .stride = Size2{2, 2}, .padding = 1, .ceil_mode = true};
    Tensor y = avg_pool2d(x, options);
    REQUIRE(y.shape() == Shape{1, 1, 4, 3});
    check_close(y, {0.0358533, 0.4661169, -0.5268385, 0.2068045, 0.538721, -0.7550072, 0.3753281, 0.2497343, -0.5969094,
                    0.2209676, 0.0427147, -0.240608});
    const double a = 1.0 / 6, b = 1.0 / 3, c = 5.0 / 12;
    check_close(gradient(x, y), {a, a, a, a, a, b, b, b, b, b, a, a, a, a, a, b, b, b, b, b, a, a, a, a, a, c, c, c, c, c});
    x = waves(type);
    AvgPool2dOptions inside = options;
    inside.count_include_pad = false;
    y = avg_pool2d(x, inside);
    check_close(y, {0.10756, 0.6991753, -0.7902577, 0.413609, 0.538721, -0.7550072, 0.7506562, 0.2497343, -0.5969094, 0.8838704,
                    0.0854295, -0.481216});
    const double d = 5.0 / 6;
    check_close(gradient(x, y), {0.5,   0.25, 0.25, 0.25, 0.25, d, c, c, c, c, b,     a,     a,     a,     a,
                                 2 * b, b,    b,    b,    b,    b, a, a, a, a, 4 * b, 2 * b, 2 * b, 2 * b, 2 * b});
  }
}

TEST_CASE("Adaptive average pooling is PyTorch's") {
  for (const DType type : {f32, f64}) {
    const Tensor x = waves(type), y = adaptive_avg_pool2d(x, {4, 2});
    check_close(y, {0.5019702, -0.3877385, 0.5079091, -0.4494858, 0.4492741, -0.5079334, 0.387446, -0.501897});
    const double a = 1.0 / 6, b = 1.0 / 3;
    check_close(gradient(x, y),
                {a, a, b, a, a, b, b, 2 * b, b, b, a, a, b, a, a, a, a, b, a, a, b, b, 2 * b, b, b, a, a, b, a, a});
  }
}

TEST_CASE("Pooled images lie channels-last and the places of maxima take a byte each") {
  Tensor x = ones({2, 3, 4, 4});
  x.set_requires_grad();
  const Tensor y = max_pool2d(x, {.kernel_size = 2});
  CHECK(y.is_contiguous(MemoryFormat::channels_last));
  CHECK(contains(tape_to_string(y), "24 B"));
}

TEST_CASE("Pooling is the same with one thread and with several") {
  Generator generator(3);
  const Tensor x = randn({8, 19, 17, 18}, {}, generator);
  const auto run = [&] {
    Tensor leaf = x.detach();
    leaf.set_requires_grad();
    const Tensor a = max_pool2d(leaf, {.kernel_size = 2}), b = max_pool2d(leaf, {.kernel_size = 3, .stride = 1, .padding = 1}),
                 c = avg_pool2d(leaf, {.kernel_size = 3, .stride = 2});
    (sum(a) + sum(square(b)) + sum(square(c))).backward();
    return std::vector<Tensor>{a.detach(), b.detach(), c.detach(), leaf.grad()};
  };
  const int threads = get_num_threads();
  set_num_threads(1);
  const auto want = run();
  set_num_threads(3);
  const auto got = run();
  set_num_threads(threads);
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(equal(got[i], want[i]));
}
