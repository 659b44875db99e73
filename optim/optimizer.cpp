#include "spool/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/observer.h"
#include "spool/core/errors.h"
#include "spool/kernels/optim.h"
#include "spool/optim/gradients.h"

namespace spool {
namespace {

std::string shown(const Tensor& param) {
  return param.name().empty() ? "a parameter " + to_string(param.shape()) : "'" + param.name() + "'";
}

void check_parameter(const char* op, const Tensor& p) {
  if (!p.defined()) throw ValueError(op, "one of the parameters is undefined");
  if (!is_floating(p.dtype())) throw DTypeError(op, "only floating-point tensors can be optimized", {{"parameter", p}});
  if (!p.is_leaf())
    throw GradError(op, "one of the parameters is the result of a recorded operation, not a leaf: pass what it was computed from",
                    {{"parameter", p}});
  if (!is_dense(p))
    throw ValueError(op,
                     "one of the parameters is a view with gaps in memory: make it with clone() before it becomes a parameter",
                     {{"parameter", p}});
}

}  // namespace

Optimizer::~Optimizer() = default;

void Optimizer::throw_bad_option(const char* option, double value, const char* expected) const {
  throw ValueError(name_, fmt::format("{} must be {}, not {}", option, expected, value));
}

Optimizer::Optimizer(const char* name, std::vector<ParamGroup> groups, double lr, double weight_decay, double momentum,
                     const ClipOptions& clip)
    : name_(name), clip_(clip) {
  std::unordered_set<const TensorImpl*> seen;
  for (ParamGroup& g : groups) {
    Group group{std::move(g.params), g.lr.value_or(lr), g.weight_decay.value_or(weight_decay), momentum, {}};
    if (!(group.lr >= 0 && std::isfinite(group.lr))) throw_bad_option("lr", group.lr, "finite and at least 0");
    if (!(group.weight_decay >= 0 && std::isfinite(group.weight_decay)))
      throw_bad_option("weight_decay", group.weight_decay, "finite and at least 0");
    std::vector<Slot> slots;
    for (const Tensor& p : group.params) {
      check_parameter(name, p);
      if (!seen.insert(p.impl().get()).second)
        throw ValueError(name, fmt::format("{} is listed twice: it would be updated twice a step", shown(p)), {{"parameter", p}});
      slots.push_back({.param = p, .grad = {}, .state = {}});
    }
    groups_.push_back(std::move(group));
    slots_.push_back(std::move(slots));
  }
  if (seen.empty()) throw ValueError(name, "there are no parameters: pass model.parameters()");
  if (clip.clip_norm && !(*clip.clip_norm > 0)) throw_bad_option("clip_norm", *clip.clip_norm, "above 0");
  if (clip.clip_value && !(*clip.clip_value > 0)) throw_bad_option("clip_value", *clip.clip_value, "above 0");
}

void Optimizer::set_lr(double lr) {
  if (!(lr >= 0 && std::isfinite(lr))) throw_bad_option("lr", lr, "finite and at least 0");
  for (Group& g : groups_) g.lr = lr;
}

void Optimizer::set_steps_back(std::int64_t n) {
  steps_ -= n;
  for (auto& slots : slots_)
    for (Slot& s : slots) {
      if (!s.stepped) continue;
      s.step -= n;
      if (s.step == 0) s.state = {};  // as before the first step
    }
}

void Optimizer::zero_grad() {
  for (auto& slots : slots_)
    for (Slot& s : slots) s.param.set_grad({});
}

void Optimizer::check_gradients() const {
  const Tensor *first = nullptr, *used = nullptr, *mixed = nullptr;
  bool fresh = false;
  for (const auto& slots : slots_)
    for (const Slot& s : slots) {
      if (!s.param.grad().defined()) continue;
      if (!first) first = &s.param;
      if (s.param.device() != first->device())
        throw DeviceError(name_, "the parameters lie on different devices: use one optimizer for each",
                          {{"first", *first}, {"other", s.param}});
      const GradState state = s.param.impl()->grad_state;
      if (state == GradState::fresh) fresh = true;
      if (state == GradState::used && !used) used = &s.param;
      if (state == GradState::mixed && !mixed) mixed = &s.param;
    }
  if (!first) throw GradError(name_, "no parameter has a gradient: call backward() on the loss before step()");
  if (mixed)
    throw GradError(
        name_,
        fmt::format("the gradient of {} still holds what the last step() used: call zero_grad() before the next backward()",
                    shown(*mixed)),
        {{"parameter", *mixed}});
  if (used && !fresh)
    throw GradError(name_, "step() was called twice without a backward() in between: the gradients were used already");
  if (used)
    throw GradError(
        name_,
        fmt::format("the gradient of {} is left over from an earlier step(), this backward() did not reach it: call zero_grad() "
                    "before backward()",
                    shown(*used)),
        {{"parameter", *used}});
}

// Makes the state of parameters that have their first gradient, and moves it where the model was moved or converted since.
void Optimizer::prepare() {
  const std::size_t n = state_names().size();
  for (auto& slots : slots_)
    for (Slot& s : slots) {
      if (!s.param.grad().defined()) continue;
      for (std::size_t i = 0; i < n; ++i) {
        Tensor& t = s.state[i];
        if (!t.defined()) {
          t = empty_like(s.param);
          t.zero_();
        } else if (t.device() != s.param.device() || t.dtype() != s.param.dtype() || t.strides() != s.param.strides()) {
          Tensor moved = empty_like(s.param);
          moved.copy_(t.to(s.param.device()));
          t = std::move(moved);
        }
      }
    }
}

void Optimizer::step(StepOptions options) {
  if (options.average_over < 1)
    throw ValueError(name_, fmt::format("average_over must be at least 1, not {}", options.average_over));
  check_gradients();
  const NoGrad guard;
  const PhaseGuard phase(Phase::update);
  kernels::GradTransform transform{.scale = 1 / static_cast<double>(options.average_over)};
  if (clip_.clip_norm) transform.max_norm = *clip_.clip_norm;
  if (clip_.clip_value) transform.clip_value = *clip_.clip_value;
  if (clip_.clip_norm || clip_.error_if_nonfinite || options.check_finite) {
    std::vector<Tensor> grads, params;
    for (const auto& slots : slots_)
      for (const Slot& s : slots)
        if (Tensor g = detail::matching_gradient(s.param); g.defined()) {
          grads.push_back(std::move(g));
          params.push_back(s.param);
        }
    Tensor norm = empty({}, {.dtype = f64, .device = grads[0].device()});
    kernels::grad_norm(grads, 2, transform.scale, norm);
    // A device looks at the norm itself, so that the host need not wait for it where it was not asked to.
    const bool check_now =
        norm.is_cuda() ? options.check_finite && options.wait : options.check_finite || clip_.error_if_nonfinite;
    transform.refuse_nonfinite = !check_now && (options.check_finite || clip_.error_if_nonfinite);
    if (check_now) detail::check_finite_norm(name_, norm, params.data(), params.size());
    last_norm_ = std::move(norm);
  }
  prepare();
  ++steps_;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    bool any = false;
    for (Slot& s : slots_[g]) {
      s.grad = detail::matching_gradient(s.param);
      s.stepped = s.grad.defined();
      if (!s.stepped) continue;
      ++s.step;
      any = true;
    }
    if (any) update(groups_[g], slots_[g], transform, last_norm_);
    for (Slot& s : slots_[g]) {
      if (!s.grad.defined()) continue;
      mark_overwritten(name_, s.param);
      s.param.impl()->grad_state = GradState::used;
      s.grad = {};
    }
  }
}

}  // namespace spool
