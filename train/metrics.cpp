#include "spool/train/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/train/state.h"

namespace spool {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void check_batch(const char* metric, const Tensor& logits, const Tensor& labels) {
  if (logits.dim() != 2 || labels.dim() != 1 || logits.size(0) != labels.size(0))
    throw ShapeError(metric, "expects logits [N, classes] and labels [N]", {{"logits", logits}, {"labels", labels}});
  if (labels.dtype() != i64) throw DTypeError(metric, "labels must be i64", {{"labels", labels}});
}

// `sum` += `part`, where `sum` may still be undefined.
void accumulate(Tensor& sum, const Tensor& part) {
  if (!sum.defined())
    sum = part.clone();
  else
    sum = sum.to(part.device()).add_(part);  // a sum that was loaded lies in host memory
}

// A sum and, where there is one, a number of samples; the sum is left out before anything was added.
StateDict state_of(const Tensor& sum, std::int64_t count) {
  StateDict state{{"count", detail::state_integer(count)}};
  if (sum.defined()) state.push_back({"sum", sum});
  return state;
}

void load_sum(const char* metric, const StateDict& state, Tensor& sum, std::int64_t& count) {
  const auto n = detail::state_value<std::int64_t>(metric, state, "count");
  sum = n ? detail::state_entry(metric, state, "sum").clone() : Tensor();
  count = n;
}

}  // namespace

Metric::~Metric() = default;

void RunningMean::add(const Tensor& mean, std::int64_t count) {
  if (mean.numel() != 1)
    throw ShapeError("RunningMean", "expects the mean of a batch, a tensor of one element", {{"mean", mean}});
  if (count < 1) throw ValueError("RunningMean", fmt::format("a batch has at least 1 sample, not {}", count));
  NoGrad guard;
  accumulate(sum_, mean.detach().reshape({}).to(f64) * count);
  count_ += count;
}

double RunningMean::value() const { return count_ ? sum_.item<double>() / static_cast<double>(count_) : kNaN; }

StateDict RunningMean::state_dict() const { return state_of(sum_, count_); }
void RunningMean::load_state_dict(const StateDict& state) { load_sum("RunningMean", state, sum_, count_); }

void Accuracy::count(const Tensor& correct, std::int64_t samples) {
  accumulate(correct_, correct);
  count_ += samples;
}

StateDict Accuracy::state_dict() const { return state_of(correct_, count_); }
void Accuracy::load_state_dict(const StateDict& state) { load_sum(name().c_str(), state, correct_, count_); }

void Accuracy::add(const Tensor& logits, const Tensor& labels) {
  check_batch("Accuracy", logits, labels);
  if (labels.size(0) == 0) return;
  NoGrad guard;
  count(sum(eq(argmax(logits.detach(), 1), labels)), labels.size(0));
}

double Accuracy::value() const { return count_ ? correct_.item<double>() / static_cast<double>(count_) : kNaN; }

TopK::TopK(std::int64_t k) : Accuracy(fmt::format("top{}", k)), k_(k) {
  if (k < 1) throw ValueError("TopK", fmt::format("k must be at least 1, not {}", k));
}

void TopK::add(const Tensor& logits, const Tensor& labels) {
  check_batch("TopK", logits, labels);
  if (logits.size(1) < k_)
    throw ShapeError("TopK", fmt::format("the {} largest of {} logits: choose a smaller k", k_, logits.size(1)),
                     {{"logits", logits}});
  if (labels.size(0) == 0) return;
  NoGrad guard;
  const Tensor best = topk(logits.detach(), k_, 1).indices;
  count(sum(eq(best, labels.unsqueeze(1))), labels.size(0));
}

void MeanMetric::add(const Tensor& output, const Tensor& target) {
  if (output.dim() < 1 || output.size(0) == 0) return;
  NoGrad guard;
  mean_.add(function_(output.detach(), target), output.size(0));
}

ConfusionMatrix::ConfusionMatrix(std::int64_t num_classes) : Metric("balanced_accuracy"), classes_(num_classes) {
  if (num_classes < 1) throw ValueError("ConfusionMatrix", fmt::format("num_classes must be at least 1, not {}", num_classes));
}

void ConfusionMatrix::add(const Tensor& logits, const Tensor& labels) {
  check_batch("ConfusionMatrix", logits, labels);
  if (logits.size(1) != classes_)
    throw ShapeError("ConfusionMatrix", fmt::format("expects logits of {} classes", classes_), {{"logits", logits}});
  if (labels.size(0) == 0) return;
  NoGrad guard;
  const Tensor wrong = logical_or(lt(labels, 0), ge(labels, classes_));
  if (any(wrong).item<bool>())
    throw IndexError("ConfusionMatrix", fmt::format("a label is outside of 0 .. {}", classes_ - 1), {{"labels", labels}});
  const Tensor cells = labels * classes_ + argmax(logits.detach(), 1);
  const Tensor before =
      counts_.defined() ? counts_.to(labels.device()) : zeros({classes_ * classes_}, {.dtype = i64, .device = labels.device()});
  counts_ = scatter_add(before, 0, cells, ones_like(cells));
}

Tensor ConfusionMatrix::counts() const {
  return counts_.defined() ? counts_.to(Device::cpu()).reshape({classes_, classes_})
                           : zeros({classes_, classes_}, {.dtype = i64});
}

std::vector<double> ConfusionMatrix::per_class_accuracy() const {
  const std::vector<double> n = counts().to_vector<double>();
  std::vector<double> result;
  const auto c = static_cast<std::size_t>(classes_);
  for (std::size_t label = 0; label < c; ++label) {
    double total = 0;
    for (std::size_t guess = 0; guess < c; ++guess) total += n[label * c + guess];
    result.push_back(total > 0 ? n[label * c + label] / total : kNaN);
  }
  return result;
}

double ConfusionMatrix::accuracy() const {
  const std::vector<double> n = counts().to_vector<double>();
  double total = 0, right = 0;
  for (std::size_t i = 0; i < n.size(); ++i) {
    total += n[i];
    if (i % (static_cast<std::size_t>(classes_) + 1) == 0) right += n[i];
  }
  return total > 0 ? right / total : kNaN;
}

double ConfusionMatrix::value() const {
  double total = 0;
  int classes = 0;
  for (const double accuracy : per_class_accuracy())
    if (!std::isnan(accuracy)) total += accuracy, ++classes;
  return classes ? total / classes : kNaN;
}

StateDict ConfusionMatrix::state_dict() const { return {{"counts", counts()}}; }

void ConfusionMatrix::load_state_dict(const StateDict& state) {
  const Tensor* t = find_tensor(state, "counts");
  if (!t || !t->defined() || t->shape() != Shape{classes_, classes_})
    throw ValueError("ConfusionMatrix", fmt::format("the state is not that of a matrix of {} classes", classes_));
  counts_ = t->clone().reshape({classes_ * classes_});
}

std::string per_class_table(const ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  const std::vector<double> accuracy = matrix.per_class_accuracy();
  if (names.size() != accuracy.size())
    throw ValueError("per_class_table", fmt::format("there are {} names for {} classes", names.size(), accuracy.size()));
  const std::vector<std::int64_t> n = matrix.counts().to_vector<std::int64_t>();
  std::size_t width = 5;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text = fmt::format("{:<{}}  accuracy  samples\n", "class", width);
  for (std::size_t c = 0; c < names.size(); ++c) {
    std::int64_t samples = 0;
    for (std::size_t guess = 0; guess < names.size(); ++guess) samples += n[c * names.size() + guess];
    text += samples ? fmt::format("{:<{}}  {:8.4f}  {:7}\n", names[c], width, accuracy[c], samples)
                    : fmt::format("{:<{}}  {:>8}  {:7}\n", names[c], width, "-", 0);
  }
  return text;
}

}  // namespace spool
