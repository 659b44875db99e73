#include "spool/train/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

// The loader's position, given back at the end of a scope.
class KeepEpoch {
 public:
  explicit KeepEpoch(DataLoader& loader) : loader_(loader), epoch_(loader.epoch()) { loader.set_epoch(0); }
  ~KeepEpoch() { loader_.set_epoch(epoch_); }
  KeepEpoch(const KeepEpoch&) = delete;
  KeepEpoch& operator=(const KeepEpoch&) = delete;

 private:
  DataLoader& loader_;
  std::uint64_t epoch_;
};

}  // namespace

double Scores::operator[](std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& [known, value] : values()) {
    if (known == name) return value;
    names.push_back(known);
  }
  throw ValueError("Scores", fmt::format("there is no '{}', only {}", name, fmt::join(names, ", ")));
}

NamedValues Scores::values() const {
  NamedValues list{{"loss", loss}};
  for (const AnyMetric& m : metrics) list.emplace_back(m->name(), m->value());
  return list;
}

Device device_of(const Module& model) {
  const auto parameters = model.parameters();
  return parameters.empty() ? Device::cpu() : parameters.front().device();
}

Scores evaluate(Module& model, DataLoader& loader, EvaluateOptions options) {
  if (loader.size() == 0) throw ValueError("evaluate", "the loader has no batches: its data set is empty");
  Scores scores;
  if (options.metrics) {
    scores.metrics = std::move(*options.metrics);
  } else if (!options.loss) {
    scores.metrics.emplace_back(Accuracy());
  }
  for (AnyMetric& m : scores.metrics) m->reset();
  const LossFunction loss =
      options.loss ? std::move(options.loss) : [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); };

  const Device device = device_of(model);
  const EvalMode eval(model);
  const NoGrad no_grad;
  const KeepEpoch keep(loader);
  RunningMean mean;
  for (const auto& [inputs, targets] : loader) {
    const Tensor target = targets.to(device), output = model(inputs.to(device));
    mean.add(loss(output, target), target.size(0));
    for (AnyMetric& m : scores.metrics) m->add(output, target);
    if (options.interrupt && options.interrupt->requested()) {
      scores.complete = mean.count() == loader.dataset().size();
      break;
    }
  }
  scores.loss = mean.value();
  scores.samples = mean.count();
  return scores;
}

}  // namespace spool
