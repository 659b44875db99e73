#include "spool/optim/adam.h"

#include "spool/kernels/optim.h"

namespace spool {

Adam::Adam(const char* name, std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled)
    : Optimizer(name, std::move(groups), options.lr, options.weight_decay, options.betas.first,
                {options.clip_norm, options.clip_value, options.error_if_nonfinite}),
      options_(options),
      decoupled_(decoupled) {
  if (!(options.betas.first >= 0 && options.betas.first < 1)) throw_bad_option("betas.first", options.betas.first, "in [0, 1)");
  if (!(options.betas.second >= 0 && options.betas.second < 1))
    throw_bad_option("betas.second", options.betas.second, "in [0, 1)");
  if (!(options.eps >= 0)) throw_bad_option("eps", options.eps, "at least 0");
}

AdamW::AdamW(std::vector<ParamGroup> groups, AdamWOptions options)
    : Adam("AdamW", std::move(groups),
           {.lr = options.lr,
            .betas = options.betas,
            .eps = options.eps,
            .weight_decay = options.weight_decay,
            .amsgrad = options.amsgrad,
            .clip_norm = options.clip_norm,
            .clip_value = options.clip_value,
            .error_if_nonfinite = options.error_if_nonfinite},
           true) {}

std::span<const char* const> Adam::state_names() const {
  static constexpr const char* names[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return std::span(names, options_.amsgrad ? 3 : 2);
}

void Adam::update(const Group& group, std::span<const Slot> slots, const kernels::GradTransform& transform, const Tensor& norm) {
  std::vector<kernels::AdamEntry> entries;
  entries.reserve(slots.size());
  for (const Slot& s : slots) entries.push_back({s.param, s.grad, s.state[0], s.state[1], s.state[2], s.step});
  const kernels::AdamStep step{group.lr, group.momentum, options_.betas.second, options_.eps, group.weight_decay, decoupled_};
  kernels::adam(entries, step, transform, norm);
}

}  // namespace spool
