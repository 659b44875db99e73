// Trainer: the loop that most programs want, with what experience says is forgotten when one writes it by hand.
//
//   DataLoader train(Cifar10(path, {.train = true}), {.batch_size = 128, .shuffle = true});
//   DataLoader test(Cifar10(path, {.train = false}), {.batch_size = 128});
//   Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
//   Trainer trainer(model, adam, {.epochs = 10, .checkpoint = "run.safetensors"});
//   const TrainReport report = trainer.fit(train, test);
//
// It is made of parts that work without it, for a loop of your own: evaluate(), the metrics, save_checkpoint() and load_checkpoint(), ProgressBar,
// Interrupt, the schedules.
#pragma once
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spool/optim/schedule.h"
#include "spool/train/callback.h"
#include "spool/train/evaluate.h"
#include "spool/train/guards.h"
#include "spool/train/history.h"
#include "spool/train/nonfinite.h"
#include "spool/train/safetensors.h"

namespace spool {

enum class Per { epoch, step };

struct EarlyStopping {
  std::int64_t patience = 5;  // epochs without improvement before training ends; at least 1
  double min_delta = 0;       // what counts as an improvement is more than this
};

struct TrainerOptions {
  std::int64_t epochs = 1;  // in all, those before a resume included
  LossFunction loss = {};   // cross_entropy where not given
  // Taken in training and in validation; Accuracy where neither they nor a loss are given.
  std::optional<std::vector<AnyMetric>> metrics = {};
  std::vector<AnyMetric> validation_metrics = {};  // in validation only: a ConfusionMatrix, say

  std::int64_t accumulate =
      1;  // batches whose gradients are averaged for one step; at least 1. An epoch's last window may have fewer
  bool mixed_precision = false;  // compute in bf16 what Autocast does; parameters, gradients and losses stay f32
  // On a GPU, record the step as a CUDA graph and launch that; see CapturedStep. Where it cannot be, a warning says why and steps run as without. Needs accumulate = 1.
  bool capture = false;
  Schedule* schedule = nullptr;
  Per schedule_per = Per::epoch;         // when to step it
  ReduceLROnPlateau* plateau = nullptr;  // given `monitor` after each epoch

  // What "best" means: a name as in EpochRecord::find, and whether more is better. Where not given: "val_loss", or "loss" without validation; less is better
  // for names that end in "loss".
  std::string monitor = {};
  std::optional<bool> higher_is_better = {};
  std::optional<EarlyStopping> early_stopping = {};

  std::string checkpoint = {};        // file to save the run to: after each epoch, and when a signal or stop() ends it
  std::int64_t checkpoint_steps = 0;  // ... and after this many steps; 0: not within an epoch
  std::string best_checkpoint = {};   // file to save it to whenever `monitor` is the best so far
  Metadata checkpoint_notes = {};     // text of your own, kept in those files: the names of the classes, say
  std::string resume = {};            // checkpoint to go on from; see fit()

  Guards guards = {};
  std::vector<Callback*> callbacks = {};       // must outlive fit()
  bool verbose = true;                         // a bar on a terminal, a line an epoch
  std::string validation_name = "validation";  // in those lines
  std::FILE* out = stdout;
};

struct TrainReport {
  std::vector<EpochRecord> epochs;  // those before a resume included
  std::int64_t steps = 0;
  // The best epoch by `monitor`, from 1; 0 before there was one.
  std::int64_t best_epoch = 0;
  double best = 0;
  std::optional<Scores> validation;  // of the last epoch, with its metrics
  std::string stopped;               // why it ended before the last epoch: "SIGINT", "early stopping: ..."; else empty
  int signal = 0;                    // the signal that ended it, or 0
  std::vector<std::string> warnings;
};

class Trainer {
 public:
  // The model and the optimizer must outlive it. Throws ValueError for options out of range.
  Trainer(Module& model, Optimizer& optimizer, TrainerOptions options = {});

  // Trains until options.epochs. Epoch e is epoch e of the loader, counted from the one it was at. The model is in train mode meanwhile; the
  // modes that it and its layers had come back at the end, exceptions included.
  //
  // With options.resume, goes on from that checkpoint: with the same data, options and number of threads the result is bit for bit that of a run that never stopped.
  // Throws what load_checkpoint throws; ValueError where the loader's batches are not those that the run was stopped in.
  //
  // The first SIGINT or SIGTERM ends it after the current step, the second one the process.
  //
  // On a GPU the host does not wait for each step, but looks at what became of them when it shows progress, once a second, and when a callback asks for a loss.
  //
  // Throws NonFiniteError, with weights, optimizer, running statistics and default generator as they were before the step, also where the host was some steps further; what the
  // model, the loss and the loaders throw, with the same promise.
  TrainReport fit(DataLoader& training);
  TrainReport fit(DataLoader& training, DataLoader& validation);

  // The loss and all metrics on other data.
  Scores evaluate(DataLoader& loader);
  // For callbacks: ends training after the current step, for that reason.
  void stop(std::string reason);

  Module& model() { return model_; }
  Optimizer& optimizer() { return optimizer_; }
  const TrainerOptions& options() const { return options_; }
  const LossFunction& loss() const { return options_.loss; }
  // While fit() runs, for callbacks: its data, and what happened so far. No validation is null.
  DataLoader* training() const { return training_; }
  DataLoader* validation() const { return validation_; }
  const TrainReport& report() const { return report_; }

 private:
  struct Run;
  TrainReport fit_all(DataLoader& training, DataLoader* validation);

  Module& model_;
  Optimizer& optimizer_;
  TrainerOptions options_;
  DataLoader *training_ = nullptr, *validation_ = nullptr;
  TrainReport report_;
  std::string stop_reason_;
};

}  // namespace spool
