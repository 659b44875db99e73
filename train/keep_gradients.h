// Running backward() on the side of a training run; what train/*.cpp share, not for users.
#pragma once
#include <utility>
#include <vector>

#include "spool/layers/module.h"

namespace spool::detail {

// The gradients of a model's parameters, taken away for the length of a scope and given back at its end.
class KeepGradients {
 public:
  explicit KeepGradients(const Module& model) : parameters_(model.parameters()) {
    for (Tensor& p : parameters_) {
      kept_.emplace_back(p.impl()->grad, p.impl()->grad_state);
      p.impl()->grad = {};
    }
  }
  ~KeepGradients() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].impl()->grad = kept_[i].first;
      parameters_[i].impl()->grad_state = kept_[i].second;
    }
  }
  KeepGradients(const KeepGradients&) = delete;
  KeepGradients& operator=(const KeepGradients&) = delete;

 private:
  std::vector<Tensor> parameters_;
  std::vector<std::pair<Tensor, GradState>> kept_;
};

}  // namespace spool::detail
