#include <cmath>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {
const double kNaN = std::nan(""), kInf = INFINITY;
}

TEST_CASE("Vectorised functions agree with the standard library, at the edges too") {
  std::vector<float> values;
  for (int i = -400; i <= 400; ++i) values.push_back(static_cast<float>(i) * 0.25f);
  for (const double v : {0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 88.7, 89.0, -103.0, -104.5, kNaN, kInf, -kInf})
    values.push_back(static_cast<float>(v));
  const Tensor x = tensor(values);
  struct Row {
    const char* name;
    Tensor (*f)(const Tensor&);
    double (*g)(double);
    double tolerance;
  };
  const Row rows[] = {
      {"exp", exp, std::exp, 4e-7},
      {"log", log, std::log, 3e-7},
      {"tanh", tanh, std::tanh, 5e-7},
      {"sqrt", sqrt, std::sqrt, 2e-7},
      {"sin", sin, std::sin, 1e-6},
      {"cos", cos, std::cos, 1e-6},
      {"expm1", expm1, std::expm1, 3e-7},
      {"log1p", log1p, std::log1p, 3e-7},
      {"erf", erf, std::erf, 3e-7},
      {"floor", floor, std::floor, 0},
      {"ceil", ceil, std::ceil, 0},
      {"round", round, std::nearbyint, 0},
      {"sigmoid", sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, 5e-7},
      {"softplus", softplus, [](double v) { return std::isnan(v) ? v : std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); },
       5e-7},
  };
  for (const Row& row : rows) {
    const std::vector<float> y = row.f(x).to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool trigonometric =
          row.g == static_cast<double (*)(double)>(std::sin) || row.g == static_cast<double (*)(double)>(std::cos);
      if (trigonometric && std::abs(values[i]) > 1e4) continue;  // arguments whose last bit is many periods
      const auto want = static_cast<float>(row.g(values[i]));
      INFO(row.name << "(" << values[i] << ") = " << y[i] << ", want " << want);
      if (std::isnan(want))
        CHECK(std::isnan(y[i]));
      else if (std::isinf(want))
        CHECK(y[i] == want);
      else
        CHECK(std::abs(y[i] - want) <= row.tolerance * std::max(1.0f, std::abs(want)) * (row.tolerance > 0 ? 1 : 0) +
                                           (std::abs(want) < 1e-37f ? 1e-37 : 0));
    }
  }
}

TEST_CASE("A value's result does not depend on its place or its neighbours") {
  const Tensor x = randn({37});
  for (auto f : {exp, log, tanh, sigmoid, sin}) {
    const std::vector<float> whole = f(x).to_vector<float>();
    for (std::int64_t i = 0; i < 37; ++i) {
      const float alone = f(x[i]).item();
      CHECK(
          (alone == whole[static_cast<std::size_t>(i)] || (std::isnan(alone) && std::isnan(whole[static_cast<std::size_t>(i)]))));
    }
  }
}

TEST_CASE("NaN travels through relu, clamp, maximum and minimum") {
  const Tensor x = tensor({kNaN, -1, 2});
  check_close(relu(x), {kNaN, 0, 2});
  check_close(clamp(x, -0.5, 1), {kNaN, -0.5, 1});
  check_close(maximum(x, tensor({1, kNaN, 1})), {kNaN, kNaN, 2});
  check_close(minimum(x, tensor({1, kNaN, 1})), {kNaN, kNaN, 1});
}

TEST_CASE("Gradients at kinks and ties") {
  Tensor x = tensor({0, -0.0, 1}).set_requires_grad();
  relu(x).sum().backward();
  check_close(x.grad(), {0, 0, 1});
  Tensor a = tensor({1, 2, 3}).set_requires_grad(), b = tensor({1, 3, 2}).set_requires_grad();
  maximum(a, b).sum().backward();
  check_close(a.grad(), {0.5, 0, 1});
  check_close(b.grad(), {0.5, 1, 0});
  Tensor c = tensor({-1, 0, 1, 2}).set_requires_grad();
  clamp(c, 0, 1).sum().backward();
  check_close(c.grad(), {0, 1, 1, 0});
}

TEST_CASE("where gives the side not taken a gradient of exactly zero") {
  const Tensor condition = tensor({1, 0}).to(boolean);
  Tensor a = tensor({1, kNaN}).set_requires_grad(), b = tensor({kNaN, 2}).set_requires_grad();
  const Tensor y = where(condition, a, b);
  check_close(y, {1, 2});
  y.backward(ones({2}), {.retain_graph = true});
  check_close(a.grad(), {1, 0});
  check_close(b.grad(), {0, 1});
  a.set_grad({});
  b.set_grad({});
  y.backward(tensor({kInf, kNaN}));
  check_close(a.grad(), {kInf, 0});
  check_close(b.grad(), {0, kNaN});

  Tensor x = tensor({-1, 4}).set_requires_grad();
  const Tensor positive = x > 0;
  check_close(where(positive, sqrt(x), x), {-1, 2});
  where(positive, sqrt(x), x).sum().backward();
  check_close(x.grad(), {kNaN, 0.25});  // 0 * inf further up the chain
  x.set_grad({});
  where(positive, sqrt(where(positive, x, ones({}))), x).sum().backward();
  check_close(x.grad(), {1, 0.25});
}

TEST_CASE("Powers of zero have the gradients of calculus") {
  Tensor x = tensor({0, 2}).set_requires_grad();
  pow(x, 0).sum().backward();
  check_close(x.grad(), {0, 0});
  x.set_grad({});
  pow(x, 3).sum().backward();
  check_close(x.grad(), {0, 12});
  Tensor base = tensor({0, 2}).set_requires_grad(), e = tensor({0, 3}).set_requires_grad();
  pow(base, e).sum().backward();
  check_close(base.grad(), {0, 12});
  check_close(e.grad(), {0, 8 * std::log(2.0)});
}

TEST_CASE("Integers keep their type where the function maps integers to integers") {
  const Tensor x = tensor({-3, 0, 5}).to(i64);
  CHECK(abs(x).to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 0, 5});
  CHECK(relu(x).dtype() == i64);
  CHECK(clamp(x, -1.5).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 0, 5});
  CHECK(square(x).dtype() == i64);
  CHECK(exp(x).dtype() == f32);
  CHECK(logical_not(x).to_vector<int>() == std::vector<int>{0, 1, 0});
}

TEST_CASE("Elementwise results do not depend on the number of threads", "[threads]") {
  const int before = get_num_threads();
  const Tensor x = randn({300, 301}), y = randn({301});
  set_num_threads(1);
  const auto one = (exp(x) * y).to_vector<float>();
  set_num_threads(3);
  CHECK(one == (exp(x) * y).to_vector<float>());
  set_num_threads(before);
}

TEST_CASE("isnan and isfinite") {
  const Tensor x = tensor({1, kNaN, kInf, -kInf});
  CHECK(isnan(x).to_vector<int>() == std::vector<int>{0, 1, 0, 0});
  CHECK(isfinite(x).to_vector<int>() == std::vector<int>{1, 0, 0, 0});
}

TEST_CASE("isclose, allclose and equal") {
  const Tensor a = tensor({1, 1, kNaN, kInf, kInf, 0}), b = tensor({1.000001, 1.1, kNaN, kInf, 1, 1e-9});
  CHECK(isclose(a, b).to_vector<int>() == std::vector<int>{1, 0, 0, 1, 0, 1});
  CHECK(isclose(a, b, 0.1).to_vector<int>() == std::vector<int>{1, 1, 0, 1, 0, 1});
  CHECK(isclose(tensor({1}), tensor({kInf}), 0.1).to_vector<int>() == std::vector<int>{0});
  CHECK(isclose(tensor({255}).to(DType::u8), tensor({0}).to(DType::u8), 0, 2).to_vector<int>() == std::vector<int>{0});
  CHECK_FALSE(allclose(a, b));
  CHECK(allclose(ones({2, 3}), full({3}, 1.000001)));
  CHECK(allclose(zeros({0}), zeros({0})));
  CHECK_THROWS_AS(isclose(a, b, -1), ValueError);
  CHECK(equal(ones({2, 3}), ones({2, 3}).to(DType::i64)));
  CHECK_FALSE(equal(ones({2, 3}), ones({3})));
  CHECK_FALSE(equal(a, a));
  CHECK(equal(zeros({0, 2}), zeros({0, 2})));
  CHECK_FALSE(equal(zeros({0, 2}), zeros({2, 0})));
}

TEST_CASE("Operands on different devices are refused by name") {
  if (cuda_available())
    CHECK(contains(message_of<DeviceError>([] { add(zeros({1}), zeros({1}, {.device = Device::cuda()})); }), "add"));
  CHECK_THROWS_AS(zeros({1}).to(Device::cuda(7)), DeviceError);
}
