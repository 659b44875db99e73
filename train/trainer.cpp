#include "spool/train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <csignal>
#include <limits>

#include "spool/autograd/autocast.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/train/atomic_file.h"
#include "spool/train/trainer_run.h"

namespace spool {
namespace {

bool is_loss(const std::string& name) { return name.ends_with("loss"); }

void check_monitor(const TrainerOptions& o, const std::string& monitor, bool with_validation) {
  std::vector<std::string> names{"loss"};
  for (const AnyMetric& m : *o.metrics) names.push_back(m->name());
  if (with_validation) {
    names.push_back("val_loss");
    for (const auto& list : {*o.metrics, o.validation_metrics})
      for (const AnyMetric& m : list) names.push_back("val_" + m->name());
  }
  for (const std::string& name : names)
    if (name == monitor) return;
  throw ValueError("Trainer",
                   fmt::format("nothing is called '{}', which .monitor asks for; there are {}", monitor, fmt::join(names, ", ")));
}

const char* name_of_signal(int number) { return number == SIGTERM ? "SIGTERM" : number == SIGINT ? "SIGINT" : "a signal"; }

}  // namespace

Callback::~Callback() = default;

Trainer::Trainer(Module& model, Optimizer& optimizer, TrainerOptions options)
    : model_(model), optimizer_(optimizer), options_(std::move(options)) {
  const auto need = [](bool fine, const char* option, auto value, const char* expected) {
    if (!fine) throw ValueError("Trainer", fmt::format("{} must be {}, not {}", option, expected, value));
  };
  TrainerOptions& o = options_;
  need(o.epochs >= 0, "epochs", o.epochs, "at least 0");
  need(o.accumulate >= 1, "accumulate", o.accumulate, "at least 1");
  if (o.capture && o.accumulate != 1)
    throw ValueError(
        "Trainer", fmt::format("capture records steps of one batch, and accumulate is {}: leave one of them out", o.accumulate));
  need(o.checkpoint_steps >= 0, "checkpoint_steps", o.checkpoint_steps, "at least 0");
  if (o.early_stopping) {
    need(o.early_stopping->patience >= 1, "early_stopping.patience", o.early_stopping->patience, "at least 1");
    need(o.early_stopping->min_delta >= 0, "early_stopping.min_delta", o.early_stopping->min_delta, "at least 0");
  }
  if (o.checkpoint_steps > 0 && o.checkpoint.empty())
    throw ValueError("Trainer", "checkpoint_steps needs .checkpoint, the file to save to");
  if (!o.checkpoint.empty() && o.checkpoint == o.best_checkpoint)
    throw ValueError("Trainer",
                     fmt::format("checkpoint and best_checkpoint are both '{}': the best would be overwritten", o.checkpoint));
  detail::check_notes(o.checkpoint_notes);
  if (o.checkpoint_notes.count("history"))
    throw ValueError("Trainer", "a note of checkpoint_notes cannot be called 'history': the epochs are kept under that name");
  for (const Callback* c : o.callbacks)
    if (!c) throw ValueError("Trainer", "one of the callbacks is null");
  if (o.schedule && &o.schedule->optimizer() != &optimizer)
    throw ValueError("Trainer", fmt::format("the {} belongs to another optimizer", o.schedule->name()));
  if (!o.metrics) {
    o.metrics.emplace();
    if (!o.loss) o.metrics->emplace_back(Accuracy());
  }
  std::vector<std::string> names{"loss"};
  for (const auto& list : {*o.metrics, o.validation_metrics})
    for (const AnyMetric& m : list) {
      for (const std::string& other : names)
        if (other == m->name()) throw ValueError("Trainer", fmt::format("two metrics are called '{}'", other));
      names.push_back(m->name());
    }
}

void Trainer::stop(std::string reason) { stop_reason_ = reason.empty() ? "stop()" : std::move(reason); }

TrainReport Trainer::fit(DataLoader& training) { return fit_all(training, nullptr); }
TrainReport Trainer::fit(DataLoader& training, DataLoader& validation) { return fit_all(training, &validation); }

Scores Trainer::evaluate(DataLoader& loader) {
  std::vector<AnyMetric> all = *options_.metrics;
  all.insert(all.end(), options_.validation_metrics.begin(), options_.validation_metrics.end());
  const Autocast mixed(options_.mixed_precision);
  return spool::evaluate(model_, loader, {.loss = options_.loss, .metrics = std::move(all)});
}

TrainReport Trainer::fit_all(DataLoader& training, DataLoader* validation) {
  struct Scope {  // what callbacks can ask for while fit() runs
    Trainer& t;
    ~Scope() { t.training_ = t.validation_ = nullptr; }
  } scope{*this};
  training_ = &training;
  validation_ = validation;
  report_ = {};
  stop_reason_.clear();
  const TrainMode mode(model_);
  Run run(*this, training, validation);
  run.check_before();
  if (!options_.resume.empty()) run.resume();
  run.tell(&Callback::on_fit_begin);
  while (static_cast<std::int64_t>(report_.epochs.size()) < options_.epochs && !run.ended()) run.one_epoch();
  return run.finish();
}

Trainer::Run::Run(Trainer& trainer, DataLoader& loader, DataLoader* validating)
    : t(trainer),
      model(trainer.model_),
      optimizer(trainer.optimizer_),
      o(trainer.options_),
      training(loader),
      validation(validating),
      device(device_of(trainer.model_)),
      steps(trainer.model_, trainer.optimizer_, trainer.options_.schedule, [this](const StepRecord& s) { count(s); }),
      monitor(!trainer.options_.monitor.empty() ? trainer.options_.monitor
              : validating                      ? "val_loss"
                                                : "loss"),
      unit(loader.dataset().spec().is_picture() ? "images" : "samples"),
      loader_epoch(loader.epoch()),
      metrics(*trainer.options_.metrics) {
  for (AnyMetric& m : metrics) m->reset();
  t.report_.best = std::numeric_limits<double>::quiet_NaN();
  if (o.capture)
    captured.emplace([this](const Tensor& inputs, const Tensor& targets) { return whole_step(inputs, targets); }, optimizer);
}

void Trainer::Run::check_before() {
  check_monitor(o, monitor, validation != nullptr);
  if (training.size() == 0)
    throw ValueError("Trainer", fmt::format("there is nothing to train on: {} examples make no batch of {}",
                                            training.dataset().size(), training.options().batch_size));
  if (validation && validation->size() == 0) throw ValueError("Trainer", "the validation data are empty");
  // What cannot be written should not show after an epoch.
  for (const std::string& path : {o.checkpoint, o.best_checkpoint})
    if (!path.empty()) AtomicFile probe(path);
  if (o.guards.batch_of_one) detail::check_last_batch(model, training);
  if (o.guards.unused_parameters)
    for (const std::string& text : detail::untrained_parameters(model, optimizer)) warn(text);
  if (o.guards.validation_overlap && validation)
    if (const auto text = detail::shared_examples(training.dataset(), validation->dataset())) warn(*text);
}

void Trainer::Run::one_epoch() {
  tell(&Callback::on_epoch_begin, epoch + 1);
  if (o.verbose)
    bar.emplace(fmt::format("epoch {}/{}", epoch + 1, o.epochs), training.dataset().size(),
                ProgressOptions{.out = o.out, .unit = unit.c_str()});
  const bool complete = train_epoch();
  EpochRecord record{
      .epoch = epoch + 1, .step = t.report_.steps, .lr = last_lr, .grad_norm = grad_norm.value(), .samples = loss.count()};
  record.seconds = seconds();
  record.train.emplace_back("loss", loss.value());
  for (const AnyMetric& m : metrics) record.train.emplace_back(m->name(), m->value());
  seconds_before = record.seconds;
  training_since.reset();
  std::optional<Scores> scores;
  if (complete && validation) {
    std::vector<AnyMetric> all = *o.metrics;
    all.insert(all.end(), o.validation_metrics.begin(), o.validation_metrics.end());
    const Autocast mixed(o.mixed_precision);
    scores = spool::evaluate(model, *validation, {.loss = o.loss, .metrics = std::move(all), .interrupt = &interrupt});
  }
  if (!complete || (scores && !scores->complete)) {
    // The epoch is not over: going on from here gives the same as never having stopped.
    if (!o.checkpoint.empty()) save(o.checkpoint);
    return;
  }
  if (scores) {
    record.validation = scores->values();
    t.report_.validation = std::move(scores);
  }
  end_epoch(std::move(record));
}

void Trainer::Run::end_epoch(EpochRecord record) {
  if (o.schedule && o.schedule_per == Per::epoch) o.schedule->step();
  if (o.plateau) o.plateau->step(*record.find(monitor));
  const bool best = improved(record);
  t.report_.epochs.push_back(record);
  ++epoch;
  batch = 0;
  seconds_before = 0;
  loss.reset();
  grad_norm.reset();
  for (AnyMetric& m : metrics) m->reset();
  print_epoch(record);
  tell(&Callback::on_epoch_end, record);
  if (best && !o.best_checkpoint.empty()) save(o.best_checkpoint);
  if (!o.checkpoint.empty()) save(o.checkpoint);
  stop_early();
}

void Trainer::Run::stop_early() {
  if (o.early_stopping && bad_epochs >= o.early_stopping->patience && epoch < o.epochs)
    t.stop(fmt::format("early stopping: {} was best, {:.4f}, in epoch {}", monitor, t.report_.best, t.report_.best_epoch));
}

double Trainer::Run::seconds() const {
  if (!training_since) return seconds_before;
  return seconds_before + std::chrono::duration<double>(std::chrono::steady_clock::now() - *training_since).count();
}

bool Trainer::Run::improved(const EpochRecord& record) {
  const double value = *record.find(monitor), best = t.report_.best;
  const double delta = o.early_stopping ? o.early_stopping->min_delta : 0;
  const bool higher = o.higher_is_better.value_or(!is_loss(monitor));
  const bool better = !std::isnan(value) && (std::isnan(best) || (higher ? value > best + delta : value < best - delta));
  bad_epochs = better ? 0 : bad_epochs + 1;
  if (!better) return false;
  t.report_.best = value;
  t.report_.best_epoch = record.epoch;
  return true;
}

TrainReport Trainer::Run::finish() {
  TrainReport& report = t.report_;
  report.signal = interrupt.signal();
  report.stopped = report.signal ? name_of_signal(report.signal) : t.stop_reason_;
  if (!report.stopped.empty()) {
    std::string line = report.signal ? fmt::format("interrupted by {} after step {}", report.stopped, report.steps)
                                     : fmt::format("stopped after step {}: {}", report.steps, report.stopped);
    if (!o.checkpoint.empty()) line += fmt::format("; to go on, resume from {}", o.checkpoint);
    say(line);
  }
  bar.reset();
  tell(&Callback::on_fit_end, report);
  return report;
}

// --- what a person sees

void Trainer::Run::say(const std::string& line) {
  if (!o.verbose) return;
  if (bar) {
    bar->finish(line);
    return;
  }
  fmt::print(o.out, "{}\n", line);
  std::fflush(o.out);
}

void Trainer::Run::warn(const std::string& text) {
  t.report_.warnings.push_back(text);
  say("warning: " + text);
  tell(&Callback::on_warning, text);
}

void Trainer::Run::update_progress() {
  constexpr double longest = 1;  // seconds until the host learns that a step went wrong
  const bool draw = bar && bar->due();
  if (!draw && steps.seconds() < longest) return;
  steps.settle();
  if (!draw) return;
  std::optional<double> accuracy;
  for (const AnyMetric& m : metrics)
    if (m->name() == "accuracy") accuracy = m->value();
  bar->update(loss.count(), loss.value(), accuracy);
}

void Trainer::Run::print_epoch(const EpochRecord& record) {
  std::string line = fmt::format("epoch {}/{}  train", record.epoch, o.epochs);
  for (const auto& [name, value] : record.train) line += fmt::format(" {} {:.4f}", name, value);
  if (!record.validation.empty()) line += "  " + o.validation_name;
  for (std::size_t i = 0; i < record.validation.size() && i <= o.metrics->size(); ++i)
    line += fmt::format(" {} {:.4f}", record.validation[i].first, record.validation[i].second);
  line +=
      fmt::format("  {:.0f} {}/s, {:.2f} s/epoch", static_cast<double>(record.samples) / record.seconds, unit, record.seconds);
  say(line);
}

}  // namespace spool
