// What a program of your own does while a Trainer trains: derive from Callback and override what you need.
#pragma once
#include <string>

#include "spool/train/history.h"

namespace spool {

class Trainer;
struct TrainReport;

// Callbacks are called in the order in which they are listed in TrainerOptions::callbacks. What one throws ends fit().
class Callback {
 public:
  virtual ~Callback();
  virtual void on_fit_begin(Trainer&) {}
  virtual void on_epoch_begin(Trainer&, std::int64_t /*epoch, from 1*/) {}
  // After an optimizer step. Trainer::stop() ends training here, as it does after an epoch.
  virtual void on_step_end(Trainer&, const StepRecord&) {}
  // After validation, where there is one, and before the checkpoint is saved.
  virtual void on_epoch_end(Trainer&, const EpochRecord&) {}
  virtual void on_checkpoint(Trainer&, const std::string& /*path*/) {}
  // A guard has something to say.
  virtual void on_warning(Trainer&, const std::string&) {}
  virtual void on_fit_end(Trainer&, const TrainReport&) {}
};

}  // namespace spool
