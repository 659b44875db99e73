// What happened in a run: numbers by epoch and by step.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spool/train/evaluate.h"

namespace spool {

// One optimizer step.
struct StepRecord {
  std::int64_t epoch = 0;  // from 1
  std::int64_t step = 0;   // from 1, over all epochs
  double lr = 0;
  std::int64_t samples = 0;

  // The mean over the step's samples, and the norm of all gradients together before clipping. A GPU has them later than the host has given it the step: asking waits, for the
  // numbers of all steps so far, and throws what the device has to report.
  double loss() const;
  double grad_norm() const;

  struct Numbers {
    double loss = std::numeric_limits<double>::quiet_NaN(), grad_norm = loss;
    std::function<void()> fetch = {};  // while they are not known
  };
  std::shared_ptr<Numbers> numbers = {};
};

struct EpochRecord {
  std::int64_t epoch = 0;  // from 1
  std::int64_t step = 0;   // optimizer steps so far, over all epochs
  double lr = 0;           // of its last step
  double grad_norm = 0;    // the mean over its steps, before clipping
  double seconds = 0;      // of training, without validation
  std::int64_t samples = 0;
  NamedValues train = {}, validation = {};  // "loss" and the metrics

  // "loss" is that of training, "val_loss" that of validation; the same for every metric. Nothing where there is no such number.
  std::optional<double> find(std::string_view name) const;
  // All numbers, by such names.
  NamedValues values() const;
};

// As JSON, numbers exact; what checkpoints carry along.
std::string to_json(const std::vector<EpochRecord>& epochs);
// Throws IoError, calling the text `source`'s, where it is not what to_json made.
std::vector<EpochRecord> epochs_from_json(const std::string& text, const std::string& source);

}  // namespace spool
