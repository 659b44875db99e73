// Learning-rate schedules, with PyTorch's names, defaults and values. A schedule counts calls of step(), usually one an epoch (OneCycleLR: one a batch), after
// those of the optimizer. The rate of epoch n is a function of n alone, set as soon as the schedule is made, so that epoch 0 uses the base rate.
//
//   CosineAnnealingLR schedule(adam, {.T_max = 10});
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     ...
//     schedule.step();
//   }
//
// The optimizer must outlive its schedules. The base rate of a group is the one it had before its first schedule.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "spool/optim/optimizer.h"

namespace spool {

class Schedule {
 public:
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  virtual ~Schedule();

  // Goes on to the next epoch and sets its rates.
  void step() { set_epoch(epoch_ + 1); }
  // How many times step() was called.
  std::int64_t last_epoch() const { return epoch_; }
  // Goes to any epoch. Throws ValueError where the schedule does not reach.
  void set_epoch(std::int64_t epoch);

  // "StepLR"
  const char* name() const { return name_; }
  Optimizer& optimizer() const { return optimizer_; }

  // The epoch and the base rates. Loading sets the optimizer's rates as if the schedule had never stopped.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 protected:
  Schedule(const char* name, Optimizer& optimizer);
  // The rate of an epoch. Derived constructors end with set_epoch(0).
  virtual double rate(std::int64_t epoch, double base_lr) const = 0;
  virtual void apply(std::int64_t epoch);
  const std::vector<double>& base_lrs() const { return base_lrs_; }
  void set_base_lr(double lr);
  friend class SequentialLR;

 private:
  const char* name_;
  Optimizer& optimizer_;
  std::vector<double> base_lrs_;
  std::int64_t epoch_ = 0;
};

// Multiplied by gamma every step_size epochs.
class StepLR : public Schedule {
 public:
  struct Options {
    std::int64_t step_size = 0;  // required
    double gamma = 0.1;
  };
  StepLR(Optimizer& optimizer, Options options);

 protected:
  double rate(std::int64_t epoch, double base_lr) const override;

 private:
  Options options_;
};

// Multiplied by gamma at each milestone.
class MultiStepLR : public Schedule {
 public:
  struct Options {
    std::vector<std::int64_t> milestones = {};  // required, ascending
    double gamma = 0.1;
  };
  MultiStepLR(Optimizer& optimizer, Options options);

 protected:
  double rate(std::int64_t epoch, double base_lr) const override;

 private:
  Options options_;
};

// Half a cosine from the base rate (epoch 0) down to eta_min (epoch T_max).
class CosineAnnealingLR : public Schedule {
 public:
  struct Options {
    std::int64_t T_max = 0;  // required
    double eta_min = 0;
  };
  CosineAnnealingLR(Optimizer& optimizer, Options options);

 protected:
  double rate(std::int64_t epoch, double base_lr) const override;

 private:
  Options options_;
};

// Warm-up: from start_factor times the base rate to end_factor times, in total_iters equal steps.
class LinearLR : public Schedule {
 public:
  struct Options {
    double start_factor = 1.0 / 3;
    double end_factor = 1;
    std::int64_t total_iters = 5;
  };
  explicit LinearLR(Optimizer& optimizer) : LinearLR(optimizer, Options{}) {}
  LinearLR(Optimizer& optimizer, Options options);

 protected:
  double rate(std::int64_t epoch, double base_lr) const override;

 private:
  Options options_;
};

// Up from max_lr / div_factor to max_lr and down to a tiny rate in total_steps batches, the momentum (Adam's beta1) the other way (Smith and Topin, 2018).
// step() throws ValueError beyond total_steps.
class OneCycleLR : public Schedule {
 public:
  enum class Anneal { cos, linear };
  struct Options {
    double max_lr = 0;             // required
    std::int64_t total_steps = 0;  // required: epochs times batches
    double pct_start = 0.3;        // the part of the cycle spent rising
    Anneal anneal_strategy = Anneal::cos;
    bool cycle_momentum = true;
    double base_momentum = 0.85;
    double max_momentum = 0.95;
    double div_factor = 25;
    double final_div_factor = 1e4;
    bool three_phase = false;  // down to the initial rate first, then to the final one
  };
  OneCycleLR(Optimizer& optimizer, Options options);

 protected:
  double rate(std::int64_t epoch, double base_lr) const override;
  void apply(std::int64_t epoch) override;

 private:
  double at(std::int64_t epoch, double initial, double peak, double last) const;
  Options options_;
};

// Several schedules in a row: schedule i + 1 takes over at milestones[i], counting from 0 again.
//   LinearLR warm_up(adam, {.total_iters = 5});
//   CosineAnnealingLR cosine(adam, {.T_max = 95});
//   SequentialLR schedule(adam, {&warm_up, &cosine}, {5});
// Only the SequentialLR is stepped, saved and loaded. The schedules must belong to the same optimizer and outlive it.
class SequentialLR : public Schedule {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<Schedule*> schedules, std::vector<std::int64_t> milestones);

 protected:
  double rate(std::int64_t epoch, double base_lr) const override;
  void apply(std::int64_t epoch) override;

 private:
  std::pair<Schedule*, std::int64_t> part(std::int64_t epoch) const;  // and the epoch in it
  std::vector<Schedule*> schedules_;
  std::vector<std::int64_t> milestones_;
};

// Multiplied by `factor` once a metric has not improved for more than `patience` epochs.
class ReduceLROnPlateau {
 public:
  enum class Mode { min, max };
  enum class ThresholdMode { rel, abs };
  struct Options {
    Mode mode = Mode::min;
    double factor = 0.1;  // below 1
    std::int64_t patience = 10;
    double threshold = 1e-4;  // what counts as better: by this part of the best (rel), or by this much (abs)
    ThresholdMode threshold_mode = ThresholdMode::rel;
    std::int64_t cooldown = 0;  // epochs to wait after a change
    double min_lr = 0;
    double eps = 1e-8;  // changes smaller than this are not made
  };
  explicit ReduceLROnPlateau(Optimizer& optimizer) : ReduceLROnPlateau(optimizer, Options{}) {}
  ReduceLROnPlateau(Optimizer& optimizer, Options options);

  // Call after each epoch with what is watched. A NaN is not an improvement.
  void step(double metric);
  std::int64_t num_bad_epochs() const { return bad_epochs_; }

  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  bool better(double metric) const;

  Optimizer& optimizer_;
  Options options_;
  double best_;
  std::int64_t bad_epochs_ = 0, cooldown_left_ = 0, epoch_ = 0;
};

}  // namespace spool
