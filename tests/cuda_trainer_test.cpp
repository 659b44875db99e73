// A Trainer on a device: its guards, metrics and checkpoints work on tensors that the host cannot read.
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
