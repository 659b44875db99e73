// Losses against PyTorch 2.15's numbers, at their limits, and with arguments that must not broadcast.
#include <cmath>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

const double kInf = INFINITY;

Tensor bce(const Tensor& x, const Tensor& t, Reduction reduction = Reduction::mean) {
  return binary_cross_entropy_with_logits(x, t, {.reduction = reduction});
}

}  // namespace

TEST_CASE("Losses give PyTorch's values and gradients") {
  const Tensor target = tensor({0, 1, 2.5, -1});
  const auto check_loss = [](const std::function<Tensor(const Tensor&)>& loss, double value,
                             const std::vector<double>& gradient) {
    Tensor x = tensor({0.5, -1, 2, 3}).set_requires_grad();
    const Tensor y = loss(x);
    CHECK(y.item<double>() == Approx(value));
    y.backward();
    check_close(x.grad(), gradient);
  };
  check_loss([&](const Tensor& x) { return mse_loss(x, target); }, 5.125, {0.25, -1, -0.25, 2});
  check_loss([&](const Tensor& x) { return l1_loss(x, target); }, 1.75, {0.25, -0.25, -0.25, 0.25});
  check_loss([&](const Tensor& x) { return smooth_l1_loss(x, target, {.beta = 0.7}); }, 1.41428566,
             {0.178571433, -0.25, -0.178571433, 0.25});
  check_loss([&](const Tensor& x) { return smooth_l1_loss(x, target, {.beta = 0}); }, 1.75, {0.25, -0.25, -0.25, 0.25});
  check_loss(
      [&](const Tensor& x) {
        return binary_cross_entropy_with_logits(x, tensor({0, 1, 0.25, 0.5}), {.pos_weight = scalar_tensor(2)});
      },
      1.70803547, {0.155614838, -0.365529299, 0.150249064, 0.107215285});
}

TEST_CASE("Losses sum, average, or leave the elements alone") {
  const Tensor x = tensor({{1, 2}, {3, 5}}), t = zeros({2, 2});
  check_close(mse_loss(x, t, {.reduction = Reduction::none}), {1, 4, 9, 25});
  CHECK(mse_loss(x, t, {.reduction = Reduction::sum}).item() == 39);
  CHECK(mse_loss(x, t).item() == 9.75f);
  CHECK(l1_loss(x, t, {.reduction = Reduction::sum}).item() == 11);
  CHECK(std::isnan(mse_loss(zeros({0}), zeros({0})).item()));
  CHECK(mse_loss(zeros({0}), zeros({0}), {.reduction = Reduction::sum}).item() == 0);
}

TEST_CASE("Losses refuse to broadcast a column against a row") {
  const Tensor column = tensor({{0}, {1}, {2}, {3}}), row = tensor({0, 1, 2, 3});
  const auto message = message_of<ShapeError>([&] { mse_loss(column, row); });
  CHECK(contains(message, "[4, 1]"));
  CHECK(contains(message, "[4]"));
  CHECK(mse_loss(column.squeeze(1), row).item() == 0);
  CHECK_THROWS_AS(l1_loss(zeros({2, 3}), zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(bce(zeros({4, 1}), zeros({4})), ShapeError);
  CHECK_THROWS_AS(smooth_l1_loss(column, row), ShapeError);
  CHECK_THROWS_AS(mse_loss(row, scalar_tensor(1)), ShapeError);
}

TEST_CASE("Binary cross-entropy is right at large, zero and infinite logits") {
  Tensor x = tensor({-120, 120, 120, -120, 0, 0, 1e4, -1e4, kInf, -kInf, kInf, -kInf}).set_requires_grad();
  const Tensor t = tensor({0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 1});
  const Tensor losses = bce(x, t, Reduction::none);
  check_close(losses, {0, 120, 0, 120, 0.69314718, 0.69314718, 10000, 0, 0, 0, kInf, kInf});
  losses.sum().backward();
  check_close(x.grad(), {0, 1, 0, -1, 0.5, -0.5, 1, 0, 0, 0, 1, -1});
  CHECK(x.grad()[4].item() == 0.5f);  // exactly
  CHECK(std::isnan(bce(tensor({std::nan("")}), tensor({1})).item()));
  // The target's gradient is -x, also where the target is 0 or 1.
  Tensor soft = tensor({0, 1, 0.3}).set_requires_grad();
  bce(tensor({2, -3, 0.5}), soft, Reduction::sum).backward();
  check_close(soft.grad(), {-2, 3, -0.5});
}

TEST_CASE("Smooth L1 has a gradient at infinite distance") {
  Tensor x = tensor({kInf, 0.5, 1, -2}).set_requires_grad();
  smooth_l1_loss(x, zeros({4}), {.reduction = Reduction::sum}).backward();
  check_close(x.grad(), {1, 0.5, 1, -1});
}
