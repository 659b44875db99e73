// The network of the bundled example, as a user writes it.
#include <sstream>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

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

}  // namespace

TEST_CASE("The ConvNet has PyTorch's names and number of parameters, and prints") {
  ConvNet model;
  CHECK(model.num_parameters() == 1'070'986);
  std::vector<std::string> names;
  for (const NamedTensor& t : model.state_dict()) names.push_back(t.name);
  CHECK(names == std::vector<std::string>{"conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", "bn1.running_mean",
                                          "bn1.running_var", "bn1.num_batches_tracked", "conv2.weight", "conv2.bias",
                                          "bn2.weight", "bn2.bias", "bn2.running_mean", "bn2.running_var",
                                          "bn2.num_batches_tracked", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
  std::ostringstream out;
  out << model;
  CHECK(out.str() == R"(ConvNet(
  (conv1): Conv2d(3, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))                                896
  (bn1): BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)         64
  (conv2): Conv2d(32, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))                            18,496
  (bn2): BatchNorm2d(64, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)        128
  (fc1): Linear(in_features=4096, out_features=256, bias=True)                                       1,048,832
  (fc2): Linear(in_features=256, out_features=10, bias=True)                                             2,570
)
1,070,986 parameters)");
}

TEST_CASE("The ConvNet trains: every parameter gets a gradient and the loss of one batch falls") {
  manual_seed(0);
  ConvNet model;
  Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
  const Tensor images = randn({8, 3, 32, 32}), labels = randint(0, 10, {8});
  float first = 0, last = 0;
  for (int i = 0; i < 10; ++i) {
    adam.zero_grad();
    const Tensor loss = cross_entropy(model(images), labels);
    loss.backward();
    adam.step();
    last = loss.item<float>();
    if (i == 0) first = last;
  }
  for (const NamedTensor& p : model.named_parameters()) {
    INFO(p.name);
    CHECK(p.tensor.grad().defined());
  }
  CHECK(first > 1.5);
  CHECK(last < 0.7 * first);
  CHECK(model.bn1.num_batches_tracked.item<std::int64_t>() == 10);
  CHECK(adam.last_grad_norm().item<double>() > 0);
}

TEST_CASE("A wrong input to the ConvNet names the layer, by path and description") {
  ConvNet model;
  try {
    model(randn({2, 3, 28, 28}));
    FAIL("nothing was thrown");
  } catch (const ShapeError& e) {
    CHECK(e.layer() == "fc1");
    CHECK(contains(e.what(), "layer fc1   Linear(in_features=4096, out_features=256, bias=True)"));
  }
  CHECK(contains(message_of<ShapeError>([&] { model(randn({2, 1, 32, 32})); }), "layer conv1"));
}

TEST_CASE("Convolution weights lie channels-last in memory and are saved in PyTorch's order") {
  ConvNet model;
  CHECK(model.conv2.weight.shape() == Shape{64, 32, 3, 3});
  CHECK(model.conv2.weight.is_contiguous(MemoryFormat::channels_last));
  const std::string path = std::string(SPOOL_BINARY_DIR) + "/convnet_order.safetensors";
  save_weights(model, path);
  const TensorFile file = load_safetensors(path);
  const Tensor* saved = find_tensor(file.tensors, "conv2.weight");
  REQUIRE(saved);
  CHECK(saved->is_contiguous());
  CHECK(saved->to_vector<float>() == model.conv2.weight.to_vector<float>());
  ConvNet other;
  load_weights(other, path);
  CHECK(other.conv2.weight.is_contiguous(MemoryFormat::channels_last));
  const Tensor x = randn({1, 3, 32, 32});
  EvalMode one(model), two(other);
  NoGrad guard;
  CHECK(model(x).to_vector<float>() == other(x).to_vector<float>());
}
