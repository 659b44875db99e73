// Measuring a model: its loss and metrics over a data set, in eval mode and without a tape.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spool/data/loader.h"
#include "spool/layers/module.h"
#include "spool/train/interrupt.h"
#include "spool/train/metrics.h"

namespace spool {

// The mean loss of a batch, a tensor of one element, from what the model gave and what it was to give.
using LossFunction = std::function<Tensor(const Tensor& output, const Tensor& target)>;

// A name and a number, in the order in which they are shown.
using NamedValues = std::vector<std::pair<std::string, double>>;

// The result of an evaluation. Every sample counts the same, also in a last batch that is smaller.
struct Scores {
  double loss = 0;
  std::int64_t samples = 0;
  std::vector<AnyMetric> metrics;
  bool complete = true;  // not where a signal ended it early

  // "loss" or the name of a metric. Throws ValueError, listing the names there are.
  double operator[](std::string_view name) const;
  NamedValues values() const;
  // The metric of that kind, `scores.get<ConfusionMatrix>()`; null where there is none.
  template <class M>
  const M* get() const {
    for (const AnyMetric& m : metrics)
      if (const M* found = m.as<M>()) return found;
    return nullptr;
  }
};

struct EvaluateOptions {
  LossFunction loss = {};  // cross_entropy where not given
  // Accuracy where neither a loss nor metrics are given.
  std::optional<std::vector<AnyMetric>> metrics = {};
  const Interrupt* interrupt = nullptr;  // ends after the current batch when a signal has come
};

// Puts the model into eval mode for as long as it takes, exceptions included; its own mode, and that of each layer, comes back. Batches are moved to the device
// of the model's parameters. The loader begins its epoch 0 and is left at the epoch that it had. Throws ValueError when there are no batches.
Scores evaluate(Module& model, DataLoader& loader, EvaluateOptions options = {});

// Where a model's parameters lie; the CPU where it has none.
Device device_of(const Module& model);

}  // namespace spool
