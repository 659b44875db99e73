// The steps of an epoch.
#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/autocast.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/cuda.h"
#include "spool/core/errors.h"
#include "spool/train/trainer_run.h"

namespace spool {

bool Trainer::Run::train_epoch() {
  training_since = std::chrono::steady_clock::now();
  training.set_epoch(loader_epoch + static_cast<std::uint64_t>(epoch), batch);
  try {
    auto at = training.begin();
    while (at != training.end()) {
      train_window(at);
      update_progress();
      if (ended()) break;
      if (o.checkpoint_steps > 0 && t.report_.steps % o.checkpoint_steps == 0 && batch < training.size()) save(o.checkpoint);
    }
    steps.settle();
  } catch (...) {
    give_up(std::current_exception());
  }
  return !ended();
}

CapturedStep::Result Trainer::Run::forward_backward(const Tensor& inputs, const Tensor& targets) {
  Tensor output, loss_of_batch;
  {
    const Autocast mixed(o.mixed_precision);
    output = model(inputs);
    if (first_step && o.guards.softmax && !o.loss) detail::check_not_softmax(output);
    loss_of_batch = o.loss ? o.loss(output, targets) : cross_entropy(output, targets);
  }
  if (loss_of_batch.numel() != 1)
    throw ShapeError("Trainer", "the loss must be one number, the mean over the batch: reduce it with mean()",
                     {{"loss", loss_of_batch}});
  if (o.guards.nonfinite) {
    if (at_once() || !loss_of_batch.is_cuda()) {
      if (const double number = loss_of_batch.item<double>(); !std::isfinite(number))
        throw_nonfinite(std::isnan(number) ? "the loss is NaN" : "the loss is infinite");
    } else {
      detail::report_nonfinite(loss_of_batch);
    }
  }
  loss_of_batch.backward();
  return {loss_of_batch.detach(), output.detach()};
}

void Trainer::Run::update() {
  try {
    optimizer.step(
        {.average_over = static_cast<std::int64_t>(window.size()), .check_finite = o.guards.nonfinite, .wait = at_once()});
  } catch (const GradError&) {
    if (at_once())
      if (const auto which = nonfinite_gradient()) throw_nonfinite(*which);
    throw;
  }
}

// What is captured.
CapturedStep::Result Trainer::Run::whole_step(const Tensor& inputs, const Tensor& targets) {
  optimizer.zero_grad();
  CapturedStep::Result result = forward_backward(inputs, targets);
  update();
  return result;
}

void Trainer::Run::run_captured() {
  results.push_back(captured->run(window[0].inputs, window[0].targets));
  for (AnyMetric& m : metrics) m->add(results[0].output, window[0].targets);
  if (captured->reason().empty()) return;
  warn("steps are not captured: " + captured->reason());
  captured.reset();
}

// One optimizer step. Everything that could go wrong does so before anything is changed that stays changed.
void Trainer::Run::train_window(DataLoader::Iterator& at) {
  steps.begin({t.report_.steps, batch});
  window.clear();
  results.clear();
  const double lr = optimizer.lr();
  if (captured && !careful) {
    window.push_back({at->inputs.to(device), at->targets.to(device)});
    run_captured();
  } else {
    optimizer.zero_grad();
    do {
      if (!window.empty()) ++at;
      window.push_back({at->inputs.to(device), at->targets.to(device)});
      results.push_back(forward_backward(window.back().inputs, window.back().targets));
    } while (static_cast<std::int64_t>(window.size()) < o.accumulate &&
             batch + static_cast<std::int64_t>(window.size()) < training.size());
    for (std::size_t i = 0; i < window.size(); ++i)
      for (AnyMetric& m : metrics) m->add(results[i].output, window[i].targets);
    update();
  }
  for (std::size_t i = 0; i < window.size(); ++i)
    steps.add_loss(results[i].loss, window[i].targets.dim() > 0 ? window[i].targets.size(0) : 1);
  batch += static_cast<std::int64_t>(window.size());
  StepRecord record{.epoch = epoch + 1, .step = ++t.report_.steps, .lr = last_lr = lr};
  steps.end(optimizer.last_grad_norm(), record);
  if (o.schedule && o.schedule_per == Per::step) o.schedule->step();
  if (std::exchange(first_step, false) && o.guards.unused_parameters)
    for (const std::string& text : detail::parameters_without_gradient(model, optimizer)) warn(text);
  ++at;
  tell(&Callback::on_step_end, record);
}

void Trainer::Run::count(const StepRecord& step) {
  loss.add(full({}, step.loss(), {.dtype = f64}), step.samples);
  grad_norm.add(full({}, step.grad_norm(), {.dtype = f64}), 1);
}

void Trainer::Run::give_up(std::exception_ptr error) {
  std::optional<PendingSteps::Undone> undone;
  try {
    synchronize(device);
  } catch (...) {
    error = std::current_exception();  // the device found it before the host found what ended training
  }
  try {
    undone = steps.undo();
  } catch (const CudaError&) {
    std::rethrow_exception(error);  // the device is lost
  }
  if (!undone) std::rethrow_exception(error);
  optimizer.zero_grad();
  t.report_.steps = undone->place.steps;
  batch = undone->place.batch;
  if (!undone->reported) std::rethrow_exception(error);
  try {
    std::rethrow_exception(error);
  } catch (const GradError&) {
    // Once more, to say where it came from.
    careful = true;
    training.set_epoch(loader_epoch + static_cast<std::uint64_t>(epoch), batch);
    auto at = training.begin();
    try {
      train_window(at);
    } catch (...) {
      steps.undo();
      optimizer.zero_grad();
      throw;
    }
    throw;
  }
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

void Trainer::Run::throw_nonfinite(const std::string& what) {
  steps.rewind();
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
