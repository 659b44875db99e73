// Captured steps: they must be the very steps that run without capture, whatever changes from one to the next.
#include <cstdlib>
#include "../examples/cifar10/convnet.h"

#include "cuda_support.h"

using namespace spool;
using namespace spool::test;

namespace {

// A small network with dropout.
struct Net : Module {
  Linear& hidden = add<Linear>("hidden", {.in_features = 6, .out_features = 16});
  Dropout& dropout = add<Dropout>("dropout", {.p = 0.3});
  Linear& out = add<Linear>("out", {.in_features = 16, .out_features = 4});
  Tensor forward(const Tensor& x) override { return out(dropout(relu(hidden(x)))); }
};

struct Run {
  std::vector<double> losses;
  std::vector<double> weights;
  int captured = 0;
  std::string reason;
};

// 14 steps on batches of 8, every fifth one of 5, with a rate that a schedule changes.
template <class Optim, class Options>
Run train(bool capture, Options options) {
  manual_seed(9);
  Net net;
  net.to(gpu);
  Optim optimizer(net.parameters(), options);
  StepLR schedule(optimizer, {.step_size = 3, .gamma = 0.5});
  const auto eager = [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  CapturedStep step(eager, optimizer);
  Generator data(1);
  Run run;
  for (int i = 0; i < 14; ++i) {
    const std::int64_t n = i % 5 == 4 ? 5 : 8;
    const Tensor x = randn({n, 6}, {}, data).to(gpu), y = randint(0, 4, {n}, {.dtype = i64}, data).to(gpu);
    const Tensor loss = capture ? step(x, y) : eager(x, y);
    run.losses.push_back(loss.item<double>());
    run.captured += step.captured();
    schedule.step();
  }
  run.weights = net.hidden.weight.to_vector<double>();
  run.reason = step.reason();
  return run;
}

template <class Optim, class Options>
void compare(Options options) {
  const Run eager = train<Optim>(false, options), captured = train<Optim>(true, options);
  INFO(captured.reason);
  CHECK(captured.captured == 10);  // of twelve batches of 8 all but two; those of 5 come only twice
  CHECK(captured.losses == eager.losses);
  CHECK(captured.weights == eager.weights);
}

}  // namespace

TEST_CASE("Captured steps are the eager ones, bit for bit: schedule, dropout, another shape now and then") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  compare<Adam>(Adam::Options{.lr = 0.05, .clip_norm = 0.5});
  compare<AdamW>(AdamW::Options{.lr = 0.05, .amsgrad = true, .error_if_nonfinite = true});
  compare<SGD>(SGD::Options{.lr = 0.1, .momentum = 0.9, .clip_value = 0.1});
}

TEST_CASE("A step that reads a number back runs as written, and says what prevented its capture") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  Net net;
  net.to(gpu);
  SGD sgd(net.parameters(), {.lr = 0.1});
  int printed = 0;
  CapturedStep step(
      [&](const Tensor& x, const Tensor& y) {
        sgd.zero_grad();
        Tensor loss = cross_entropy(net(x), y);
        if (loss.item() > 0) ++printed;
        loss.backward();
        sgd.step();
        return loss;
      },
      sgd);
  const Tensor x = ones({4, 6}).to(gpu), y = zeros({4}, {.dtype = i64}).to(gpu);
  for (int i = 0; i < 5; ++i) {
    step(x, y);
    CHECK_FALSE(step.captured());
  }
  CHECK(printed == 5);
  CHECK(contains(step.reason(), "cross_entropy"));
  CHECK(contains(step.reason(), "waits"));
  CHECK((ones({2}).to(gpu) + 1).sum().item() == 4.0f);  // the device is as usable as before
}

TEST_CASE("On the CPU a captured step is an ordinary one") {
  Net net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  CapturedStep step(
      [&](const Tensor& x, const Tensor& y) {
        sgd.zero_grad();
        Tensor loss = cross_entropy(net(x), y);
        loss.backward();
        sgd.step();
        return loss;
      },
      sgd);
  CHECK(step(ones({2, 6}), zeros({2}, {.dtype = i64})).item() > 0);
  CHECK(contains(step.reason(), "CPU"));
}

TEST_CASE("Memory of a captured step is not given to others, and comes back with its graph") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  Tensor w = ones({1000}).to(gpu).detach().set_requires_grad();
  SGD sgd({w}, {.lr = 0.0});
  {
    CapturedStep step(
        [&](const Tensor& x, const Tensor&) {
          sgd.zero_grad();
          Tensor loss = sum(mul(mul(w, x), x));
          loss.backward();
          sgd.step();
          return loss;
        },
        sgd);
    const Tensor x = full({1000}, 2).to(gpu), y = zeros({1}).to(gpu);
    for (int i = 0; i < 3; ++i) CHECK(step(x, y).item() == 4000.0f);
    CHECK(step.captured());
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i) others.push_back(full({1000}, i).to(gpu));
    for (int i = 0; i < 3; ++i) CHECK(step(x, y).item() == 4000.0f);
    for (int i = 0; i < 20; ++i) CHECK(others[static_cast<std::size_t>(i)].sum().item() == 1000.0f * static_cast<float>(i));
  }
  sgd.zero_grad();
  CHECK((w * 3).sum().item() == 3000.0f);
}

TEST_CASE("The example's step is one graph") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  ConvNet model;
  model.to(gpu);
  Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
  CapturedStep step(
      [&](const Tensor& x, const Tensor& y) {
        adam.zero_grad();
        Tensor loss = cross_entropy(model(x), y);
        loss.backward();
        adam.step();
        return loss;
      },
      adam);
  Generator g(2);
  const Tensor x = randn({8, 3, 32, 32}, {}, g).contiguous(MemoryFormat::channels_last).to(gpu),
               y = randint(0, 10, {8}, {.dtype = i64}, g).to(gpu);
  for (int i = 0; i < 3; ++i) step(x, y);
  INFO(step.reason());
  REQUIRE(step.captured());
  synchronize(gpu);
  const CudaWork before = cuda_work();
  step(x, y);
  const CudaWork after = cuda_work();
  INFO(step.nodes() << " nodes");
  CHECK(step.nodes() <= 40);
  CHECK(after.launches - before.launches == 3);  // two copies into the graph's inputs, and the graph
  if (!std::getenv("SPOOL_CUDA_SYNC")) CHECK(after.synchronisations == before.synchronisations);
  CHECK(after.bytes_to_device == before.bytes_to_device);
  synchronize(gpu);
}
