#include <cmath>

#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

// The example's network with every operation by itself.
struct ConvNet : Module {
  Conv2d& conv1 = add<Conv2d>("conv1", {.in_channels = 3, .out_channels = 32, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn1 = add<BatchNorm2d>("bn1", {.num_features = 32});
  Conv2d& conv2 = add<Conv2d>("conv2", {.in_channels = 32, .out_channels = 64, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn2 = add<BatchNorm2d>("bn2", {.num_features = 64});
  Linear& fc1 = add<Linear>("fc1", {.in_features = 64 * 8 * 8, .out_features = 256});
  Linear& fc2 = add<Linear>("fc2", {.in_features = 256, .out_features = 10});
  Tensor forward(const Tensor& x) override {
    Tensor h = max_pool2d(relu(bn1(conv1(x))), {.kernel_size = 2});
    h = max_pool2d(relu(bn2(conv2(h))), {.kernel_size = 2});
    return fc2(relu(fc1(flatten(h, 1))));
  }
};

const LayerSummary& layer(const ModelSummary& s, const std::string& name) {
  for (const LayerSummary& l : s.layers)
    if (l.name == name) return l;
  FAIL("there is no layer " << name);
  return s.layers.front();
}

}  // namespace

TEST_CASE("summary() gives the shapes, parameters, arithmetic and memory of a network") {
  ConvNet model;
  const StateDict before = copy_of(model.state_dict());
  const ModelSummary s = summary(model, zeros({2, 3, 32, 32}));
  CHECK(same_bits(copy_of(model.state_dict()), before));
  CHECK(model.is_training());
  CHECK(s.parameters == 1'070'986);
  CHECK(s.trainable == 1'070'986);
  CHECK(s.parameter_bytes == 4u * 1'070'986);
  CHECK(layer(s, "conv1").output == Shape{2, 32, 32, 32});
  CHECK(layer(s, "conv1").parameters == 32 * 3 * 9 + 32);
  CHECK(layer(s, "conv1").flops == 2.0 * 2 * 32 * 32 * 32 * 3 * 9);
  CHECK(layer(s, "conv2").flops == 2.0 * 2 * 64 * 16 * 16 * 32 * 9);
  CHECK(layer(s, "fc1").flops == 2.0 * 2 * 4096 * 256);
  CHECK(layer(s, "fc2").output == Shape{2, 10});
  CHECK(layer(s, "bn1").parameters == 64);
  CHECK(layer(s, "max_pool2d").output == Shape{2, 32, 16, 16});
  CHECK(layer(s, "max_pool2d").what == "in ConvNet");
  // conv1 keeps its input for the weight's gradient.
  CHECK(layer(s, "conv1").saved_bytes == 2u * 3 * 32 * 32 * 4);
  model.conv2.weight.set_requires_grad(false);
  CHECK(layer(summary(model, zeros({2, 3, 32, 32})), "conv2").flops == layer(s, "conv2").flops);
  model.conv2.weight.set_requires_grad(true);
  double flops = 0;
  std::size_t saved = 0;
  for (const LayerSummary& l : s.layers) flops += l.flops, saved += l.saved_bytes;
  CHECK(s.flops == flops);
  CHECK(s.saved_bytes == saved);
  CHECK(mentions(to_string(s), {"ConvNet on [2, 3, 32, 32]", "conv1 ", "[2, 32, 32, 32]", "896", "1,070,986 parameters",
                                "4.1 MiB", "saved for backward"}));
}

TEST_CASE("A layer that is used twice has its parameters counted once, and frozen ones are not trainable") {
  struct Twice : Module {
    Linear& fc = add<Linear>("fc", {.in_features = 3, .out_features = 3});
    Tensor forward(const Tensor& x) override { return fc(relu(fc(x))); }
  } model;
  model.fc.bias.set_requires_grad(false);
  const ModelSummary s = summary(model, ones({1, 3}));
  REQUIRE(s.layers.size() == 3);
  CHECK(s.layers[0].parameters + s.layers[2].parameters == 9);  // the bias asks for no gradient, so it is not on the tape
  CHECK(s.parameters == 12);
  CHECK(s.trainable == 9);
  struct Broken : Module {
    Dropout& drop = add<Dropout>("drop", {.p = 0.5});
    Tensor forward(const Tensor& x) override {
      drop(x);
      throw ValueError("broken", "on purpose");
    }
  } broken;
  const std::uint64_t position = default_generator().position();
  CHECK_THROWS_AS(summary(broken, ones({1})), ValueError);
  CHECK(default_generator().position() == position);
}

TEST_CASE("time_layers() gives a time for each layer and leaves everything as it was") {
  SmallRun run;
  run.model->train();
  const Batch batch = [&] { return *run.training->begin(); }();
  cross_entropy((*run.model)(batch.inputs), batch.targets).backward();
  const StateDict before = run.state();
  const std::string gradient = bytes_of(run.model->fc.weight.grad());
  const std::uint64_t position = default_generator().position();
  const auto times = time_layers(
      *run.model, [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); }, batch, 3);
  std::vector<std::string> names;
  for (const LayerTime& t : times) {
    names.push_back(t.name);
    CHECK(t.forward > 0);
    CHECK(t.forward < 1);
    if (t.name == "conv" || t.name == "fc") CHECK(t.backward > 0);
  }
  CHECK(names == std::vector<std::string>{"conv", "bn", "relu", "contiguous", "view", "drop", "fc", "view", "cross_entropy"});
  CHECK(same_bits(run.state(), before));
  CHECK(bytes_of(run.model->fc.weight.grad()) == gradient);
  CHECK(default_generator().position() == position);
}

TEST_CASE("summary() counts the arithmetic of a transposed convolution by its input") {
  ConvTranspose2d up({.in_channels = 4, .out_channels = 2, .kernel_size = 3, .stride = 2});
  CHECK(summary(up, zeros({1, 4, 5, 5})).layers.at(0).flops >= 2.0 * 4 * 5 * 5 * 2 * 9);
  CHECK(summary(up, zeros({1, 4, 5, 5})).flops == 2.0 * 4 * 5 * 5 * 2 * 9 + 2 * 11 * 11);
}
