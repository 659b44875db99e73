#include <cmath>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Moments {
  double mean = 0, std = 0, min = INFINITY, max = -INFINITY;
};
Moments moments(const Tensor& t) {
  Moments m;
  const auto v = t.to_vector<double>();
  for (const double x : v) {
    m.mean += x / static_cast<double>(v.size());
    m.min = std::min(m.min, x);
    m.max = std::max(m.max, x);
  }
  for (const double x : v) m.std += (x - m.mean) * (x - m.mean) / static_cast<double>(v.size());
  m.std = std::sqrt(m.std);
  return m;
}

void check_uniform(const Tensor& t, double bound) {
  const Moments m = moments(t);
  CHECK(m.max <= bound);
  CHECK(m.min >= -bound);
  CHECK(m.max > 0.97 * bound);
  CHECK(m.min < -0.97 * bound);
  CHECK(m.std == Approx(bound / std::sqrt(3)).epsilon(0.03));
}

void check_normal(const Tensor& t, double std) {
  const Moments m = moments(t);
  CHECK(std::abs(m.mean) < 0.03 * std);
  CHECK(m.std == Approx(std).epsilon(0.03));
  CHECK(m.max > 2.5 * std);
}

}  // namespace

TEST_CASE("Layers start within PyTorch's default bounds") {
  Conv2d conv({.in_channels = 8, .out_channels = 64, .kernel_size = {3, 5}, .groups = 2});
  check_uniform(conv.weight, 1 / std::sqrt(4 * 15.0));
  CHECK(moments(conv.bias).max <= 1 / std::sqrt(60.0));
  Linear fc({.in_features = 100, .out_features = 50});
  check_uniform(fc.weight, 0.1);
  CHECK(moments(fc.bias).std > 0.03);
  ConvTranspose2d up({.in_channels = 64, .out_channels = 16, .kernel_size = 3, .groups = 2});
  check_uniform(up.weight, 1 / std::sqrt(8 * 9.0));
  Embedding table({.num_embeddings = 100, .embedding_dim = 30, .padding_idx = -1});
  check_normal(table.weight.narrow(0, 0, 99), 1);
  CHECK(moments(table.weight.select(0, 99)).std == 0);
}

TEST_CASE("A seed gives the same weights in every memory format and type") {
  manual_seed(5);
  Tensor rows = empty({6, 4, 3, 3});
  init::kaiming_uniform_(rows);
  manual_seed(5);
  Tensor channels_last = empty({6, 4, 3, 3}, {}, MemoryFormat::channels_last);
  init::kaiming_uniform_(channels_last);
  CHECK(rows.to_vector<float>() == channels_last.to_vector<float>());
  manual_seed(5);
  Tensor half = empty({6, 4, 3, 3}, {.dtype = bf16});
  init::kaiming_uniform_(half);
  CHECK(half.to_vector<float>() == rows.to(bf16).to_vector<float>());
  manual_seed(6);
  init::kaiming_uniform_(channels_last);
  CHECK(rows.to_vector<float>() != channels_last.to_vector<float>());
}

TEST_CASE("Kaiming and Xavier follow their formulas") {
  Tensor w = empty({64, 16, 3, 3});
  check_uniform(init::kaiming_uniform_(w, {.nonlinearity = init::Nonlinearity::relu}), std::sqrt(6.0 / 144));
  check_normal(init::kaiming_normal_(w, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu}),
               std::sqrt(2.0 / 576));
  check_uniform(init::kaiming_uniform_(w, {.a = std::sqrt(5.0)}), 1 / std::sqrt(144.0));
  check_uniform(init::xavier_uniform_(w, 2), 2 * std::sqrt(6.0 / (144 + 576)));
  check_normal(init::xavier_normal_(w), std::sqrt(2.0 / (144 + 576)));
  CHECK(init::calculate_gain(init::Nonlinearity::tanh) == Approx(5.0 / 3));
  CHECK(init::calculate_gain(init::Nonlinearity::leaky_relu, 0.2) == Approx(1.3867504906));
  CHECK(init::calculate_gain(init::Nonlinearity::sigmoid) == 1);
  Tensor flat = empty({3});
  CHECK_THROWS_AS(init::kaiming_uniform_(flat), ShapeError);
}

TEST_CASE("Truncated normals stay inside and have the truncated moments") {
  Tensor t = empty({20000});
  init::trunc_normal_(t, 1, 2, 0, 4);
  const Moments m = moments(t);
  CHECK(m.min >= 0);
  CHECK(m.max <= 4);
  CHECK(m.mean == Approx(1.71255).epsilon(0.02));  // of the law, worked out from its density
  CHECK(m.std == Approx(1.05877).epsilon(0.02));
  CHECK_THROWS_AS(init::trunc_normal_(t, 0, 1, 2, 1), ValueError);
}

TEST_CASE("Orthogonal weights have orthonormal rows or columns") {
  for (const Shape& shape : {Shape{5, 3}, Shape{4, 2, 3, 3}, Shape{6, 6}}) {
    Tensor w = empty(shape, {.dtype = f64});
    init::orthogonal_(w, 2);
    const Tensor m = w.reshape({shape[0], -1}), rows = m.size(0) <= m.size(1) ? m : m.t();
    const Tensor product = matmul(rows, rows.t());
    check_close(product, eye(rows.size(0)).to(f64).mul_(4.0).to_vector<double>(), 1e-9);
  }
}

TEST_CASE("A dirac convolution passes its input through") {
  Conv2d conv({.in_channels = 4, .out_channels = 4, .kernel_size = 3, .padding = 1, .groups = 2, .bias = false});
  init::dirac_(conv.weight, 2);
  const Tensor x = randn({2, 4, 5, 5});
  NoGrad guard;
  CHECK(conv(x).to_vector<float>() == x.to_vector<float>());
  CHECK_THROWS_AS(init::dirac_(conv.weight, 3), ValueError);
}

TEST_CASE("Constant fills, and refusals") {
  Tensor t = empty({2, 2});
  CHECK(init::constant_(t, 3).to_vector<float>() == std::vector<float>(4, 3));
  CHECK(init::ones_(t).to_vector<float>() == std::vector<float>(4, 1));
  CHECK(init::zeros_(t).to_vector<float>() == std::vector<float>(4, 0));
  Tensor whole = zeros({2}, {.dtype = i64});
  CHECK_THROWS_AS(init::normal_(whole), DTypeError);
  CHECK_THROWS_AS(init::normal_(t, 0, -1), ValueError);
  CHECK_THROWS_AS(init::uniform_(t, 1, 0), ValueError);
  Tensor parameter = ones({2}).set_requires_grad();
  init::uniform_(parameter, 5, 6);
  CHECK(parameter.requires_grad());
  CHECK(parameter.to_vector<float>()[0] >= 5);
}
