// The steps of an epoch.
#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/autocast.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/train/trainer_run.h"

namespace spool {

bool Trainer::Run::train_epoch() {
  training_since = std::chrono::steady_clock::now();
  training.set_epoch(loader_epoch + static_cast<std::uint64_t>(epoch), batch);
  auto at = training.begin();
  while (at != training.end()) {
    train_window(at);
    update_progress();
    if (ended()) return false;
    if (o.checkpoint_steps > 0 && t.report_.steps % o.checkpoint_steps == 0 && batch < training.size()) save(o.checkpoint);
  }
  return true;
}

double Trainer::Run::forward_backward(const Batch& b, std::vector<std::pair<Tensor, Tensor>>& outputs) {
  Tensor output, value;
  {
    const Autocast mixed(o.mixed_precision);
    output = model(b.inputs);
    if (first_step && o.guards.softmax && !o.loss) detail::check_not_softmax(output);
    value = o.loss ? o.loss(output, b.targets) : cross_entropy(output, b.targets);
  }
  if (value.numel() != 1)
    throw ShapeError("Trainer", "the loss must be one number, the mean over the batch: reduce it with mean()", {{"loss", value}});
  const double number = value.item<double>();
  if (!o.guards.nonfinite || std::isfinite(number)) {
    value.backward();
    outputs.emplace_back(output.detach(), b.targets);
  }
  return number;
}

// One optimizer step. Everything that could go wrong does so before anything is changed that stays changed.
void Trainer::Run::train_window(DataLoader::Iterator& at) {
  optimizer.zero_grad();
  before_step.save();
  std::vector<Batch> window;
  std::vector<std::pair<Tensor, Tensor>> outputs;
  RunningMean window_loss;
  const double lr = optimizer.lr();
  try {
    do {
      if (!window.empty()) ++at;
      window.push_back({at->inputs.to(device), at->targets.to(device)});
      const Batch& b = window.back();
      const double number = forward_backward(b, outputs);
      if (outputs.size() < window.size())
        throw_nonfinite(std::isnan(number) ? "the loss is NaN" : "the loss is infinite", window);
      window_loss.add(full({}, number, {.dtype = f64}), b.targets.dim() > 0 ? b.targets.size(0) : 1);
    } while (static_cast<std::int64_t>(window.size()) < o.accumulate &&
             batch + static_cast<std::int64_t>(window.size()) < training.size());
    for (const auto& [output, target] : outputs)
      for (AnyMetric& m : metrics) m->add(output, target);
    try {
      optimizer.step({.average_over = static_cast<std::int64_t>(window.size()), .check_finite = o.guards.nonfinite});
    } catch (const GradError&) {
      if (const auto which = nonfinite_gradient()) throw_nonfinite(*which, window);
      throw;
    }
  } catch (...) {
    before_step.restore();
    optimizer.zero_grad();
    throw;
  }
  batch += static_cast<std::int64_t>(window.size());
  ++t.report_.steps;
  last_lr = lr;
  const double norm =
      optimizer.last_grad_norm().defined() ? optimizer.last_grad_norm().item<double>() : std::numeric_limits<double>::quiet_NaN();
  loss.add(full({}, window_loss.value(), {.dtype = f64}), window_loss.count());
  grad_norm.add(full({}, norm, {.dtype = f64}), 1);
  if (o.schedule && o.schedule_per == Per::step) o.schedule->step();
  if (std::exchange(first_step, false) && o.guards.unused_parameters)
    for (const std::string& text : detail::parameters_without_gradient(model, optimizer)) warn(text);
  ++at;
  tell(&Callback::on_step_end, StepRecord{.epoch = epoch + 1,
                                          .step = t.report_.steps,
                                          .loss = window_loss.value(),
                                          .grad_norm = norm,
                                          .lr = lr,
                                          .samples = window_loss.count()});
}

// "the gradient of 'fc1.weight' holds NaN"; nothing when all are finite.
std::optional<std::string> Trainer::Run::nonfinite_gradient() const {
  for (const Optimizer::Group& g : optimizer.groups())
    for (const Tensor& p : g.params) {
      if (!p.grad().defined() || all_finite(p.grad())) continue;
      NoGrad guard;
      return fmt::format("the gradient of {} holds {}",
                         p.name().empty() ? "a parameter " + to_string(p.shape()) : "'" + p.name() + "'",
                         any(isnan(p.grad())).item<bool>() ? "NaN" : "infinity");
    }
  return {};
}

void Trainer::Run::throw_nonfinite(const std::string& what, const std::vector<Batch>& window) {
  before_step.restore();
  const Autocast mixed(o.mixed_precision);  // as the step was computed
  const NonFiniteOrigin origin = find_nonfinite(
      model, o.loss ? o.loss : [](const Tensor& y, const Tensor& l) { return cross_entropy(y, l); }, window);
  throw NonFiniteError(
      fmt::format(
          "{} in step {} (epoch {}, batch {})\n{}\n  the step was not taken: weights, optimizer and running statistics are as "
          "before it. Look for a logarithm, root or division of zero; lower the learning rate ({:g} here) or clip "
          "(.clip_norm = 1). Off by .guards = {{.nonfinite = false}}",
          what, t.report_.steps + 1, epoch + 1, batch + static_cast<std::int64_t>(window.size()), origin.text, optimizer.lr()),
      origin.op, origin.layer, origin.backward);
}

}  // namespace spool
