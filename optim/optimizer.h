// What all optimizers share: parameter groups, clipping, gradient accumulation, the guards of step(), and saving.
//
//   Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
//   for (auto [x, y] : loader) {
//     adam.zero_grad();
//     cross_entropy(model(x), y).backward();
//     adam.step();
//   }
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "spool/core/named_tensors.h"

namespace spool {

namespace kernels {
struct GradTransform;
}

// Parameters with their own settings; what is not given comes from the optimizer's options.
struct ParamGroup {
  std::vector<Tensor> params;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

struct StepOptions {
  // How many backward() calls, each of a mean loss, the gradients are the sum of: they are divided by it. For gradient accumulation: call backward() n
  // times, then step({.average_over = n}); an incomplete last window passes the smaller n. Throws ValueError below 1.
  std::int64_t average_over = 1;
  // Throw GradError, before anything is changed, when the norm of the gradients is infinite or NaN.
  bool check_finite = false;
  // ... by this call, which then waits for a device. Else the device looks at the norm while the host goes on: nothing is changed by this step and those after it, and
  // what waits for the device next throws.
  bool wait = true;
};

// The gradient clipping every optimizer offers, done while the parameters are updated (grad() itself is left as it is).
struct ClipOptions {
  std::optional<double> clip_norm = {};   // gradients are scaled down to this norm, taken over all parameters together
  std::optional<double> clip_value = {};  // then each element is clamped to [-clip_value, clip_value]
  // Throw GradError, before anything is changed, when that norm is infinite or NaN; on a device as StepOptions says without `wait`.
  bool error_if_nonfinite = false;
};

class Optimizer {
 public:
  // Settings may be changed between steps; schedules do.
  struct Group {
    std::vector<Tensor> params;
    double lr;
    double weight_decay;
    double momentum;                   // SGD's momentum, Adam's beta1
    std::optional<double> initial_lr;  // the rate before any schedule; set by the first one
  };

  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer();

  // Updates every parameter from its gradient; parameters without one are left alone. Throws GradError, before anything is changed, when
  // backward() has not run since the last step, or when a gradient still holds what an earlier step used (zero_grad() was forgotten);
  // DeviceError when parameters lie on different devices.
  void step(StepOptions options = {});
  void zero_grad();

  std::vector<Group>& groups() { return groups_; }
  const std::vector<Group>& groups() const { return groups_; }
  // How gradients are clipped.
  const ClipOptions& clip_options() const { return clip_; }
  // "Adam"
  const char* name() const { return name_; }
  // The rate of the first group; sets that of all groups.
  double lr() const { return groups_.front().lr; }
  void set_lr(double lr);

  // The global norm of the last step's gradients before clipping, f64 with one element, on the parameters' device; undefined unless
  // clip_norm, error_if_nonfinite or check_finite asked for it.
  const Tensor& last_grad_norm() const { return last_norm_; }

  // How many steps this object has taken; and some of them taken back (or, negative, added), for steps that ran in another way than by step(), or that a device refused:
  // CapturedStep and Trainer do this. So does CapturedStep set the norm.
  std::int64_t steps() const { return steps_; }
  void set_steps_back(std::int64_t n);
  void set_last_grad_norm(Tensor norm) { last_norm_ = std::move(norm); }

  // Everything that must be saved to go on as if never stopped: "<parameter>.step", "<parameter>.exp_avg" ... by the parameters' names
  // (numbers where they have none), and each group's rates as "group0.lr" ... The tensors share their elements with the optimizer.
  StateDict state_dict() const;
  // Throws ValueError or ShapeError listing everything missing, unexpected and mismatched, before anything is changed.
  void load_state_dict(const StateDict& state);

 protected:
  struct Slot {
    Tensor param;
    Tensor grad;                  // during step() only; undefined where there is none
    std::array<Tensor, 3> state;  // made at the parameter's first step
    std::int64_t step = 0;
    bool stepped = false;  // by the last step()
  };
  Optimizer(const char* name, std::vector<ParamGroup> groups, double lr, double weight_decay, double momentum,
            const ClipOptions& clip);
  // The names of the tensors kept for each parameter.
  virtual std::span<const char* const> state_names() const = 0;
  virtual void update(const Group& group, std::span<const Slot> slots, const kernels::GradTransform& transform,
                      const Tensor& norm) = 0;

  [[noreturn]] void throw_bad_option(const char* option, double value, const char* expected) const;

 private:
  void check_gradients() const;
  void prepare();
  void check_finite(const Tensor& norm) const;
  std::vector<std::string> slot_names() const;

  const char* name_;
  std::vector<Group> groups_;
  std::vector<std::vector<Slot>> slots_;  // of each group
  ClipOptions clip_;
  std::int64_t steps_ = 0;
  Tensor last_norm_;
};

struct ClipGradNormOptions {
  double norm_type = 2;             // above 0, or infinity
  bool error_if_nonfinite = false;  // throw GradError and leave the gradients as they are
};
// Scales the gradients down, in place, so that their norm, taken over all parameters together, is at most max_norm. Returns the norm before, f64
// with one element, without waiting for the device. Parameters without a gradient do not count.
Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, ClipGradNormOptions options = {});
inline Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, ClipGradNormOptions options = {}) {
  return clip_grad_norm_(std::span<const Tensor>(parameters), max_norm, options);
}
// Clamps every element of the gradients to [-clip_value, clip_value], in place.
void clip_grad_value_(std::span<const Tensor> parameters, double clip_value);
inline void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  clip_grad_value_(std::span<const Tensor>(parameters), clip_value);
}

}  // namespace spool
