#include "spool/optim/sgd.h"

#include "spool/core/errors.h"
#include "spool/kernels/optim.h"

namespace spool {

SGD::SGD(std::vector<ParamGroup> groups, SgdOptions options)
    : Optimizer("SGD", std::move(groups), options.lr, options.weight_decay, options.momentum,
                {options.clip_norm, options.clip_value, options.error_if_nonfinite}),
      options_(options) {
  if (!(options.momentum >= 0 && options.momentum <= 1)) throw_bad_option("momentum", options.momentum, "in [0, 1]");
  if (!(options.dampening >= 0 && options.dampening <= 1)) throw_bad_option("dampening", options.dampening, "in [0, 1]");
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    throw ValueError("SGD", "nesterov needs a momentum above 0 and a dampening of 0");
}

std::span<const char* const> SGD::state_names() const {
  static constexpr const char* names[] = {"momentum_buffer"};
  return std::span(names, options_.momentum == 0 ? 0 : 1);
}

void SGD::update(const Group& group, std::span<const Slot> slots, const kernels::GradTransform& transform, const Tensor& norm) {
  std::vector<kernels::SgdEntry> entries;
  entries.reserve(slots.size());
  for (const Slot& s : slots) entries.push_back({s.param, s.grad, options_.momentum == 0 ? Tensor() : s.state[0], s.step});
  const kernels::SgdStep step{group.lr, group.momentum, options_.dampening, group.weight_decay, options_.nesterov};
  kernels::sgd(entries, step, transform, norm);
}

}  // namespace spool
