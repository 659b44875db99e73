// Training on a device: the example's network gives the CPU's losses, and a step costs no more than it should.
#include <cstdlib>

#include "../examples/cifar10/convnet.h"
#include "cuda_support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Pictures {
  Tensor images, labels;
};
Pictures make_pictures(std::int64_t n) {
  Generator g(2);
  return {randn({n, 3, 32, 32}, {}, g).contiguous(MemoryFormat::channels_last), randint(0, 10, {n}, {.dtype = i64}, g)};
}

Tensor train_step(Module& model, Optimizer& optimizer, const Tensor& images, const Tensor& labels) {
  optimizer.zero_grad();
  const Tensor loss = cross_entropy(model(images), labels);
  loss.backward();
  optimizer.step();
  return loss;
}

template <class Optim, class Options>
std::vector<double> losses(Device device, int steps, std::int64_t batch, Options options) {
  manual_seed(4);
  ConvNet model;
  model.to(device);
  Optim optimizer(model.parameters(), options);
  const Pictures b = make_pictures(batch);
  const Tensor images = b.images.to(device), labels = b.labels.to(device);
  std::vector<Tensor> kept;
  for (int i = 0; i < steps; ++i) kept.push_back(train_step(model, optimizer, images, labels).detach());
  std::vector<double> values;
  for (const Tensor& loss : kept) values.push_back(loss.item<double>());
  return values;
}

void compare(const std::vector<double>& device, const std::vector<double>& host) {
  REQUIRE(device.size() == host.size());
  for (std::size_t i = 0; i < host.size(); ++i) {
    INFO("step " << i);
    CHECK(device[i] == Approx(host[i]).epsilon(1e-4).margin(1e-4));
  }
}

}  // namespace

TEST_CASE("Twenty steps of Adam on a device have the CPU's losses") {
  SPOOL_NEED_CUDA();
  const Adam::Options options{.lr = 1e-3, .clip_norm = 1.0};
  const std::vector<double> on_device = losses<Adam>(gpu, 20, 8, options);
  compare(on_device, losses<Adam>(Device::cpu(), 20, 8, options));
  CHECK(on_device == losses<Adam>(gpu, 20, 8, options));  // and the same bits every time
}

TEST_CASE("AdamW and SGD on a device have the CPU's losses") {
  SPOOL_NEED_CUDA();
  const AdamW::Options adamw{.lr = 1e-3, .weight_decay = 0.1, .amsgrad = true, .clip_value = 0.01};
  compare(losses<AdamW>(gpu, 5, 4, adamw), losses<AdamW>(Device::cpu(), 5, 4, adamw));
  const SGD::Options sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true, .clip_norm = 1.0};
  compare(losses<SGD>(gpu, 5, 4, sgd), losses<SGD>(Device::cpu(), 5, 4, sgd));
}

TEST_CASE("A training step waits for nothing, allocates nothing and is few launches") {
  SPOOL_NEED_CUDA();
  constexpr std::int64_t batch = 128;
  ConvNet model;
  model.to(gpu);
  Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
  const Pictures b = make_pictures(batch);
  const Tensor images = b.images.to(gpu), labels = b.labels.to(gpu);
  for (int i = 0; i < 2; ++i) train_step(model, adam, images, labels);
  synchronize(gpu);

  const CudaWork before = cuda_work();
  const std::uint64_t asked = memory_stats(gpu).system_allocations;
  train_step(model, adam, images, labels);
  const CudaWork after = cuda_work();
  const double megabytes = static_cast<double>(after.bytes - before.bytes) / 1e6;
  INFO(after.launches - before.launches << " launches, " << megabytes << " MB");
  CHECK(after.launches - before.launches <= 40);
  CHECK(megabytes <= 1.15 * 272);
  CHECK(after.synchronisations == before.synchronisations);
  CHECK(after.bytes_to_device == before.bytes_to_device);
  CHECK(after.bytes_to_host == before.bytes_to_host);
  if (!std::getenv("SPOOL_CUDA_NO_CACHE")) CHECK(memory_stats(gpu).system_allocations == asked);
  synchronize(gpu);
}

namespace {

// Two epochs of the Trainer on a small picture set, with a checkpoint.
struct Trained {
  std::vector<double> losses, accuracies;
  std::vector<double> weights;
};
struct SmallNet : Module {
  Conv2d& conv = add<Conv2d>("conv", {.in_channels = 3, .out_channels = 4, .kernel_size = 3});
  BatchNorm2d& norm = add<BatchNorm2d>("norm", {.num_features = 4});
  Linear& out = add<Linear>("out", {.in_features = 4 * 4 * 4, .out_features = 3});
  Tensor forward(const Tensor& x) override { return out(flatten(relu(norm(conv(x))), 1)); }
};
Trained fit(Device device, const std::string& checkpoint) {
  manual_seed(3);
  SmallNet model;
  model.to(device);
  Generator g(8);
  const ImageDataset data(randint(0, 256, {40, 3, 6, 6}, {.dtype = u8}, g).contiguous(MemoryFormat::channels_last),
                          randint(0, 3, {40}, {.dtype = i64}, g));
  DataLoader loader(data, {.batch_size = 8, .shuffle = true, .transform = RandomHorizontalFlip(), .device = device});
  AdamW adam(model.parameters(), {.lr = 1e-2, .clip_norm = 1.0});
  Trainer trainer(model, adam, {.epochs = 2, .checkpoint = checkpoint, .verbose = false});
  const TrainReport report = trainer.fit(loader, loader);
  Trained t;
  for (const EpochRecord& e : report.epochs) {
    t.losses.push_back(*e.find("loss"));
    t.accuracies.push_back(*e.find("val_accuracy"));
  }
  for (const auto& [name, p] : model.named_parameters())
    for (const double v : p.to_vector<double>()) t.weights.push_back(v);
  return t;
}

}  // namespace

TEST_CASE("The Trainer fits, validates and saves a model on a device as on the CPU") {
  SPOOL_NEED_CUDA();
  const std::string file = SPOOL_BINARY_DIR "/cuda_train_test.safetensors";
  const Trained device = fit(gpu, file), host = fit(Device::cpu(), file + ".cpu");
  REQUIRE(device.losses.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(device.losses[i] == Approx(host.losses[i]).epsilon(1e-4));
    CHECK(device.accuracies[i] == Approx(host.accuracies[i]).margin(0.05));
  }
  for (std::size_t i = 0; i < host.weights.size(); ++i) CHECK(device.weights[i] == Approx(host.weights[i]).margin(2e-3));
  const auto saved = load_safetensors(file).tensors, saved_by_host = load_safetensors(file + ".cpu").tensors;
  REQUIRE(saved.size() == saved_by_host.size());
  for (std::size_t i = 0; i < saved.size(); ++i) CHECK(saved[i].name == saved_by_host[i].name);
}
