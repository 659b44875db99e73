// Figures of merit over many batches. Sums stay on the device of what is added; reading a value is what waits for it. None records on the tape.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "spool/core/named_tensors.h"

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
  // What was added up, so that a run can stop in the middle of an epoch and go on.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  Tensor sum_;  // f64
  std::int64_t count_ = 0;
};

// What a metric is: derive from this for one of your own, or use MeanMetric. The name is the one in logs and reports: "accuracy".
class Metric {
 public:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  virtual ~Metric();
  const std::string& name() const { return name_; }

  // A batch: what the model gave, and what it was to give. Its rows are samples.
  virtual void add(const Tensor& output, const Tensor& target) = 0;
  // NaN before anything was added.
  virtual double value() const = 0;
  virtual void reset() = 0;
  // What was added up so far, to be saved and loaded in the middle of an epoch.
  virtual StateDict state_dict() const = 0;
  virtual void load_state_dict(const StateDict& state) = 0;

 protected:
  Metric(const Metric&) = default;
  Metric& operator=(const Metric&) = default;

 private:
  std::string name_;
};

// A metric of any kind, held by value: what lists of metrics consist of.
class AnyMetric {
 public:
  template <std::derived_from<Metric> M>
  AnyMetric(M metric)
      : metric_(std::make_unique<M>(std::move(metric))),
        copy_([](const Metric& m) -> std::unique_ptr<Metric> { return std::make_unique<M>(static_cast<const M&>(m)); }) {}
  AnyMetric(const AnyMetric& other) : metric_(other.copy_(*other.metric_)), copy_(other.copy_) {}
  AnyMetric(AnyMetric&&) noexcept = default;
  AnyMetric& operator=(AnyMetric other) noexcept {
    metric_.swap(other.metric_);
    std::swap(copy_, other.copy_);
    return *this;
  }
  Metric* operator->() { return metric_.get(); }
  const Metric* operator->() const { return metric_.get(); }
  // As what it is; null when it is something else.
  template <class M>
  const M* as() const {
    return dynamic_cast<const M*>(metric_.get());
  }

 private:
  std::unique_ptr<Metric> metric_;
  std::unique_ptr<Metric> (*copy_)(const Metric&);
};

// The part of samples whose largest logit is that of their label. At ties the first class counts.
class Accuracy : public Metric {
 public:
  Accuracy() : Metric("accuracy") {}
  // logits [N, C], labels i64 [N].
  void add(const Tensor& logits, const Tensor& labels) override;
  std::int64_t count() const { return count_; }
  // In [0, 1]; NaN before anything was added.
  double value() const override;
  void reset() override { correct_ = {}, count_ = 0; }
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 protected:
  explicit Accuracy(std::string name) : Metric(std::move(name)) {}
  void count(const Tensor& correct, std::int64_t samples);

 private:
  Tensor correct_;  // i64
  std::int64_t count_ = 0;
};

// The part of samples whose label is among the k largest logits; called "top5".
class TopK final : public Accuracy {
 public:
  // Throws ValueError below 1.
  explicit TopK(std::int64_t k);
  // logits [N, C] with C >= k, labels i64 [N].
  void add(const Tensor& logits, const Tensor& labels) override;

 private:
  std::int64_t k_;
};

// The mean over all samples of what a function gives as the mean over a batch: `MeanMetric("mae", [](const Tensor& y, const Tensor& target) { return
// l1_loss(y, target); })`.
class MeanMetric final : public Metric {
 public:
  using Function = std::function<Tensor(const Tensor& output, const Tensor& target)>;
  MeanMetric(std::string name, Function mean_over_batch) : Metric(std::move(name)), function_(std::move(mean_over_batch)) {}
  void add(const Tensor& output, const Tensor& target) override;
  double value() const override { return mean_.value(); }
  void reset() override { mean_.reset(); }
  StateDict state_dict() const override { return mean_.state_dict(); }
  void load_state_dict(const StateDict& state) override { mean_.load_state_dict(state); }

 private:
  Function function_;
  RunningMean mean_;
};

// How often each class was taken for which. Its value, "balanced_accuracy", is the mean of the accuracies of the classes that occurred.
class ConfusionMatrix final : public Metric {
 public:
  // Throws ValueError below 1.
  explicit ConfusionMatrix(std::int64_t num_classes);
  // logits [N, num_classes], labels i64 [N] in 0 .. num_classes-1, else IndexError.
  void add(const Tensor& logits, const Tensor& labels) override;
  // [num_classes, num_classes] i64 on the CPU: rows are labels, columns predictions.
  Tensor counts() const;
  // NaN before anything was added.
  double accuracy() const;
  double value() const override;
  // Of each label; NaN for those that did not occur.
  std::vector<double> per_class_accuracy() const;
  void reset() override { counts_ = {}; }
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  std::int64_t classes_;
  Tensor counts_;  // i64, flat
};

// The table of per-class accuracies, a line a class: name, accuracy, number of samples. Throws ValueError where there are not as many names as classes.
std::string per_class_table(const ConfusionMatrix& matrix, const std::vector<std::string>& names);

}  // namespace spool
