// The steps that a Trainer has given to its device and not heard of yet, and the way back from the first one that went wrong. On the CPU there is never more than one. Not for
// users.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "spool/optim/schedule.h"
#include "spool/train/history.h"
#include "spool/train/nonfinite.h"

namespace spool {

class PendingSteps {
 public:
  // `known` is called for each step, in order, once its numbers are there. Waits for the device, so that what it reports later is of these steps.
  PendingSteps(Module& model, Optimizer& optimizer, Schedule* schedule, std::function<void(const StepRecord&)> known);
  ~PendingSteps();
  PendingSteps(const PendingSteps&) = delete;
  PendingSteps& operator=(const PendingSteps&) = delete;

  // How far the run was before a step.
  struct Place {
    std::int64_t steps = 0, batch = 0;
  };
  void begin(Place before);
  // The mean over a batch of the step.
  void add_loss(const Tensor& loss, std::int64_t samples);
  // The step was taken; the norm may be undefined. Completes the record with its samples and numbers.
  void end(const Tensor& grad_norm, StepRecord& record);

  // Learns the numbers of all steps so far, which waits for the device. Throws what it has to report.
  void settle();
  // For how long there are steps of which nothing is known; 0 without such.
  double seconds() const;

  // Buffers and generator as they were before this step.
  void rewind() const { before_.restore(); }
  struct Undone {
    Place place;    // to which the run was taken back
    bool reported;  // the device found the error, while the host was further than that
  };
  // After an exception: takes buffers, generator, schedule and the optimizer's count of steps back to before the step that went wrong. None where every step is complete, so that
  // something else was to blame.
  std::optional<Undone> undo();

 private:
  struct Step {
    Place before;
    std::int64_t optimizer_steps, schedule_epoch;
    std::uint64_t draws;
    std::vector<std::pair<std::size_t, std::int64_t>> losses;  // cells, and samples
    std::optional<std::size_t> norm;                           // cell
    std::optional<StepRecord> record;                          // where complete
  };
  std::size_t keep(const Tensor& number);

  Optimizer& optimizer_;
  Schedule* schedule_;
  std::function<void(const StepRecord&)> known_;
  const Device device_;
  ForwardState before_;
  std::int64_t begun_ = 0;
  std::uint64_t reports_;
  std::vector<Step> steps_;
  std::chrono::steady_clock::time_point since_;  // of the first of them
  // Numbers on the device, f64, in pieces of kCells.
  static constexpr std::size_t kCells = 1024;
  std::vector<Tensor> cells_;
  std::size_t used_ = 0;
};

}  // namespace spool
