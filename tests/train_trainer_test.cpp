#include <cmath>
#include <csignal>

#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

// y = w x, whose gradient under the loss mean(y) is the mean of x.
struct Weight : Module {
  Tensor& w = add_parameter("w", ones({1}));
  Tensor forward(const Tensor& x) override { return x * w; }
};
Tensor mean_output(const Tensor& y, const Tensor&) { return mean(y); }

TensorDataset numbers(const std::vector<float>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return TensorDataset(tensor(values, {n, 1}), zeros({n}));
}

struct Recorder : Callback {
  std::vector<std::string> events;
  std::vector<double> weights, rates;
  std::int64_t stop_after = 0;
  void on_fit_begin(Trainer&) override { events.push_back("fit"); }
  void on_epoch_begin(Trainer&, std::int64_t epoch) override { events.push_back("begin " + std::to_string(epoch)); }
  void on_step_end(Trainer& t, const StepRecord& s) override {
    events.push_back("step " + std::to_string(s.step));
    weights.push_back(t.model().parameters()[0].to_vector<double>()[0]);
    rates.push_back(s.lr);
    if (s.step == stop_after) t.stop("enough");
  }
  void on_epoch_end(Trainer&, const EpochRecord& e) override { events.push_back("end " + std::to_string(e.epoch)); }
  void on_checkpoint(Trainer&, const std::string&) override { events.push_back("checkpoint"); }
  void on_fit_end(Trainer&, const TrainReport&) override { events.push_back("done"); }
};

}  // namespace

TEST_CASE("Trainer does bit for bit what the loop written out does") {
  const bool mixed = GENERATE(false, true);
  SmallRun by_hand;
  by_hand.model->train();
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto [images, labels] : *by_hand.training) {
      by_hand.adam->zero_grad();
      Tensor loss;
      {
        const Autocast autocast(mixed);
        loss = cross_entropy((*by_hand.model)(images), labels);
      }
      loss.backward();
      by_hand.adam->step();
    }
    by_hand.cosine->step();
  }
  SmallRun run(2);
  Trainer trainer(*run.model, *run.adam, {.epochs = 2, .mixed_precision = mixed, .schedule = run.cosine.get(), .verbose = false});
  const TrainReport report = trainer.fit(*run.training, *run.validation);
  CHECK(same_bits(run.state(), by_hand.state()));
  CHECK(report.steps == 12);
  REQUIRE(report.epochs.size() == 2);
  CHECK(report.epochs[1].samples == 90);
  CHECK(report.epochs[1].lr == Approx(0.00975528));
  CHECK(report.epochs[1].grad_norm > 0);
  CHECK(report.epochs[1].find("val_accuracy"));
  CHECK_FALSE(report.epochs[1].find("val_nothing"));
  CHECK(report.stopped.empty());
}

TEST_CASE("Gradients are averaged over a window, an incomplete last one over what it has, and the schedule counts steps") {
  Weight model;
  SGD sgd(model.parameters(), {.lr = 0.1});
  StepLR schedule(sgd, {.step_size = 1000});
  Recorder recorder;
  DataLoader loader(numbers({1, 2, 3, 4, 5}), {.batch_size = 1});
  Trainer trainer(model, sgd,
                  {.loss = mean_output,
                   .accumulate = 2,
                   .schedule = &schedule,
                   .schedule_per = Per::step,
                   .callbacks = {&recorder},
                   .verbose = false});
  trainer.fit(loader);
  REQUIRE(recorder.weights.size() == 3);
  CHECK(recorder.weights[0] == Approx(0.85));
  CHECK(recorder.weights[1] == Approx(0.5));
  CHECK(recorder.weights[2] == Approx(0.0).margin(1e-6));
  CHECK(schedule.last_epoch() == 3);
  CHECK(mentions(message_of<ValueError>([&] { Trainer(model, sgd, {.accumulate = 0}); }), {"accumulate", "at least 1", "0"}));
}

TEST_CASE("A schedule per epoch gives the first epoch the base rate") {
  Weight model;
  SGD sgd(model.parameters(), {.lr = 0.1});
  StepLR schedule(sgd, {.step_size = 2, .gamma = 0.1});
  DataLoader loader(numbers({0}), {.batch_size = 1});
  const TrainReport report =
      Trainer(model, sgd, {.epochs = 6, .loss = mean_output, .schedule = &schedule, .verbose = false}).fit(loader);
  std::vector<double> rates;
  for (const EpochRecord& e : report.epochs) rates.push_back(e.lr);
  const double expected[] = {0.1, 0.1, 0.01, 0.01, 0.001, 0.001};
  for (std::size_t i = 0; i < 6; ++i) CHECK(rates[i] == Approx(expected[i]));
}

TEST_CASE("Scores weight every sample the same, whatever its batch") {
  Weight model;
  SGD sgd(model.parameters(), {.lr = 0});
  DataLoader train(numbers({1, 2, 3, 4, 10}), {.batch_size = 4}), test(numbers({7, 7, 7, 7, 2}), {.batch_size = 3});
  Trainer trainer(model, sgd,
                  {.loss = mean_output,
                   .metrics = {{MeanMetric("square", [](const Tensor& y, const Tensor&) { return mean(square(y)); })}},
                   .verbose = false});
  const TrainReport report = trainer.fit(train, test);
  CHECK(*report.epochs[0].find("loss") == Approx(4));
  CHECK(*report.epochs[0].find("square") == Approx(26));
  CHECK(*report.epochs[0].find("val_loss") == Approx(6));
  CHECK(*report.epochs[0].find("val_square") == Approx(40));
  const Scores scores = trainer.evaluate(test);
  CHECK(scores["square"] == Approx(40));
  CHECK(scores.samples == 5);
  CHECK(mentions(message_of<ValueError>([&] { scores["accuracy"]; }), {"accuracy", "loss, square"}));
}

TEST_CASE("Evaluation leaves modes, statistics and the loader as they were, also when it throws, and records nothing") {
  SmallRun run;
  run.model->train();
  run.model->bn.eval();  // frozen on purpose
  const StateDict before = copy_of(run.model->state_dict());
  bool recorded = false, training = false;
  const LossFunction loss = [&](const Tensor& y, const Tensor& t) {
    recorded = recorded || y.requires_grad();
    training = training || run.model->drop.is_training();
    return cross_entropy(y, t);
  };
  run.validation->set_epoch(4);
  const Scores scores =
      evaluate(*run.model, *run.validation, {.loss = loss, .metrics = {{Accuracy(), TopK(3), ConfusionMatrix(10)}}});
  CHECK_FALSE(recorded);
  CHECK_FALSE(training);
  CHECK(scores["accuracy"] <= scores["top3"]);
  CHECK(sum(scores.get<ConfusionMatrix>()->counts()).item<std::int64_t>() == 50);
  const LossFunction bad = [](const Tensor&, const Tensor&) -> Tensor { throw ValueError("loss", "broken"); };
  CHECK_THROWS_AS(evaluate(*run.model, *run.validation, {.loss = bad}), ValueError);
  CHECK(run.model->is_training());
  CHECK(run.model->drop.is_training());
  CHECK_FALSE(run.model->bn.is_training());
  CHECK(grad_enabled());
  CHECK(run.validation->epoch() == 4);
  CHECK(same_bits(copy_of(run.model->state_dict()), before));
}

TEST_CASE("fit() trains in train mode in every epoch and gives back the modes from before") {
  SmallRun run;
  run.model->eval();
  std::vector<bool> dropping;
  const LossFunction loss = [&](const Tensor& y, const Tensor& t) {
    if (y.requires_grad()) dropping.push_back(run.model->drop.is_training() && run.model->bn.is_training());
    return cross_entropy(y, t);
  };
  Trainer(*run.model, *run.adam, {.epochs = 2, .loss = loss, .verbose = false}).fit(*run.training, *run.validation);
  CHECK(dropping == std::vector<bool>(12, true));
  CHECK_FALSE(run.model->is_training());
  CHECK_FALSE(run.model->bn.is_training());
  CHECK(run.model->bn.num_batches_tracked.item<std::int64_t>() == 12);  // in training only
}

TEST_CASE("Callbacks are called in order, and one of them may stop the run") {
  const TempFolder folder;
  Weight model;
  SGD sgd(model.parameters(), {.lr = 0.1});
  Recorder recorder;
  DataLoader loader(numbers({1, 2}), {.batch_size = 1});
  TrainerOptions options{.epochs = 5,
                         .loss = mean_output,
                         .checkpoint = (folder / "run.safetensors").string(),
                         .callbacks = {&recorder},
                         .verbose = false};
  recorder.stop_after = 3;
  const TrainReport report = Trainer(model, sgd, options).fit(loader);
  CHECK(recorder.events == std::vector<std::string>{"fit", "begin 1", "step 1", "step 2", "end 1", "checkpoint", "begin 2",
                                                    "step 3", "checkpoint", "done"});
  CHECK(report.stopped == "enough");
  CHECK(report.epochs.size() == 1);
}

TEST_CASE("Early stopping waits for its patience, and the best checkpoint is that of the best epoch") {
  const TempFolder folder;
  Weight model;
  SGD sgd(model.parameters(), {.lr = 1});
  DataLoader train(numbers({1}), {.batch_size = 1}), test(numbers({1}), {.batch_size = 1});
  // w falls by 1 an epoch from 1; |w + 1.4| is least in epoch 2, where w is -1 (0.4 against 0.6 in epoch 3).
  const LossFunction loss = [](const Tensor& y, const Tensor&) { return y.requires_grad() ? mean(y) : abs(mean(y) + 1.4); };
  const std::string best = (folder / "best.safetensors").string();
  Trainer trainer(
      model, sgd,
      {.epochs = 50, .loss = loss, .early_stopping = EarlyStopping{.patience = 3}, .best_checkpoint = best, .verbose = false});
  const TrainReport report = trainer.fit(train, test);
  CHECK(report.best_epoch == 2);
  CHECK(report.best == Approx(0.4));
  CHECK(report.epochs.size() == 5);
  CHECK(mentions(report.stopped, {"early stopping", "val_loss", "0.4000", "epoch 2"}));
  Weight loaded;
  load_weights(loaded, best);
  CHECK(loaded.w.item() == -1);
}

TEST_CASE("What a run watches must exist, and may be better when higher") {
  Weight model;
  SGD sgd(model.parameters(), {.lr = 1});
  DataLoader train(numbers({1}), {.batch_size = 1});
  CHECK(mentions(message_of<ValueError>([&] { Trainer(model, sgd, {.loss = mean_output, .monitor = "acc"}).fit(train); }),
                 {"'acc'", ".monitor", "there are loss"}));
  const MeanMetric w("w", mean_output);
  const TrainReport report =
      Trainer(model, sgd, {.epochs = 3, .loss = mean_output, .metrics = {{w}}, .monitor = "w", .verbose = false}).fit(train);
  CHECK(report.best_epoch == 1);  // w only falls
  CHECK(mentions(message_of<ValueError>([&] { Trainer(model, sgd, {.metrics = {{w, w}}}); }), {"two metrics", "'w'"}));
}

TEST_CASE("A terminal is told what happened in plain lines where there is none") {
  CapturedOutput out;
  Weight model;
  SGD sgd(model.parameters(), {.lr = 0});
  DataLoader train(numbers({1, 3}), {.batch_size = 2}), test(numbers({5}), {.batch_size = 1});
  Trainer(model, sgd, {.epochs = 2, .loss = mean_output, .validation_name = "test", .out = out.file()}).fit(train, test);
  const std::string text = out.text();
  CHECK(mentions(
      text, {"epoch 1/2  train loss 2.0000  test loss 5.0000  ", "epoch 2/2  train loss 2.0000", " samples/s, ", " s/epoch\n"}));
  CHECK(text.find('\r') == std::string::npos);
}

TEST_CASE("Options out of range are refused before anything runs") {
  Weight model, other;
  SGD sgd(model.parameters(), {.lr = 1}), second(other.parameters(), {.lr = 1});
  StepLR schedule(second, {.step_size = 1});
  const auto refused = [&](TrainerOptions o) { return message_of<ValueError>([&] { Trainer(model, sgd, std::move(o)); }); };
  CHECK(mentions(refused({.epochs = -1}), {"epochs", "-1"}));
  CHECK(mentions(refused({.schedule = &schedule}), {"StepLR", "another optimizer"}));
  CHECK(mentions(refused({.early_stopping = EarlyStopping{.patience = 0}}), {"patience", "0"}));
  CHECK(mentions(refused({.checkpoint_steps = 5}), {"checkpoint_steps", ".checkpoint"}));
  CHECK(mentions(refused({.checkpoint = "a", .best_checkpoint = "a"}), {"'a'", "overwritten"}));
  CHECK(mentions(refused({.callbacks = {nullptr}}), {"null"}));
  DataLoader empty(numbers({1}), {.batch_size = 2, .drop_last = true});
  CHECK(mentions(message_of<ValueError>([&] { Trainer(model, sgd).fit(empty); }),
                 {"nothing to train on", "1 examples", "batch of 2"}));
}

TEST_CASE("Files that cannot be written and notes that cannot be kept are refused before anything runs") {
  const TempFolder folder;
  SmallRun run;
  const StateDict before = copy_of(run.state());
  const auto fit = [&](TrainerOptions options) {
    options.verbose = false;
    Trainer(*run.model, *run.adam, options).fit(*run.training);
  };
  const std::string nowhere = (folder / "no" / "run.safetensors").string();
  CHECK_THROWS_AS(fit({.checkpoint = nowhere}), IoError);
  CHECK_THROWS_AS(fit({.best_checkpoint = nowhere}), IoError);
  HtmlReport report(nowhere);
  CHECK_THROWS_AS(fit({.callbacks = {&report}}), IoError);
  CHECK_THROWS_AS(fit({.checkpoint_notes = {{"crc32c", "mine"}}}), ValueError);
  CHECK_THROWS_AS(fit({.checkpoint_notes = {{"history", "mine"}}}), ValueError);
  CHECK(same_bits(run.state(), before));
}
