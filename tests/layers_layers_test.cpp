// What each layer adds to the function of its name: options, state, printing.
#include "support.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("Layers describe themselves as PyTorch prints them") {
  CHECK(Conv2d({.in_channels = 4,
                .out_channels = 8,
                .kernel_size = {3, 5},
                .stride = 2,
                .dilation = {1, 2},
                .groups = 2,
                .bias = false})
            .describe() == "Conv2d(4, 8, kernel_size=(3, 5), stride=(2, 2), dilation=(1, 2), groups=2, bias=False)");
  CHECK(ConvTranspose2d({.in_channels = 4, .out_channels = 8, .kernel_size = 3, .stride = 2, .output_padding = 1, .groups = 2})
            .describe() == "ConvTranspose2d(4, 8, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1), groups=2)");
  CHECK(BatchNorm1d({.num_features = 3, .momentum = {}, .affine = false}).describe() ==
        "BatchNorm1d(3, eps=1e-05, momentum=None, affine=False, bias=False, track_running_stats=True)");
  CHECK(LayerNorm({.normalized_shape = {8, 8}}).describe() == "LayerNorm((8, 8), eps=1e-05, elementwise_affine=True, bias=True)");
  CHECK(LayerNorm({.normalized_shape = {64}, .bias = false}).describe() ==
        "LayerNorm((64,), eps=1e-05, elementwise_affine=True, bias=False)");
  CHECK(GroupNorm({.num_groups = 2, .num_channels = 4}).describe() == "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)");
  CHECK(MaxPool2d({.kernel_size = {2, 3}, .ceil_mode = true}).describe() ==
        "MaxPool2d(kernel_size=(2, 3), stride=(2, 3), padding=0, dilation=1, ceil_mode=True)");
  CHECK(AvgPool2d({.kernel_size = 2}).describe() == "AvgPool2d(kernel_size=2, stride=2, padding=0)");
  CHECK(AdaptiveAvgPool2d({.output_size = {1, 2}}).describe() == "AdaptiveAvgPool2d(output_size=(1, 2))");
  CHECK(Embedding({.num_embeddings = 10, .embedding_dim = 3, .padding_idx = -1}).describe() == "Embedding(10, 3, padding_idx=9)");
  CHECK(Flatten().describe() == "Flatten(start_dim=1, end_dim=-1)");
  CHECK(Softmax({.dim = 1}).describe() == "Softmax(dim=1)");
  CHECK(LeakyReLU().describe() == "LeakyReLU(negative_slope=0.01)");
  CHECK(Dropout({.p = 0.25}).describe() == "Dropout(p=0.25)");
  CHECK(Identity().describe() == "Identity()");
}

TEST_CASE("Options are checked when a layer is made, and the message names layer, option and value") {
  const auto says = [](auto make, std::initializer_list<const char*> parts) {
    const std::string text = message_of<ValueError>(make);
    for (const char* part : parts) {
      INFO(text);
      CHECK(contains(text, part));
    }
  };
  says([] { Conv2d({.out_channels = 8, .kernel_size = 3}); }, {"Conv2d", "in_channels", "at least 1, not 0"});
  says([] { Conv2d({.in_channels = 3, .out_channels = 8}); }, {"kernel_size"});
  says([] { Conv2d({.in_channels = 3, .out_channels = 8, .kernel_size = 3, .groups = 2}); }, {"groups = 2", "in_channels = 3"});
  says([] { Conv2d({.in_channels = 3, .out_channels = 8, .kernel_size = 3, .padding = {0, -1}}); }, {"padding", "-1"});
  says([] { ConvTranspose2d({.in_channels = 3, .out_channels = 8, .kernel_size = 3, .stride = 2, .output_padding = 2}); },
       {"output_padding"});
  says([] { Linear({.in_features = 3}); }, {"Linear", "out_features"});
  says([] { BatchNorm2d({}); }, {"BatchNorm2d", "num_features"});
  says([] { BatchNorm1d({.num_features = 2, .momentum = 1.5}); }, {"momentum", "1.5"});
  says([] { LayerNorm({}); }, {"normalized_shape"});
  says([] { GroupNorm({.num_groups = 3, .num_channels = 4}); }, {"num_groups = 3", "num_channels = 4"});
  says([] { MaxPool2d({.kernel_size = 3, .padding = 2}); }, {"MaxPool2d", "padding", "half"});
  says([] { AvgPool2d({.kernel_size = 0}); }, {"AvgPool2d", "kernel_size"});
  says([] { Dropout({.p = 1.1}); }, {"Dropout", "1.1"});
  says([] { Dropout({.p = -0.1}); }, {"-0.1"});
  says([] { Embedding({.num_embeddings = 4, .embedding_dim = 2, .padding_idx = 4}); }, {"padding_idx = 4"});
  says([] { Softmax({}); }, {".dim"});
  says([] { Softplus({.beta = 0}); }, {"beta"});
}

TEST_CASE("Batch norm keeps running statistics, counts batches, and uses them in eval mode") {
  BatchNorm1d bn({.num_features = 1});
  const Tensor x = tensor({{2}, {4}, {6}, {8}});
  check_close(bn(x), {-1.3416393, -0.4472131, 0.4472131, 1.3416393}, 1e-5);
  CHECK(bn.running_mean.item<float>() == Approx(0.5));
  CHECK(bn.running_var.item<float>() == Approx(1.5666667));  // the variance over n - 1 enters, not the one over n
  bn(x);
  CHECK(bn.running_mean.item<float>() == Approx(0.95));
  CHECK(bn.running_var.item<float>() == Approx(2.0766667));
  CHECK(bn.num_batches_tracked.item<std::int64_t>() == 2);
  bn.eval();
  check_close(bn(x), {0.7286264, 2.1164861, 3.5043459, 4.8922052}, 1e-5);
  CHECK(bn.num_batches_tracked.item<std::int64_t>() == 2);
  bn.reset_running_stats();
  CHECK(bn.running_var.item<float>() == 1);
}

TEST_CASE("Batch norm refuses a batch of one in training, and its statistics stay as they were") {
  BatchNorm1d bn({.num_features = 2});
  const std::string text = message_of<ValueError>([&] { bn(ones({1, 2})); });
  CHECK(contains(text, "BatchNorm1d"));
  CHECK(bn.num_batches_tracked.item<std::int64_t>() == 0);
  CHECK(bn.running_mean.to_vector<float>() == std::vector<float>{0, 0});
  bn.eval();
  CHECK(bn(ones({1, 2})).size(0) == 1);
  BatchNorm2d bn2({.num_features = 2});
  CHECK_THROWS_AS(bn2(ones({4, 2})), ShapeError);
  CHECK_THROWS_AS(bn(ones({4, 2, 1, 1})), ShapeError);
}

TEST_CASE("Batch norm with a plain average, and without running statistics") {
  BatchNorm1d average({.num_features = 1, .momentum = {}});
  average(tensor({{0}, {2}}));
  average(tensor({{4}, {6}}));
  CHECK(average.running_mean.item<float>() == Approx(3));
  CHECK(average.running_var.item<float>() == Approx(2));
  BatchNorm1d none({.num_features = 1, .affine = false, .track_running_stats = false});
  CHECK(none.state_dict().empty());
  none.eval();
  check_close(none(tensor({{2}, {4}, {6}, {8}})), {-1.3416393, -0.4472131, 0.4472131, 1.3416393}, 1e-5);
}

TEST_CASE("Layer norm and group norm have their affine parameters") {
  LayerNorm layer({.normalized_shape = {4}});
  {
    NoGrad guard;
    layer.weight.fill_(2);
    layer.bias.fill_(1);
  }
  check_close(layer(tensor({{1, 2, 3, 4}})), {-1.6832708, 0.1055764, 1.8944236, 3.6832708}, 1e-5);
  CHECK(layer.parameters().size() == 2);
  CHECK(LayerNorm({.normalized_shape = {4}, .elementwise_affine = false}).parameters().empty());
  GroupNorm group({.num_groups = 2, .num_channels = 4});
  check_close(group(tensor({{1, 3, 10, 30}})), {-0.999995, 0.999995, -1, 1}, 1e-5);
  CHECK(GroupNorm({.num_groups = 2, .num_channels = 4, .bias = false}).parameters().size() == 1);
}

TEST_CASE("Dropout is the identity in eval mode and scales what it keeps in training") {
  manual_seed(1);
  Dropout drop({.p = 0.3});
  const Tensor x = ones({10000});
  int kept = 0;
  for (const float v : drop(x).to_vector<float>()) {
    CHECK((v == 0 || v == Approx(1.4285715)));
    kept += v != 0;
  }
  CHECK(kept == Approx(7000).epsilon(0.03));
  drop.eval();
  CHECK(drop(x).to_vector<float>() == x.to_vector<float>());
  Tensor w = ones({3}).set_requires_grad();
  sum(drop(w)).backward();
  CHECK(w.grad().to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("An embedding's padding row stays zero and gets no gradient") {
  Embedding table({.num_embeddings = 4, .embedding_dim = 2, .padding_idx = 0});
  const Tensor y = table(tensor<std::int64_t>({0, 2, 2, 0}));
  CHECK(y.select(0, 0).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(y.select(0, 1).to_vector<float>() == table.weight.select(0, 2).to_vector<float>());
  sum(y).backward();
  CHECK(table.weight.grad().to_vector<float>() == std::vector<float>{0, 0, 0, 0, 2, 2, 0, 0});
  NoGrad guard;
  CHECK(table(tensor<std::int64_t>({3})).to_vector<float>() == table.weight.select(0, 3).to_vector<float>());
}

TEST_CASE("Modules compute the function of their name") {
  const Tensor x = tensor({{-2, -0.5, 0, 1.5}});
  const auto same = [&](Module&& m, const Tensor& want) {
    INFO(m.describe());
    CHECK(m(x).to_vector<float>() == want.to_vector<float>());
  };
  same(ReLU(), relu(x));
  same(LeakyReLU({.negative_slope = 0.2}), leaky_relu(x, 0.2));
  same(GELU(), gelu(x));
  same(SiLU(), silu(x));
  same(Tanh(), tanh(x));
  same(Sigmoid(), sigmoid(x));
  same(Softplus(), softplus(x));
  check_close(Softplus({.beta = 2})(x), {0.0090750, 0.1566308, 0.3465736, 1.5242936}, 1e-6);
  same(Softmax({.dim = 1}), softmax(x, 1));
  same(LogSoftmax({.dim = -1}), log_softmax(x, 1));
  same(Identity(), x);
  same(Flatten(), x);
  const Tensor image = randn({2, 3, 6, 6});
  CHECK(Flatten()(image).shape() == Shape{2, 108});
  CHECK(MaxPool2d({.kernel_size = 2})(image).to_vector<float>() == max_pool2d(image, {.kernel_size = 2}).to_vector<float>());
  CHECK(AvgPool2d({.kernel_size = 3, .padding = 1})(image).to_vector<float>() ==
        avg_pool2d(image, {.kernel_size = 3, .padding = 1}).to_vector<float>());
  CHECK(AdaptiveAvgPool2d({.output_size = 1})(image).shape() == Shape{2, 3, 1, 1});
  ConvTranspose2d up({.in_channels = 3, .out_channels = 2, .kernel_size = 2, .stride = 2});
  CHECK(up(image).shape() == Shape{2, 2, 12, 12});
  Conv2d down({.in_channels = 3, .out_channels = 6, .kernel_size = 3, .stride = 2, .padding = 1, .groups = 3});
  CHECK(down(image).shape() == Shape{2, 6, 3, 3});
  CHECK_FALSE(Linear({.in_features = 2, .out_features = 2, .bias = false}).bias.defined());
}
