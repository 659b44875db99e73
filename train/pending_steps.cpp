#include "spool/train/pending_steps.h"

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/core/cuda.h"

namespace spool {

PendingSteps::PendingSteps(Module& model, Optimizer& optimizer, Schedule* schedule, std::function<void(const StepRecord&)> known)
    : optimizer_(optimizer), schedule_(schedule), known_(std::move(known)), device_(device_of(model)), before_(model) {
  synchronize(device_);
  reports_ = cuda_work().reports;
}

PendingSteps::~PendingSteps() {
  for (const Step& s : steps_)
    if (s.record) s.record->numbers->fetch = {};
}

void PendingSteps::begin(Place before) {
  before_.save();
  ++begun_;
  if (steps_.empty()) since_ = std::chrono::steady_clock::now();
  steps_.push_back({.before = before,
                    .optimizer_steps = optimizer_.steps(),
                    .schedule_epoch = schedule_ ? schedule_->last_epoch() : 0,
                    .draws = default_generator().position(),
                    .losses = {},
                    .norm = {},
                    .record = {}});
}

std::size_t PendingSteps::keep(const Tensor& number) {
  NoGrad guard;
  if (used_ == cells_.size() * kCells) cells_.push_back(empty({kCells}, {.dtype = f64, .device = device_}));
  cells_[used_ / kCells].narrow(0, static_cast<std::int64_t>(used_ % kCells), 1).copy_(number.detach().reshape({1}));
  return used_++;
}

void PendingSteps::add_loss(const Tensor& loss, std::int64_t samples) { steps_.back().losses.emplace_back(keep(loss), samples); }

void PendingSteps::end(const Tensor& grad_norm, StepRecord& record) {
  Step& step = steps_.back();
  if (grad_norm.defined()) step.norm = keep(grad_norm);
  record.samples = 0;
  for (const auto& [cell, samples] : step.losses) record.samples += samples;
  record.numbers = std::make_shared<StepRecord::Numbers>();
  record.numbers->fetch = [this] { settle(); };
  step.record = record;
  if (!device_.is_cuda()) settle();
}

void PendingSteps::settle() {
  if (steps_.empty()) return;
  std::vector<double> numbers;
  for (std::size_t from = 0; from < used_; from += kCells) {
    const auto n = static_cast<std::int64_t>(std::min(used_ - from, kCells));
    const std::vector<double> some = cells_[from / kCells].narrow(0, 0, n).to_vector<double>();
    numbers.insert(numbers.end(), some.begin(), some.end());
  }
  const std::vector<Step> steps = std::move(steps_);
  steps_.clear();
  used_ = 0;
  for (const Step& s : steps) {
    StepRecord::Numbers& to = *s.record->numbers;
    double sum = 0;
    for (const auto& [cell, samples] : s.losses) sum += numbers[cell] * static_cast<double>(samples);
    to.loss = sum / static_cast<double>(s.record->samples);
    if (s.norm) to.grad_norm = numbers[*s.norm];
    to.fetch = {};
    known_(*s.record);
  }
}

double PendingSteps::seconds() const {
  return steps_.empty() ? 0 : std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
}

std::optional<PendingSteps::Undone> PendingSteps::undo() {
  if (steps_.empty()) return {};
  const bool reported = cuda_work().reports != reports_;
  if (!reported && steps_.back().record) return {};
  const std::int64_t later = begun_ - before_.saves();  // steps that began after the error
  const Step& first = steps_[steps_.size() - 1 - static_cast<std::size_t>(later)];
  before_.restore();
  default_generator().set_position(first.draws);
  optimizer_.set_steps_back(optimizer_.steps() - first.optimizer_steps);
  if (schedule_ && schedule_->last_epoch() != first.schedule_epoch) schedule_->set_epoch(first.schedule_epoch);
  const Undone undone{first.before, reported};
  for (const Step& s : steps_)
    if (s.record) s.record->numbers->fetch = {};
  steps_.clear();
  used_ = 0;
  begun_ = before_.saves();
  reports_ = cuda_work().reports;
  return undone;
}

}  // namespace spool
