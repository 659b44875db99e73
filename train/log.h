// Files that say what happened in a run, for programs to read. Each is a callback:
//
//   CsvLog csv("run.csv");
//   TensorBoardLog board("runs/first");
//   Trainer trainer(model, adam, {.epochs = 10, .callbacks = {&csv, &board}});
#pragma once
#include <memory>
#include <string>

#include "spool/train/callback.h"

namespace spool {

// A table with a row an epoch: epoch, step, seconds, lr, grad_norm, samples, then loss and metrics by the names of EpochRecord::values(). The whole file is
// replaced after each epoch, so that a run that is resumed leaves one table without gaps. Throws IoError.
class CsvLog final : public Callback {
 public:
  explicit CsvLog(std::string path) : path_(std::move(path)) {}
  void on_epoch_end(Trainer& trainer, const EpochRecord& record) override;

 private:
  std::string path_;
};
std::string to_csv(const std::vector<EpochRecord>& epochs);

// One JSON object a line: {"event": "fit"}, "step", "epoch", "warning", "end", each with what belongs to it. Lines are written whole, so that a killed
// process leaves complete ones. A run that is resumed appends, after taking out the steps that it does again. Throws IoError.
class JsonLog final : public Callback {
 public:
  struct Options {
    std::int64_t every_steps = 1;  // 0: no steps, epochs only
  };
  explicit JsonLog(std::string path) : JsonLog(std::move(path), Options{}) {}
  JsonLog(std::string path, Options options);
  ~JsonLog() override;
  void on_fit_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const StepRecord& record) override;
  void on_epoch_end(Trainer& trainer, const EpochRecord& record) override;
  void on_warning(Trainer& trainer, const std::string& text) override;
  void on_fit_end(Trainer& trainer, const TrainReport& report) override;

 private:
  void write(const std::string& line);
  std::string path_;
  Options options_;
  int file_ = -1;
};

class EventFile;

// TensorBoard's files, in two runs that it draws into the same charts: `folder`/train and `folder`/validation, with "loss" and every metric by optimizer step; the
// training run also has "step/loss", "step/lr" and "step/grad_norm". Throws IoError.
class TensorBoardLog final : public Callback {
 public:
  struct Options {
    std::int64_t every_steps = 10;  // of the curves by step; 0: none
  };
  explicit TensorBoardLog(std::string folder) : TensorBoardLog(std::move(folder), Options{}) {}
  TensorBoardLog(std::string folder, Options options);
  ~TensorBoardLog() override;
  void on_fit_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const StepRecord& record) override;
  void on_epoch_end(Trainer& trainer, const EpochRecord& record) override;

 private:
  std::string folder_;
  Options options_;
  std::unique_ptr<EventFile> train_, validation_;
};

}  // namespace spool
