#include "spool/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "spool/autograd/creation.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

Tensor number(double value) { return scalar_tensor(value, {.dtype = f64}); }
Tensor integer(std::int64_t value) { return scalar_tensor(value, {.dtype = i64}); }

template <class T>
T read(const char* schedule, const StateDict& state, const std::string& name) {
  const Tensor* t = find_tensor(state, name);
  if (!t || !t->defined() || t->numel() != 1)
    throw ValueError(schedule,
                     fmt::format("the state has no number '{}': it was saved by another kind of schedule, or is not one", name));
  return t->item<T>();
}

void check_positive(const char* schedule, const char* option, std::int64_t value) {
  if (value < 1) throw ValueError(schedule, fmt::format("{} must be at least 1, not {}", option, value));
}

}  // namespace

Schedule::~Schedule() = default;

Schedule::Schedule(const char* name, Optimizer& optimizer) : name_(name), optimizer_(optimizer) {
  for (Optimizer::Group& g : optimizer.groups()) {
    if (!g.initial_lr) g.initial_lr = g.lr;
    base_lrs_.push_back(*g.initial_lr);
  }
}

void Schedule::set_base_lr(double lr) {
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) optimizer_.groups()[i].initial_lr = base_lrs_[i] = lr;
}

void Schedule::set_epoch(std::int64_t epoch) {
  if (epoch < 0) throw ValueError(name_, fmt::format("epochs count from 0, {} is none", epoch));
  apply(epoch);
  epoch_ = epoch;
}

void Schedule::apply(std::int64_t epoch) {
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) optimizer_.groups()[i].lr = rate(epoch, base_lrs_[i]);
}

StateDict Schedule::state_dict() const {
  StateDict state{{"last_epoch", integer(epoch_)}};
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) state.push_back({fmt::format("base_lr{}", i), number(base_lrs_[i])});
  return state;
}

void Schedule::load_state_dict(const StateDict& state) {
  const auto epoch = read<std::int64_t>(name_, state, "last_epoch");
  std::vector<double> base = base_lrs_;
  for (std::size_t i = 0; i < base.size(); ++i) base[i] = read<double>(name_, state, fmt::format("base_lr{}", i));
  base.swap(base_lrs_);
  try {
    set_epoch(epoch);
  } catch (...) {
    base.swap(base_lrs_);
    throw;
  }
}

StepLR::StepLR(Optimizer& optimizer, Options options) : Schedule("StepLR", optimizer), options_(options) {
  check_positive("StepLR", "step_size", options.step_size);
  set_epoch(0);
}

double StepLR::rate(std::int64_t epoch, double base_lr) const {
  return base_lr * std::pow(options_.gamma, static_cast<double>(epoch / options_.step_size));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, Options options)
    : Schedule("MultiStepLR", optimizer), options_(std::move(options)) {
  if (!std::is_sorted(options_.milestones.begin(), options_.milestones.end()))
    throw ValueError("MultiStepLR", "milestones must be in ascending order");
  set_epoch(0);
}

double MultiStepLR::rate(std::int64_t epoch, double base_lr) const {
  const auto& m = options_.milestones;
  return base_lr * std::pow(options_.gamma, static_cast<double>(std::upper_bound(m.begin(), m.end(), epoch) - m.begin()));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, Options options)
    : Schedule("CosineAnnealingLR", optimizer), options_(options) {
  check_positive("CosineAnnealingLR", "T_max", options.T_max);
  set_epoch(0);
}

double CosineAnnealingLR::rate(std::int64_t epoch, double base_lr) const {
  const double angle = std::numbers::pi * static_cast<double>(epoch) / static_cast<double>(options_.T_max);
  return options_.eta_min + (base_lr - options_.eta_min) * (1 + std::cos(angle)) / 2;
}

LinearLR::LinearLR(Optimizer& optimizer, Options options) : Schedule("LinearLR", optimizer), options_(options) {
  check_positive("LinearLR", "total_iters", options.total_iters);
  if (!(options.start_factor > 0 && options.start_factor <= 1))
    throw ValueError("LinearLR", fmt::format("start_factor must be in (0, 1], not {}", options.start_factor));
  if (!(options.end_factor >= 0 && options.end_factor <= 1))
    throw ValueError("LinearLR", fmt::format("end_factor must be in [0, 1], not {}", options.end_factor));
  set_epoch(0);
}

double LinearLR::rate(std::int64_t epoch, double base_lr) const {
  const double part = static_cast<double>(std::min(epoch, options_.total_iters)) / static_cast<double>(options_.total_iters);
  return base_lr * (options_.start_factor + (options_.end_factor - options_.start_factor) * part);
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, Options options) : Schedule("OneCycleLR", optimizer), options_(options) {
  check_positive("OneCycleLR", "total_steps", options.total_steps);
  if (!(options.max_lr > 0)) throw ValueError("OneCycleLR", fmt::format("max_lr must be above 0, not {}", options.max_lr));
  if (!(options.pct_start >= 0 && options.pct_start <= 1))
    throw ValueError("OneCycleLR", fmt::format("pct_start must be in [0, 1], not {}", options.pct_start));
  if (!(options.div_factor > 0 && options.final_div_factor > 0))
    throw ValueError("OneCycleLR", "div_factor and final_div_factor must be above 0");
  set_base_lr(options.max_lr / options.div_factor);
  set_epoch(0);
}

double OneCycleLR::at(std::int64_t epoch, double initial, double peak, double last) const {
  const auto anneal = [this](double from, double to, double part) {
    if (options_.anneal_strategy == Anneal::linear) return from + (to - from) * part;
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
  };
  struct Stage {
    double end, from, to;
  };
  const double total = static_cast<double>(options_.total_steps), rise = options_.pct_start * total - 1;
  const Stage two[] = {{rise, initial, peak}, {total - 1, peak, last}};
  const Stage three[] = {{rise, initial, peak}, {2 * options_.pct_start * total - 2, peak, initial}, {total - 1, initial, last}};
  double start = 0;
  for (const Stage& p : options_.three_phase ? std::span<const Stage>(three) : std::span<const Stage>(two)) {
    if (static_cast<double>(epoch) <= p.end)
      return anneal(p.from, p.to, p.end == start ? 1 : (static_cast<double>(epoch) - start) / (p.end - start));
    start = p.end;
  }
  return last;
}

double OneCycleLR::rate(std::int64_t epoch, double base_lr) const {
  return at(epoch, base_lr, options_.max_lr, base_lr / options_.final_div_factor);
}

void OneCycleLR::apply(std::int64_t epoch) {
  if (epoch > options_.total_steps)
    throw ValueError("OneCycleLR", fmt::format("step() number {} goes beyond total_steps = {}", epoch, options_.total_steps));
  Schedule::apply(epoch);
  if (!options_.cycle_momentum) return;
  for (Optimizer::Group& g : optimizer().groups())
    g.momentum = at(epoch, options_.max_momentum, options_.base_momentum, options_.max_momentum);
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<Schedule*> schedules, std::vector<std::int64_t> milestones)
    : Schedule("SequentialLR", optimizer), schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  if (schedules_.empty() || milestones_.size() + 1 != schedules_.size())
    throw ValueError("SequentialLR", fmt::format("{} schedules need {} milestones between them, not {}", schedules_.size(),
                                                 schedules_.empty() ? 0 : schedules_.size() - 1, milestones_.size()));
  for (const Schedule* s : schedules_)
    if (!s || &s->optimizer() != &optimizer) throw ValueError("SequentialLR", "every schedule must belong to the same optimizer");
  for (std::size_t i = 0; i < milestones_.size(); ++i)
    if (milestones_[i] <= (i ? milestones_[i - 1] : 0))
      throw ValueError("SequentialLR", "milestones must be above 0 and ascending");
  set_epoch(0);
}

std::pair<Schedule*, std::int64_t> SequentialLR::part(std::int64_t epoch) const {
  const auto i = static_cast<std::size_t>(std::upper_bound(milestones_.begin(), milestones_.end(), epoch) - milestones_.begin());
  return {schedules_[i], i ? epoch - milestones_[i - 1] : epoch};
}

double SequentialLR::rate(std::int64_t epoch, double base_lr) const {
  const auto [schedule, local] = part(epoch);
  return schedule->rate(local, base_lr);
}

void SequentialLR::apply(std::int64_t epoch) {
  const auto [schedule, local] = part(epoch);
  schedule->set_epoch(local);
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, Options options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.mode == Mode::min ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity()) {
  if (!(options.factor >= 0 && options.factor < 1))
    throw ValueError("ReduceLROnPlateau", fmt::format("factor must be in [0, 1), not {}", options.factor));
  if (options.patience < 0 || options.cooldown < 0)
    throw ValueError("ReduceLROnPlateau", "patience and cooldown must be at least 0");
}

bool ReduceLROnPlateau::better(double metric) const {
  const bool relative = options_.threshold_mode == ThresholdMode::rel;
  if (options_.mode == Mode::min) return metric < (relative ? best_ * (1 - options_.threshold) : best_ - options_.threshold);
  return metric > (relative ? best_ * (1 + options_.threshold) : best_ + options_.threshold);
}

void ReduceLROnPlateau::step(double metric) {
  ++epoch_;
  if (better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience) return;
  for (Optimizer::Group& g : optimizer_.groups()) {
    const double lowered = std::max(g.lr * options_.factor, options_.min_lr);
    if (g.lr - lowered > options_.eps) g.lr = lowered;
  }
  cooldown_left_ = options_.cooldown;
  bad_epochs_ = 0;
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict state{{"best", number(best_)},
                  {"num_bad_epochs", integer(bad_epochs_)},
                  {"cooldown_counter", integer(cooldown_left_)},
                  {"last_epoch", integer(epoch_)}};
  const auto& groups = optimizer_.groups();
  for (std::size_t i = 0; i < groups.size(); ++i) state.push_back({fmt::format("lr{}", i), number(groups[i].lr)});
  return state;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state) {
  const char* name = "ReduceLROnPlateau";
  const auto best = read<double>(name, state, "best");
  const auto bad = read<std::int64_t>(name, state, "num_bad_epochs"), left = read<std::int64_t>(name, state, "cooldown_counter"),
             epoch = read<std::int64_t>(name, state, "last_epoch");
  std::vector<double> rates;
  for (std::size_t i = 0; i < optimizer_.groups().size(); ++i) rates.push_back(read<double>(name, state, fmt::format("lr{}", i)));
  for (std::size_t i = 0; i < rates.size(); ++i) optimizer_.groups()[i].lr = rates[i];
  best_ = best;
  bad_epochs_ = bad;
  cooldown_left_ = left;
  epoch_ = epoch;
}

}  // namespace spool
