#include "spool/autograd/autocast.h"

#include "catch.h"
#include "spool/spool.h"

using namespace spool;

namespace {

struct Net : Module {
  Conv2d& conv = add<Conv2d>("conv", {.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn = add<BatchNorm2d>("bn", {.num_features = 16});
  Linear& fc = add<Linear>("fc", {.in_features = 16 * 4 * 4, .out_features = 5});
  Tensor forward(const Tensor& x) override { return fc(flatten(bn.relu_max_pool2d(conv(x), {.kernel_size = 2}), 1)); }
};

}  // namespace

TEST_CASE("Under Autocast products are bf16, and losses, parameters, gradients and statistics f32") {
  manual_seed(0);
  Net net;
  const Tensor x = randn({6, 3, 8, 8}), labels = randint(0, 5, {6});
  const Tensor exact = cross_entropy(net(x), labels);
  exact.backward();
  std::vector<Tensor> wanted;
  for (const Tensor& p : net.parameters()) wanted.push_back(p.grad().clone());
  net.zero_grad();
  Tensor hidden, logits, loss;
  {
    const Autocast mixed;
    hidden = net.conv(x);
    logits = net(x);
    loss = cross_entropy(logits, labels);
    const Autocast off(false);
    CHECK(net.conv(x).dtype() == f32);
  }
  CHECK(net.conv(x).dtype() == f32);
  CHECK(hidden.dtype() == bf16);
  CHECK(logits.dtype() == bf16);
  CHECK(loss.dtype() == f32);
  CHECK(loss.item() == Approx(exact.item()).epsilon(0.02));
  CHECK(net.bn.running_mean.dtype() == f32);
  loss.backward();
  const std::vector<Tensor> parameters = net.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(parameters[i].dtype() == f32);
    REQUIRE(parameters[i].grad().dtype() == f32);
    const double size = wanted[i].norm().item<double>();
    CHECK((parameters[i].grad() - wanted[i]).norm().item<double>() <= 0.1 * size + 1e-6);
  }
}

TEST_CASE("Training under Autocast follows training in single precision") {
  const auto losses = [](bool mixed) {
    manual_seed(0);
    Net net;
    Adam adam(net.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
    const Tensor x = randn({32, 3, 8, 8}), labels = randint(0, 5, {32});
    std::vector<double> all;
    for (int i = 0; i < 30; ++i) {
      adam.zero_grad();
      Tensor loss;
      {
        const Autocast guard(mixed);
        loss = cross_entropy(net(x), labels);
      }
      loss.backward();
      adam.step();
      all.push_back(loss.item<double>());
    }
    return all;
  };
  const std::vector<double> a = losses(true), b = losses(false);
  CHECK(b.back() < 0.5 * b.front());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(0.05).margin(0.02));
}

TEST_CASE("Autocast leaves double precision and integers alone") {
  const Autocast mixed;
  CHECK(matmul(ones({2, 3}, {.dtype = f64}), ones({3, 2}, {.dtype = f64})).dtype() == f64);
  CHECK_THROWS_AS(matmul(ones({2, 3}, {.dtype = i64}), ones({3, 2}, {.dtype = i64})), DTypeError);
}
