// Tutorial 07: when it goes wrong. README.md quotes this file.
#include <spool/spool.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <vector>

using namespace spool;

namespace {

// [expect]
void expect_error(const std::function<void()>& f) {
  try {
    f();
    std::cout << "no error\n";
  } catch (const Error& e) {
    std::cout << e.what() << "\n";
  }
}
// [/expect]

// [wrong_net]
struct Net : Module {
  Conv2d& conv = add<Conv2d>("conv", {.in_channels = 3, .out_channels = 8, .kernel_size = 3});
  Linear& fc = add<Linear>("fc", {.in_features = 8 * 16 * 16, .out_features = 10});
  Tensor forward(const Tensor& x) override { return fc(flatten(max_pool2d(relu(conv(x)), {.kernel_size = 2}), 1)); }
};
// [/wrong_net]

// [nan_net]
// The logarithm of an output that may be negative.
struct LogNet : Module {
  Linear& hidden = add<Linear>("hidden", {.in_features = 4, .out_features = 8});
  Linear& out = add<Linear>("out", {.in_features = 8, .out_features = 2});
  Tensor forward(const Tensor& x) override { return out(log(hidden(x))); }
};
// [/nan_net]

// [anomaly_step]
Tensor loss_of(LogNet& net) { return cross_entropy(net(randn({16, 4})), zeros({16}, {.dtype = i64})); }

Tensor distance_to_origin(const Tensor& points) {
  const Tensor squares = square(points).sum({1});
  return sqrt(squares).sum();
}
// [/anomaly_step]

// [overwrite]
Tensor scaled(const Tensor& x) {
  Tensor scale = full({3}, 2);
  const Tensor y = x * scale;
  scale.add_(1);
  return y.sum();
}
// [/overwrite]

// [repeat]
// The same layer many times over, as a recurrent network does.
struct Repeat : Module {
  Linear& cell = add<Linear>("cell", {.in_features = 8, .out_features = 8, .bias = false});
  std::int64_t times;
  explicit Repeat(std::int64_t n) : times(n) {
    NoGrad guard;
    cell.weight.mul_(3);  // too large on purpose
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (std::int64_t i = 0; i < times; ++i) h = cell(h);
    return h;
  }
};
// [/repeat]

// [normed]
struct Normed : Module {
  Linear& fc = add<Linear>("fc", {.in_features = 4, .out_features = 4});
  BatchNorm1d& bn = add<BatchNorm1d>("bn", {.num_features = 4});
  Dropout& dropout = add<Dropout>("dropout", {.p = 0.5});
  Tensor forward(const Tensor& x) override { return dropout(bn(fc(x))); }
};
// [/normed]

// [guarded]
struct Softmaxed : Module {
  Linear& fc = add<Linear>("fc", {.in_features = 4, .out_features = 2});
  Linear& unused = add<Linear>("unused", {.in_features = 4, .out_features = 2});
  bool apply_softmax = true;
  Tensor forward(const Tensor& x) override { return apply_softmax ? softmax(fc(x), 1) : fc(x); }
};
// [/guarded]

// [train]
double train(const Repeat& start, std::optional<double> clip_norm) {
  Repeat model(start.times);
  model.load_state_dict(start.state_dict());
  SGD sgd(model.parameters(), {.lr = 0.05, .clip_norm = clip_norm});
  const Tensor x = ones({1, 8}), target = zeros({1, 8});
  double loss_value = 0;
  for (int step = 0; step < 200; ++step) {
    sgd.zero_grad();
    const Tensor loss = mse_loss(model(x), target);
    loss.backward();
    sgd.step();
    loss_value = loss.item<double>();
  }
  return loss_value;
}
// [/train]

}  // namespace

int main() {
  set_num_threads(1);
  manual_seed(0);
  {
    // [shapes]
    Net net;
    const Tensor x = zeros({2, 3, 32, 32});
    expect_error([&] { net(x); });
    // [/shapes]
    // [look]
    const Tensor h = max_pool2d(relu(net.conv(x)), {.kernel_size = 2});
    std::cout << "after pooling: " << describe(h) << "\n";
    expect_error([&] { net(zeros({2, 32, 32, 3})); });
    // [/look]
    // [labels]
    expect_error([&] { cross_entropy(zeros({3, 10}), tensor({1, 10, 2}).to(i64)); });
    // [/labels]
  }
  {
    // [nan]
    LogNet net;
    SGD sgd(net.parameters(), {.lr = 0.1});
    const TensorDataset data(randn({32, 4}), zeros({32}, {.dtype = i64}));
    DataLoader loader(data, {.batch_size = 16});
    const Tensor before = net.out.weight.clone();
    Trainer trainer(net, sgd, {.verbose = false});
    expect_error([&] { trainer.fit(loader); });
    std::cout << "the weights are as they were: " << std::boolalpha << equal(before, net.out.weight) << "\n";
    // [/nan]
    // [check_finite]
    cross_entropy(net(randn({16, 4})), zeros({16}, {.dtype = i64})).backward();
    expect_error([&] { sgd.step({.check_finite = true}); });
    // [/check_finite]
    {
      // [anomaly]
      const DetectAnomaly guard;
      expect_error([&] { loss_of(net); });
      const Tensor points = tensor({3, 4, 0, 0}).reshape({2, 2}).set_requires_grad();
      const Tensor distances = distance_to_origin(points);
      expect_error([&] { distances.backward(); });
      // [/anomaly]
    }
    // [overwritten]
    const Tensor x = ones({3}).set_requires_grad();
    expect_error([&] { scaled(x).backward(); });
    const DetectAnomaly guard;
    const Tensor sum = scaled(x);
    expect_error([&] { sum.backward(); });
    // [/overwritten]
  }
  {
    // [explode]
    for (const int times : {1, 10, 20, 40}) {
      manual_seed(0);
      Repeat model(times);
      mse_loss(model(ones({1, 8})), zeros({1, 8})).backward();
      std::printf("%2d times: gradient norm %.0e\n", times, model.cell.weight.grad().norm().item<double>());
    }
    // [/explode]
    // [clip]
    manual_seed(0);
    const Repeat start(20);
    std::printf("the loss is finite in the end: %s\n", std::isfinite(train(start, {})) ? "yes" : "no");
    std::printf("with clip_norm = 1 it is below one: %s\n", train(start, 1.0) < 1 ? "yes" : "no");
    // [/clip]
  }
  {
    // [zero_grad]
    Linear fc({.in_features = 4, .out_features = 2});
    SGD sgd(fc.parameters(), {.lr = 0.1});
    const Tensor x = ones({3, 4});
    square(fc(x)).mean().backward();
    sgd.step();
    square(fc(x)).mean().backward();
    expect_error([&] { sgd.step(); });
    sgd.zero_grad();
    expect_error([&] { sgd.step(); });
    // [/zero_grad]
  }
  {
    // [eval]
    Normed net;
    const Tensor x = randn({4, 4});
    const Tensor alone = net(x)[0], again = net(x)[0];
    std::cout << "the same input, the same output: " << equal(alone, again) << "\n";
    net.eval();
    const auto differ = [](const Tensor& a, const Tensor& b) { return ((a - b).abs().max() > 1e-5).item<bool>(); };
    std::cout << "in eval mode they differ: " << differ(net(x)[0], net(x)[0]);
    std::cout << ", with other neighbours: " << differ(net(x)[0], net(x.narrow(0, 0, 2))[0]) << "\n";
    net.train();
    expect_error([&] { net(x.narrow(0, 0, 1)); });
    // [/eval]
  }
  {
    // [guards]
    Softmaxed net;
    SGD sgd(net.parameters(), {.lr = 0.1});
    const TensorDataset data(randn({32, 4}), zeros({32}, {.dtype = i64}));
    DataLoader loader(data, {.batch_size = 16}), validation(data, {.batch_size = 16});
    Trainer trainer(net, sgd, {.verbose = false});
    expect_error([&] { trainer.fit(loader); });
    net.apply_softmax = false;
    for (const std::string& warning : trainer.fit(loader, validation).warnings) std::cout << warning << "\n";
    // [/guards]
  }
  {
    // [memory]
    Linear fc({.in_features = 256, .out_features = 256});
    const auto in_use = [start = memory_stats().allocated] {
      return static_cast<double>(memory_stats().allocated - start) / (1 << 20);
    };
    const auto run = [&] { return square(fc(randn({256, 256}))).mean(); };
    Tensor sum = zeros({});
    for (int i = 0; i < 100; ++i) sum = sum + run();
    std::printf("100 losses added up: about %.0f MiB\n", in_use());
    sum = Tensor();
    double total = 0;
    for (int i = 0; i < 100; ++i) total += run().item<double>();
    std::printf("their numbers added up, %.1f on average: about %.0f MiB\n", total / 100, in_use());
    // [/memory]
    // [tape]
    print_tape(std::cout, run());
    // [/tape]
  }
  {
    // [summary]
    Sequential net;
    net.append<Conv2d>({.in_channels = 3, .out_channels = 64, .kernel_size = 3, .padding = 1});
    net.append<ReLU>();
    net.append<Conv2d>({.in_channels = 64, .out_channels = 64, .kernel_size = 3, .padding = 1});
    net.append<ReLU>();
    std::cout << summary(net, zeros({16, 3, 32, 32}));
    // [/summary]
  }
}
