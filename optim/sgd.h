#pragma once
#include "spool/optim/optimizer.h"

namespace spool {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  // L2: added to the gradient
  bool nesterov = false;    // needs momentum, and no dampening
  std::optional<double> clip_norm = {};
  std::optional<double> clip_value = {};
  bool error_if_nonfinite = false;
};

// Gradient descent with momentum, as torch.optim.SGD: buffer = momentum buffer + (1 - dampening) g, the first time g itself.
class SGD : public Optimizer {
 public:
  using Options = SgdOptions;
  explicit SGD(std::vector<Tensor> params, SgdOptions options = {})
      : SGD(std::vector<ParamGroup>{{.params = std::move(params)}}, options) {}
  explicit SGD(std::vector<ParamGroup> groups, SgdOptions options = {});

 protected:
  std::span<const char* const> state_names() const override;
  void update(const Group& group, std::span<const Slot> slots, const kernels::GradTransform& transform,
              const Tensor& norm) override;

 private:
  SgdOptions options_;
};

}  // namespace spool
