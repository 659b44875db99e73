// A Trainer on a device: its guards, metrics and checkpoints work on tensors that the host cannot read.
#include <chrono>
#include <cstdlib>
#include <limits>

#include "cuda_support.h"
#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct StopAfter : Callback {
  std::int64_t step;
  explicit StopAfter(std::int64_t s) : step(s) {}
  void on_step_end(Trainer& t, const StepRecord& s) override {
    if (s.step == step) t.stop("here");
  }
};

struct DeviceRun : SmallRun {
  DeviceRun() {
    model->to(gpu);
    for (const Tensor& p : model->parameters()) REQUIRE(p.device() == gpu);
  }
  StateDict host_state() const {
    StateDict state;
    for (const auto& part : {model->state_dict(), adam->state_dict()})
      for (const NamedTensor& t : part) state.push_back({t.name, t.tensor.detach().to(Device::cpu())});
    return state;
  }
};

}  // namespace

TEST_CASE("A Trainer on a device measures what the CPU does, and resumes to the bit") {
  SPOOL_NEED_CUDA();
  const TempFolder folder;
  const std::string path = (folder / "run.safetensors").string(), page = (folder / "report.html").string();
  TrainerOptions options{
      .epochs = 2, .metrics = {{Accuracy(), TopK(3)}}, .validation_metrics = {ConfusionMatrix(10)}, .verbose = false};
  SmallRun host;
  const TrainReport on_host = Trainer(*host.model, *host.adam, options).fit(*host.training, *host.validation);

  DeviceRun whole;
  HtmlReport html(page);
  options.callbacks = {&html};
  const TrainReport report = Trainer(*whole.model, *whole.adam, options).fit(*whole.training, *whole.validation);
  for (const char* name : {"loss", "val_loss"})
    CHECK(*report.epochs[0].find(name) == Approx(*on_host.epochs[0].find(name)).epsilon(1e-3));
  CHECK(report.epochs[0].grad_norm == Approx(on_host.epochs[0].grad_norm).epsilon(1e-3));
  CHECK(mentions(read_file(page), {"cuda:0", "Confusion matrix", "Filters of conv"}));

  DeviceRun first, second;
  StopAfter stop(4);
  options.callbacks = {&stop};
  options.checkpoint = path;
  Trainer(*first.model, *first.adam, options).fit(*first.training, *first.validation);
  options.callbacks = {};
  options.resume = path;
  const TrainReport resumed = Trainer(*second.model, *second.adam, options).fit(*second.training, *second.validation);
  CHECK(same_bits(second.host_state(), whole.host_state()));
  CHECK(*resumed.epochs[0].find("accuracy") == *report.epochs[0].find("accuracy"));
  CHECK(*resumed.epochs[0].find("loss") == *report.epochs[0].find("loss"));
  // A checkpoint of a device loads on the CPU.
  SmallNet on_cpu;
  load_weights(on_cpu, path);
  CHECK(bytes_of(on_cpu.fc.weight) == bytes_of(second.model->fc.weight.to(Device::cpu())));
}

TEST_CASE("A step that goes wrong on a device names the operation, and changes nothing") {
  SPOOL_NEED_CUDA();
  const std::pair<const char*, LossFunction> losses[] = {
      {"log", [](const Tensor& y, const Tensor& t) { return cross_entropy(log(y - 1000.0), t); }},
      // The loss is finite, its gradient is not.
      {"sqrt", [](const Tensor& y, const Tensor& t) { return cross_entropy(y + sqrt(y * 0.0), t); }}};
  for (const auto& [op, loss] : losses) {
    DeviceRun run;
    const StateDict before = run.host_state();
    const std::uint64_t position = default_generator().position();
    try {
      Trainer(*run.model, *run.adam, {.loss = loss, .verbose = false}).fit(*run.training);
      FAIL("nothing was thrown");
    } catch (const NonFiniteError& e) {
      CHECK(e.first_op == op);
    }
    CHECK(same_bits(run.host_state(), before));
    CHECK(default_generator().position() == position);
  }
}

TEST_CASE("summary() works on a device, and time_layers() says that it does not") {
  SPOOL_NEED_CUDA();
  DeviceRun run;
  const Batch batch = *run.training->begin();
  const Tensor x = batch.inputs.to(gpu);
  CHECK(summary(*run.model, x).parameters == run.model->num_parameters());
  const LossFunction loss = [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); };
  CHECK_THROWS_AS(time_layers(*run.model, loss, {x, batch.targets.to(gpu)}), DeviceError);
}

namespace {

// A Linear with dropout and statistics, small enough for many steps.
struct TinyNet : Module {
  BatchNorm2d& norm = add<BatchNorm2d>("norm", {.num_features = 3});
  Dropout& dropout = add<Dropout>("dropout", {.p = 0.2});
  Linear& out = add<Linear>("out", {.in_features = 3 * 4 * 4, .out_features = 5});
  Tensor forward(const Tensor& x) override { return out(dropout(flatten(norm(x), 1))); }
};

ImageDataset tiny_pictures(std::int64_t n) {
  Generator g(8);
  return ImageDataset(randint(0, 256, {n, 3, 4, 4}, {.dtype = u8}, g).contiguous(MemoryFormat::channels_last),
                      randint(0, 5, {n}, {.dtype = i64}, g));
}

struct TinyRun {
  std::vector<double> losses, norms, accuracies;
  std::vector<double> state;  // weights, moments, statistics
  std::uint64_t launches = 0, waits = 0;
  double seconds = 0;
  std::vector<std::string> warnings;
};

void append_state(std::vector<double>& to, const StateDict& state) {
  for (const NamedTensor& t : state)
    for (const double v : t.tensor.detach().to(f64).to_vector<double>()) to.push_back(v);
}

// `steps` full batches and a last one that is smaller, an epoch.
template <class Optim, class Options>
TinyRun tiny_run(Device device, std::int64_t steps, const Options& optim, TrainerOptions options, bool one_cycle = false) {
  manual_seed(6);
  TinyNet model;
  model.to(device);
  Optim optimizer(model.parameters(), optim);
  const ImageDataset data = tiny_pictures(4 * steps + 2);
  DataLoader loader(data, {.batch_size = 4, .shuffle = true, .device = device});
  std::optional<OneCycleLR> cycle;
  if (one_cycle) {
    options.schedule =
        &cycle.emplace(optimizer, OneCycleLR::Options{.max_lr = 0.05, .total_steps = options.epochs * (steps + 1)});
    options.schedule_per = Per::step;
  }
  options.verbose = false;
  struct Losses : Callback {
    std::vector<StepRecord> records;
    void on_step_end(Trainer&, const StepRecord& s) override { records.push_back(s); }
  } recorded;
  options.callbacks = {&recorded};
  TinyRun run;
  const CudaWork before = cuda_work();
  const auto start = std::chrono::steady_clock::now();
  const TrainReport report = Trainer(model, optimizer, options).fit(loader);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.launches = cuda_work().launches - before.launches;
  run.waits = cuda_work().synchronisations - before.synchronisations;
  for (const StepRecord& s : recorded.records) {
    run.losses.push_back(s.loss());
    run.norms.push_back(s.grad_norm());
  }
  for (const EpochRecord& e : report.epochs) run.accuracies.push_back(*e.find("accuracy"));
  append_state(run.state, model.state_dict());
  append_state(run.state, optimizer.state_dict());
  run.warnings = report.warnings;
  return run;
}

void check_equal(const TinyRun& a, const TinyRun& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.norms == b.norms);
  CHECK(a.accuracies == b.accuracies);
  CHECK(a.state == b.state);
}

}  // namespace

TEST_CASE("A Trainer on a device waits a few times an epoch, however many steps it has") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_SYNC")) return;
  const Adam::Options adam{.lr = 1e-2, .clip_norm = 1.0};
  const TinyRun few = tiny_run<Adam>(gpu, 5, adam, {}), many = tiny_run<Adam>(gpu, 120, adam, {});
  INFO(few.waits << " and " << many.waits << " waits");
  CHECK(few.waits <= 6 + few.seconds);
  CHECK(many.waits <= 6 + many.seconds);
  CHECK(many.seconds < 30);
  const TinyRun host = tiny_run<Adam>(Device::cpu(), 120, adam, {});
  REQUIRE(many.losses.size() == 121);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(many.losses[i] == Approx(host.losses[i]).epsilon(1e-4));
    CHECK(many.norms[i] == Approx(host.norms[i]).epsilon(1e-3));
  }
  CHECK(many.accuracies[0] == Approx(host.accuracies[0]).margin(0.02));
}

TEST_CASE("A Trainer that captures its steps takes the very same ones, in fewer launches") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  const auto compare = [](const TinyRun& eager, const TinyRun& captured) {
    check_equal(captured, eager);
    for (const std::string& w : captured.warnings) FAIL_CHECK(w);
    CHECK(captured.launches < 0.6 * static_cast<double>(eager.launches));
  };
  const Adam::Options adam{.lr = 1e-2, .clip_norm = 1.0};
  compare(tiny_run<Adam>(gpu, 12, adam, {.epochs = 4}, true),
          tiny_run<Adam>(gpu, 12, adam, {.epochs = 4, .capture = true}, true));
  const SGD::Options sgd{.lr = 1e-2, .momentum = 0.9, .weight_decay = 1e-3};
  compare(tiny_run<SGD>(gpu, 12, sgd, {.epochs = 4, .mixed_precision = true}, true),
          tiny_run<SGD>(gpu, 12, sgd, {.epochs = 4, .mixed_precision = true, .capture = true}, true));
}

TEST_CASE("Steps that cannot be captured run as without, and a warning names the operation") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  const LossFunction reads = [](const Tensor& y, const Tensor& t) {
    const Tensor loss = cross_entropy(y, t);
    return loss * (loss.item() > 1e9f ? 2.0 : 1.0);
  };
  const Adam::Options adam{.lr = 1e-2};
  const TinyRun run = tiny_run<Adam>(gpu, 6, adam, {.loss = reads, .metrics = {{Accuracy()}}, .capture = true});
  check_equal(run, tiny_run<Adam>(gpu, 6, adam, {.loss = reads, .metrics = {{Accuracy()}}}));
  REQUIRE(run.warnings.size() == 1);
  CHECK(mentions(run.warnings[0], {"not captured", "cross_entropy", "waits"}));
  const TinyRun host = tiny_run<Adam>(Device::cpu(), 6, adam, {.capture = true});
  REQUIRE(host.warnings.size() == 1);
  CHECK(mentions(host.warnings[0], {"not captured", "CPU"}));
  TinyNet model;
  SGD other(model.parameters(), {.lr = 0.1});
  CHECK(mentions(message_of<ValueError>([&] { Trainer(model, other, {.accumulate = 2, .capture = true}); }),
                 {"capture", "accumulate", "2"}));
}

TEST_CASE("What the host hears of too late is taken back to before the step that went wrong") {
  SPOOL_NEED_CUDA();
  const bool capture = GENERATE(false, true), label = GENERATE(false, true);
  if (capture && std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  struct Run {
    std::unique_ptr<SmallNet> model;
    std::unique_ptr<Adam> adam;
    std::unique_ptr<CosineAnnealingLR> cosine;
    Run() {
      manual_seed(5);
      model = std::make_unique<SmallNet>();
      model->to(gpu);
      adam = std::make_unique<Adam>(model->parameters(), Adam::Options{.lr = 1e-2});
      cosine = std::make_unique<CosineAnnealingLR>(*adam, CosineAnnealingLR::Options{.T_max = 100});
    }
    std::vector<double> state() const {
      std::vector<double> all{static_cast<double>(default_generator().position()), adam->lr()};
      for (const auto& part : {model->state_dict(), adam->state_dict(), cosine->state_dict()}) append_state(all, part);
      return all;
    }
  };
  // Ten batches, of which the sixth is bad.
  Generator g(3);
  Tensor x = randn({40, 3, 32, 32}, {}, g), y = randint(0, 10, {40}, {.dtype = i64}, g);
  if (label)
    y[22].fill_(77);
  else
    x[22].fill_(std::numeric_limits<double>::infinity());
  DataLoader loader(TensorDataset(x, y), {.batch_size = 4, .device = gpu});
  Run good;
  StopAfter stop(5);
  Trainer(*good.model, *good.adam,
          {.capture = capture, .schedule = good.cosine.get(), .schedule_per = Per::step, .callbacks = {&stop}, .verbose = false})
      .fit(loader);
  const std::vector<double> before = good.state();
  loader.set_epoch(0);
  Run bad;
  Trainer trainer(*bad.model, *bad.adam,
                  {.capture = capture, .schedule = bad.cosine.get(), .schedule_per = Per::step, .verbose = false});
  if (label)
    CHECK(mentions(message_of<IndexError>([&] { trainer.fit(loader); }), {"label 77 at position 2"}));
  else
    CHECK(mentions(message_of<NonFiniteError>([&] { trainer.fit(loader); }),
                   {"the loss is NaN in step 6 (epoch 1, batch 6)", "the inputs of the batch hold", "row 2", "not taken"}));
  CHECK(bad.state() == before);
  for (const Tensor& p : bad.model->parameters()) CHECK_FALSE(p.grad().defined());
  // And the device is as usable as before.
  loader.set_epoch(0);
  StopAfter again(3);
  CHECK(Trainer(*bad.model, *bad.adam, {.capture = capture, .callbacks = {&again}, .verbose = false}).fit(loader).steps == 3);
}
