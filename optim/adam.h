#pragma once
#include <utility>

#include "spool/optim/optimizer.h"

namespace spool {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // L2: added to the gradient, so that it enters the moments
  bool amsgrad = false;     // divide by the largest second moment seen
  std::optional<double> clip_norm = {};
  std::optional<double> clip_value = {};
  bool error_if_nonfinite = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // decoupled: weights are multiplied by 1 - lr weight_decay before the step
  bool amsgrad = false;
  std::optional<double> clip_norm = {};
  std::optional<double> clip_value = {};
  bool error_if_nonfinite = false;
};

// As torch.optim.Adam.
class Adam : public Optimizer {
 public:
  using Options = AdamOptions;
  explicit Adam(std::vector<Tensor> params, AdamOptions options = {})
      : Adam(std::vector<ParamGroup>{{.params = std::move(params)}}, options) {}
  explicit Adam(std::vector<ParamGroup> groups, AdamOptions options = {}) : Adam("Adam", std::move(groups), options, false) {}

 protected:
  Adam(const char* name, std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled);
  std::span<const char* const> state_names() const override;
  void update(const Group& group, std::span<const Slot> slots, const kernels::GradTransform& transform,
              const Tensor& norm) override;

 private:
  AdamOptions options_;
  bool decoupled_;
};

// As torch.optim.AdamW.
class AdamW : public Adam {
 public:
  using Options = AdamWOptions;
  explicit AdamW(std::vector<Tensor> params, AdamWOptions options = {})
      : AdamW(std::vector<ParamGroup>{{.params = std::move(params)}}, options) {}
  explicit AdamW(std::vector<ParamGroup> groups, AdamWOptions options = {});
};

}  // namespace spool
