// Twenty training steps of the example's network against PyTorch's (tests/golden/make_convnet.py says what the file holds).
#include <map>

#include "../examples/cifar10/convnet.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

using Golden = std::map<std::string, Tensor>;

Golden read_golden() {
  Golden golden;
  for (auto& [name, tensor] : load_safetensors(SPOOL_SOURCE_DIR "/tests/golden/convnet.safetensors").tensors)
    golden[name] = tensor;
  return golden;
}

void set_start(ConvNet& model, const Golden& golden) {
  NoGrad guard;
  for (auto& [name, parameter] : model.named_parameters())
    Tensor(parameter).copy_((golden.at("start." + name).to(f32) - 128.0) * golden.at("scale." + name));
}

// The largest difference, relative to the largest value that was wanted.
double error_of(const Tensor& got, const Tensor& want) {
  const Tensor w = want.to(f64), difference = abs(got.detach().to(f64) - w);
  return difference.max().item<double>() / std::max(abs(w).max().item<double>(), 1e-30);
}

// Every element where the file has them all; for fc1.weight some rows, and sums over each.
double error_of_parameter(const Golden& golden, const std::string& kind, const std::string& name, const Tensor& got) {
  const Tensor& want = golden.at(kind + name);
  if (name != "fc1.weight") return error_of(got, want);
  const Tensor all = got.detach().to(f64);
  return std::max(
      {error_of(all.slice(0, {}, {}, 16), want), error_of(all.square().sum({1}), golden.at(kind + name + ".rowsquares")),
       // Sums nearly cancel: they are measured against the sum of magnitudes.
       abs(all.sum({1}) - golden.at(kind + name + ".rowsum")).max().item<double>() / abs(all).sum({1}).max().item<double>()});
}

}  // namespace

TEST_CASE("Twenty steps of forward, backward, clip and Adam agree with PyTorch") {
  const Golden golden = read_golden();
  ConvNet model;
  set_start(model, golden);
  Adam adam(model.parameters(), {.lr = 1e-4, .clip_norm = 1.0});
  const std::vector<double> losses = golden.at("losses").to_vector<double>();
  REQUIRE(losses.size() == 20);
  for (std::int64_t step = 0; step < 20; ++step) {
    const Tensor x = golden.at("images")[step].to(f32) / 127.5 - 1.0;
    adam.zero_grad();
    const Tensor logits = model(x);
    const Tensor loss = cross_entropy(logits, golden.at("labels")[step]);
    loss.backward();
    INFO("step " << step);
    CHECK(loss.item<double>() == Approx(losses[static_cast<std::size_t>(step)]).epsilon(1e-4));
    if (step == 0) {
      CHECK(error_of(logits, golden.at("logits")) < 1e-5);
      for (const auto& [name, parameter] : model.named_parameters()) {
        INFO("gradient of " << name);
        // A bias before batch norm has no gradient: both compute rounding errors around zero.
        if (name == "conv1.bias" || name == "conv2.bias")
          CHECK(abs(parameter.grad()).max().item<double>() < 1e-6);
        else
          CHECK(error_of_parameter(golden, "grad.", name, parameter.grad()) < 1e-5);
      }
    }
    adam.step();
  }
  for (const auto& [name, tensor] : model.state_dict()) {
    if (name == "conv1.bias" || name == "conv2.bias") continue;  // moved by rounding errors alone
    INFO(name << " after the last step");
    // A running mean contains such a bias, which 20 steps of Adam can move by 20 lr.
    const bool holds_bias = contains(name, "running_mean");
    CHECK(error_of_parameter(golden, "end.", name, tensor) < (holds_bias ? 1e-2 : 1e-4));
  }
}
