// One call of Trainer::fit; what train/trainer*.cpp share, not for users.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "spool/train/captured_step.h"
#include "spool/train/checkpoint.h"
#include "spool/train/interrupt.h"
#include "spool/train/pending_steps.h"
#include "spool/train/progress.h"
#include "spool/train/trainer.h"

namespace spool {

struct Trainer::Run {
  Run(Trainer& trainer, DataLoader& training, DataLoader* validation);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void check_before();  // the guards that need no training
  void resume();        // from options.resume
  void one_epoch();     // or what is left of it
  bool ended() const { return interrupt.requested() || !t.stop_reason_.empty(); }
  TrainReport finish();
  template <class... A, class... B>
  void tell(void (Callback::*hook)(Trainer&, A...), const B&... arguments) {
    for (Callback* c : o.callbacks) (c->*hook)(t, arguments...);
  }

 private:
  bool train_epoch();  // false when it ended early
  void train_window(DataLoader::Iterator& at);
  CapturedStep::Result forward_backward(const Tensor& inputs, const Tensor& targets);
  void update();
  CapturedStep::Result whole_step(const Tensor& inputs, const Tensor& targets);
  void run_captured();
  void count(const StepRecord& step);  // into the epoch's means
  // What is left undone by an error, taken back; throws it, or a better one.
  [[noreturn]] void give_up(std::exception_ptr error);
  bool at_once() const { return careful || !device.is_cuda(); }
  [[noreturn]] void throw_nonfinite(const std::string& what);
  std::optional<std::string> nonfinite_gradient() const;
  void end_epoch(EpochRecord record);
  bool improved(const EpochRecord& record);
  void stop_early();       // when the best epoch is long enough ago
  double seconds() const;  // spent training in this epoch
  void update_progress();
  void say(const std::string& line);
  void warn(const std::string& text);
  void print_epoch(const EpochRecord& record);

  RunParts parts() const;
  Checkpoint position() const;
  void save(const std::string& path);
  void load_position(const LoadedCheckpoint& from);
  void check_same_loader(const LoadedCheckpoint& from) const;

  Trainer& t;
  Module& model;
  Optimizer& optimizer;
  const TrainerOptions& o;
  DataLoader& training;
  DataLoader* validation;
  const Device device;
  const Interrupt interrupt;
  PendingSteps steps;
  std::optional<CapturedStep> captured;
  std::vector<Batch> window;  // batches of the current step
  std::vector<CapturedStep::Result> results;
  bool careful = false;  // wait for the loss and the gradients of each step, on a device too
  std::optional<ProgressBar> bar;
  const std::string monitor, unit;
  std::optional<std::chrono::steady_clock::time_point> training_since;  // while the steps of an epoch run
  bool first_step = true;

  // What a checkpoint carries.
  std::int64_t epoch = 0;          // epochs finished
  std::int64_t batch = 0;          // batches of the next one finished
  std::uint64_t loader_epoch = 0;  // of the loader, when `epoch` was 0
  std::int64_t bad_epochs = 0;     // since the best one
  double seconds_before = 0;       // of this epoch's training, before `training_since`
  double last_lr = 0;              // of the last step
  RunningMean loss, grad_norm;     // of this epoch
  std::vector<AnyMetric> metrics;
};

}  // namespace spool
