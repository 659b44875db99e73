// Fused batch norm against the plain operations that it stands for, in single precision.
#include <cmath>

#include "catch.h"
#include "spool/spool.h"

using namespace spool;

namespace {

double largest_difference(const Tensor& a, const Tensor& b) { return abs(a.detach() - b.detach()).max().item<double>(); }

struct Outcome {
  Tensor y, x, weight, bias, residual;  // the result, then gradients
  Tensor running_mean, running_var;
};

// Both ways from the same numbers: `fused` says which.
Outcome run(bool fused, bool training, bool pool, bool with_residual, double weight_scale, double bias_scale) {
  manual_seed(3);
  BatchNorm2d bn({.num_features = 24});
  {
    NoGrad guard;
    bn.weight.copy_(randn({24}) * weight_scale);
    bn.bias.copy_(randn({24}) * bias_scale);
    bn.running_var.copy_(rand({24}) + 0.5);
  }
  bn.train(training);
  Tensor x = (randn({5, 24, 9, 11}) * 3 + 40).contiguous(MemoryFormat::channels_last).set_requires_grad();
  Tensor residual = randn({5, 24, 9, 11}).set_requires_grad();
  const MaxPool2dOptions options{.kernel_size = 2};
  Tensor y;
  if (pool)
    y = fused ? bn.relu_max_pool2d(x, options) : max_pool2d(relu(bn(x)), options);
  else if (with_residual)
    y = fused ? bn.add_relu(x, residual) : relu(bn(x) + residual);
  else
    y = fused ? bn.relu(x) : relu(bn(x));
  (y * randn(y.shape())).sum().backward();
  return {y, x.grad(), bn.weight.grad(), bn.bias.grad(), residual.grad(), bn.running_mean, bn.running_var};
}

}  // namespace

TEST_CASE("Fused batch norm gives what the plain operations give") {
  for (const bool training : {true, false})
    for (const bool pool : {true, false})
      for (const bool residual : {false, true})
        for (const auto& [weight_scale, bias_scale] : {std::pair(1.0, 0.3), std::pair(0.01, 2.0)}) {
          if (pool && residual) continue;
          INFO("training " << training << " pool " << pool << " residual " << residual << " weight " << weight_scale);
          const Outcome a = run(true, training, pool, residual, weight_scale, bias_scale),
                        b = run(false, training, pool, residual, weight_scale, bias_scale);
          CHECK(largest_difference(a.y, b.y) < 1e-5);
          CHECK(largest_difference(a.x, b.x) < 1e-5);
          CHECK(largest_difference(a.weight, b.weight) < 2e-3);  // sums of some 500 products with an x of up to 4
          CHECK(largest_difference(a.bias, b.bias) < 1e-4);
          CHECK(largest_difference(a.running_mean, b.running_mean) == 0);
          CHECK(largest_difference(a.running_var, b.running_var) == 0);
          if (residual) CHECK(largest_difference(a.residual, b.residual) == 0);
        }
}

TEST_CASE("A NaN travels through fused batch norm") {
  BatchNorm2d bn({.num_features = 2});
  bn.eval();
  Tensor x = zeros({1, 2, 2, 2});
  x.data<float>()[0] = NAN;
  CHECK(std::isnan(bn.relu(x).sum().item()));
  const Tensor y = bn.relu_max_pool2d(x, {.kernel_size = 2});
  CHECK(std::isnan(y.to_vector<double>()[0]));
  CHECK(y.to_vector<double>()[1] == 0);
}

TEST_CASE("A pool that does not fit leaves the running statistics alone") {
  BatchNorm2d bn({.num_features = 2});
  CHECK_THROWS_AS(bn.relu_max_pool2d(randn({2, 2, 3, 3}), {.kernel_size = 4}), ShapeError);
  CHECK(bn.running_mean.abs().max().item() == 0);
  CHECK(bn.num_batches_tracked.item<std::int64_t>() == 0);
}

TEST_CASE("A convolution's bias before batch norm gets no gradient, unless something else uses the convolution") {
  manual_seed(0);
  Conv2d conv({.in_channels = 3, .out_channels = 4, .kernel_size = 3});
  BatchNorm2d bn({.num_features = 4});
  const Tensor x = randn({2, 3, 6, 6});
  const auto bias_gradient = [&](bool also_plain) {
    conv.zero_grad();
    const Tensor c = conv(x);
    Tensor loss = (bn.relu(c) * 2).sum();
    if (also_plain) loss = loss + c.sum();
    loss.backward();
    return conv.bias.grad().to_vector<double>();
  };
  for (const double g : bias_gradient(false)) CHECK(g == 0);
  for (const double g : bias_gradient(true)) CHECK(g == Approx(32).epsilon(1e-4));  // 2 x 4 x 4 pixels
}
