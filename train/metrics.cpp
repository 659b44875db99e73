#include "spool/train/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

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
  if (sum.defined())
    sum.add_(part);
  else
    sum = part.clone();
}

}  // namespace

void RunningMean::add(const Tensor& mean, std::int64_t count) {
  if (mean.numel() != 1)
    throw ShapeError("RunningMean", "expects the mean of a batch, a tensor of one element", {{"mean", mean}});
  if (count < 1) throw ValueError("RunningMean", fmt::format("a batch has at least 1 sample, not {}", count));
  NoGrad guard;
  accumulate(sum_, mean.detach().reshape({}).to(f64) * count);
  count_ += count;
}

double RunningMean::value() const { return count_ ? sum_.item<double>() / static_cast<double>(count_) : kNaN; }

void Accuracy::add(const Tensor& logits, const Tensor& labels) {
  check_batch("Accuracy", logits, labels);
  if (labels.size(0) == 0) return;
  NoGrad guard;
  accumulate(correct_, sum(eq(argmax(logits.detach(), 1), labels)));
  count_ += labels.size(0);
}

double Accuracy::value() const { return count_ ? correct_.item<double>() / static_cast<double>(count_) : kNaN; }

ConfusionMatrix::ConfusionMatrix(std::int64_t num_classes) : classes_(num_classes) {
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
  const Tensor before = counts_.defined() ? counts_ : zeros({classes_ * classes_}, {.dtype = i64, .device = labels.device()});
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
