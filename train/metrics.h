// Figures of merit over many batches. Sums stay on the device of what is added; reading a value is what waits for it. None records on the tape.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spool/core/tensor.h"

namespace spool {

// The mean of per-batch means, each weighted by the size of its batch, so that a smaller last batch counts for what it is.
class RunningMean {
 public:
  // `mean`: a tensor of one element, the mean over `count` samples. Throws ShapeError, ValueError below 1.
  void add(const Tensor& mean, std::int64_t count);
  std::int64_t count() const { return count_; }
  // NaN before anything was added.
  double value() const;
  void reset() { *this = {}; }

 private:
  Tensor sum_;  // f64
  std::int64_t count_ = 0;
};

// The part of samples whose largest logit is that of their label. At ties the first class counts.
class Accuracy {
 public:
  // logits [N, C], labels i64 [N].
  void add(const Tensor& logits, const Tensor& labels);
  std::int64_t count() const { return count_; }
  // In [0, 1]; NaN before anything was added.
  double value() const;
  void reset() { *this = {}; }

 private:
  Tensor correct_;  // i64
  std::int64_t count_ = 0;
};

// How often each class was taken for which.
class ConfusionMatrix {
 public:
  // Throws ValueError below 1.
  explicit ConfusionMatrix(std::int64_t num_classes);
  // logits [N, num_classes], labels i64 [N] in 0 .. num_classes-1, else IndexError.
  void add(const Tensor& logits, const Tensor& labels);
  // [num_classes, num_classes] i64 on the CPU: rows are labels, columns predictions.
  Tensor counts() const;
  // NaN before anything was added.
  double accuracy() const;
  // Of each label; NaN for those that did not occur.
  std::vector<double> per_class_accuracy() const;
  void reset() { counts_ = {}; }

 private:
  std::int64_t classes_;
  Tensor counts_;  // i64, flat
};

// The table of per-class accuracies, a line a class: name, accuracy, number of samples. Throws ValueError where there are not as many names as classes.
std::string per_class_table(const ConfusionMatrix& matrix, const std::vector<std::string>& names);

}  // namespace spool
