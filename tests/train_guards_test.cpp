#include <cmath>

#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

// What must be as before when a step fails.
struct Everything {
  explicit Everything(const SmallRun& run) : run_(run), state_(run.state()), position_(default_generator().position()) {}
  bool unchanged() const {
    for (const Tensor& p : run_.model->parameters())
      if (p.grad().defined()) return false;
    return same_bits(run_.state(), state_) && default_generator().position() == position_;
  }

 private:
  const SmallRun& run_;
  StateDict state_;
  std::uint64_t position_;
};

// fc(h) followed by something that goes wrong in one layer.
struct Breaking : Module {
  SmallNet& net = add<SmallNet>("net");
  struct Head : Module {
    std::function<Tensor(const Tensor&)> f;
    Tensor forward(const Tensor& x) override { return f(x); }
  };
  Head& head = add<Head>("head");
  Tensor forward(const Tensor& x) override { return head(net(x)); }
};

NonFiniteError failure_of(const std::function<Tensor(const Tensor&)>& f, std::int64_t accumulate = 1) {
  SmallRun run;
  Breaking model;
  Adam adam(model.parameters(), {.lr = 1e-3});
  std::int64_t calls = 0;
  model.head.f = [&](const Tensor& x) { return ++calls <= 2 ? x : f(x); };  // two steps go well
  StateDict before;
  struct Watch : Callback {
    StateDict* before;
    Adam* adam;
    std::uint64_t position = 0;
    void on_step_end(Trainer& t, const StepRecord&) override {
      *before = copy_of(t.model().state_dict());
      for (const auto& s : copy_of(adam->state_dict())) before->push_back(s);
      position = default_generator().position();
    }
  } watch;
  watch.before = &before;
  watch.adam = &adam;
  try {
    Trainer(model, adam, {.accumulate = accumulate, .callbacks = {&watch}, .verbose = false}).fit(*run.training);
  } catch (const NonFiniteError& e) {
    StateDict after = copy_of(model.state_dict());
    for (const auto& s : copy_of(adam.state_dict())) after.push_back(s);
    CHECK(same_bits(after, before));
    CHECK(default_generator().position() == watch.position);
    for (const Tensor& p : model.parameters()) CHECK_FALSE(p.grad().defined());
    return e;
  }
  FAIL("nothing was thrown");
  throw;
}

}  // namespace

TEST_CASE("A loss that is not finite names the operation and layer it came from, and changes nothing") {
  const NonFiniteError e = failure_of([](const Tensor& x) { return log(x - 1000.0) * 2.0; });
  CHECK(e.first_op == "log");
  CHECK(e.first_layer == "head");
  CHECK_FALSE(e.backward);
  CHECK(mentions(e.what(), {"the loss is NaN", "step 3", "batch 3", "first NaN", "log, layer head", "not taken"}));
}

TEST_CASE("An infinity that becomes NaN later is named first") {
  const NonFiniteError e = failure_of([](const Tensor& x) {
    const Tensor h = exp(x + 1000.0);
    return h - h;
  });
  CHECK(e.first_op == "exp");
  CHECK(mentions(e.what(), {"first infinity is in the output", "exp", "first NaN is in the output", "sub"}));
}

TEST_CASE("A gradient that is not finite names the backward it came from, and changes nothing") {
  const NonFiniteError e = failure_of([](const Tensor& x) { return x + sqrt(x * 0.0) * 1e-3; });
  CHECK(e.backward);
  CHECK(e.first_op == "sqrt");
  CHECK(e.first_layer == "head");
  CHECK(mentions(e.what(), {"the gradient of 'net.", "backward of sqrt", "step 3", "output of mul"}));
}

TEST_CASE("With accumulation the batch that went wrong is found, and the statistics of the whole window are taken back") {
  // Two good calls are the first window of two; the third call breaks.
  const NonFiniteError e = failure_of([](const Tensor& x) { return log(x - 1000.0); }, 2);
  CHECK(e.first_op == "log");
  CHECK(mentions(e.what(), {"step 2", "batch 3"}));
}

TEST_CASE("Not-finite data and parameters are named as such") {
  SmallRun run;
  Tensor x = rand({8, 3, 32, 32});
  x[5].fill_(std::numeric_limits<double>::quiet_NaN());
  DataLoader loader(TensorDataset(x, zeros({8}, {.dtype = i64})), {.batch_size = 8});
  const Everything before(run);
  CHECK(mentions(message_of<NonFiniteError>([&] { Trainer(*run.model, *run.adam, {.verbose = false}).fit(loader); }),
                 {"the inputs of the batch hold NaN", "row 5"}));
  CHECK(before.unchanged());
  {
    NoGrad guard;
    run.model->fc.bias.fill_(std::numeric_limits<double>::infinity());
  }
  CHECK(mentions(message_of<NonFiniteError>([&] { Trainer(*run.model, *run.adam, {.verbose = false}).fit(*run.training); }),
                 {"the parameter 'fc.bias' was infinite"}));
}

TEST_CASE("A guard that is off is off") {
  SmallRun run;
  const LossFunction nan = [](const Tensor& y, const Tensor&) { return mean(y) * std::numeric_limits<double>::quiet_NaN(); };
  Trainer(*run.model, *run.adam, {.loss = nan, .guards = {.nonfinite = false}, .verbose = false}).fit(*run.training);
  CHECK(std::isnan(run.model->fc.bias.to_vector<float>()[0]));
}

TEST_CASE("A label out of range is named, and changes nothing") {
  SmallRun run;
  DataLoader loader(TensorDataset(rand({4, 3, 32, 32}), tensor<std::int64_t>({1, 2, 10, 3})), {.batch_size = 4});
  const Everything before(run);
  CHECK(mentions(message_of<IndexError>([&] { Trainer(*run.model, *run.adam, {.verbose = false}).fit(loader); }), {"10", "9"}));
  CHECK(before.unchanged());
}

TEST_CASE("A softmax before cross-entropy is refused at the first step") {
  SmallRun run;
  Breaking model;
  model.head.f = [](const Tensor& x) { return softmax(x, 1); };
  Adam adam(model.parameters(), {.lr = 1e-3});
  CHECK(mentions(message_of<ValueError>([&] { Trainer(model, adam, {.verbose = false}).fit(*run.training); }),
                 {"softmax", "cross_entropy", "remove", "guards"}));
  CHECK(model.net.bn.num_batches_tracked.item<std::int64_t>() == 0);
  Trainer(model, adam, {.guards = {.softmax = false}, .verbose = false}).fit(*run.training);
  CHECK(model.net.bn.num_batches_tracked.item<std::int64_t>() == 6);
}

TEST_CASE("A last batch of one is refused before training where a batch norm cannot take it") {
  struct Net : Module {
    Linear& fc = add<Linear>("fc", {.in_features = 2, .out_features = 3});
    BatchNorm1d& bn = add<BatchNorm1d>("bn", {.num_features = 3});
    Tensor forward(const Tensor& x) override { return bn(fc(x)); }
  } model;
  Adam adam(model.parameters(), {.lr = 1e-3});
  const TensorDataset data(rand({9, 2}), zeros({9}, {.dtype = i64}));
  DataLoader nine_by_four(data, {.batch_size = 4}), whole(data, {.batch_size = 4, .drop_last = true});
  const std::string text = message_of<ValueError>([&] { Trainer(model, adam, {.verbose = false}).fit(nine_by_four); });
  CHECK(mentions(text, {"9 examples", "batches of 4", "batch of one", "bn", "drop_last"}));
  CHECK(model.bn.num_batches_tracked.item<std::int64_t>() == 0);
  CHECK(nine_by_four.epoch() == 0);
  Trainer(model, adam, {.verbose = false}).fit(whole);
  struct Fused : Module {
    BatchNorm1d& bn = add<BatchNorm1d>("bn", {.num_features = 2});
    Tensor forward(const Tensor& x) override { return bn.relu(x); }
  } fused;
  Adam other(fused.parameters(), {.lr = 1e-3});
  CHECK(mentions(message_of<ValueError>([&] { Trainer(fused, other, {.verbose = false}).fit(nine_by_four); }), {"batch of one"}));
  // A picture has many values in each channel: there one is enough.
  SmallRun run;
  DataLoader one(Synthetic({.size = 17}), {.batch_size = 16});
  CHECK(Trainer(*run.model, *run.adam, {.verbose = false}).fit(one).steps == 2);
}

TEST_CASE("Parameters that are not trained are reported") {
  struct Net : Module {
    Linear& used = add<Linear>("used", {.in_features = 2, .out_features = 3});
    Linear& unused = add<Linear>("unused", {.in_features = 2, .out_features = 3});
    Linear& forgotten = add<Linear>("forgotten", {.in_features = 3, .out_features = 3});
    Tensor forward(const Tensor& x) override { return forgotten(used(x)); }
  } model;
  std::vector<Tensor> some = model.used.parameters();
  for (const Tensor& p : model.unused.parameters()) some.push_back(p);
  SGD sgd(some, {.lr = 0.1});
  DataLoader loader(TensorDataset(rand({4, 2}), zeros({4}, {.dtype = i64})), {.batch_size = 2});
  CapturedOutput out;
  const TrainReport report = Trainer(model, sgd, {.out = out.file()}).fit(loader);
  REQUIRE(report.warnings.size() == 2);
  CHECK(mentions(report.warnings[0], {"the optimizer does not hold forgotten.weight, forgotten.bias"}));
  CHECK(mentions(report.warnings[1], {"unused.weight, unused.bias got no gradient"}));
  CHECK(mentions(out.text(), {"warning: the optimizer", "warning: unused.weight"}));
  model.forgotten.requires_grad_(false);
  CHECK(Trainer(model, sgd, {.guards = {.unused_parameters = false}, .verbose = false}).fit(loader).warnings.empty());
}

TEST_CASE("Validation data that are in the training data are reported, by position and by contents") {
  const Synthetic data({.size = 40});
  const auto warnings = [&](const Dataset& training, const Dataset& validation) {
    SmallRun run;
    DataLoader a(training, {.batch_size = 8}), b(validation, {.batch_size = 8});
    const auto report = Trainer(*run.model, *run.adam, {.verbose = false}).fit(a, b);
    return report.warnings.empty() ? std::string() : report.warnings.back();
  };
  CHECK(mentions(warnings(data, data), {"40 of the 40 validation examples", "too good"}));
  CHECK(mentions(warnings(Subset(data, {0, 1, 2, 9}), Subset(data, {20, 21, 9, 2})), {"2 of the 4", "number 2, number 3 there"}));
  CHECK(warnings(Subset(data, {0, 1, 2}), Subset(data, {3, 4})).empty());
  // The same pictures in another data set: only the contents tell.
  const ImageDataset copy(data.images().narrow(0, 30, 10).clone(), data.labels().narrow(0, 30, 10).clone());
  CHECK(mentions(warnings(data, copy), {"10 of the 10", "number 0, number 30 there"}));
  CHECK(warnings(Subset(data, {0, 1, 2}), copy).empty());
  CHECK(warnings(data, Synthetic({.train = false, .size = 40})).empty());
}
