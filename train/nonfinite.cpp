#include "spool/train/nonfinite.h"

#include <fmt/format.h>

#include <optional>

#include "spool/autograd/autograd.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/ops.h"
#include "spool/train/keep_gradients.h"
#if SPOOL_WITH_CUDA
#include "spool/kernels/step_guard.h"
#endif

namespace spool {
namespace {

std::string place(const Node& n) {
  std::string text = n.op;
  if (n.scope) text += fmt::format(", layer {}   {}", n.scope->path, n.scope->description);
  return text;
}

// The line of a node that was recorded while a Finder was alive.
std::string line_of(const Node& n, const char* what) {
  return has_source_lines() ? to_string(n.extras->recorded_at.frames(1), what) : std::string();
}

// Remembers the first infinity and the first NaN of a forward pass, and the first of either of a backward pass.
class Finder final : public TapeObserver {
 public:
  struct Found {
    std::string text, op, layer;
  };
  std::optional<Found> infinite, nan, gradient;

  void recorded(Node& n, const Tensor& output) override {
    detail::keep_call_stack(n);
    if (nan || !is_floating(output.dtype()) || all_finite(output)) return;
    const bool is_nan = has_nan(output);
    if (is_nan)
      nan = found(
          n, fmt::format("  the first NaN is in the output {} of {}{}", to_string(output.shape()), place(n), line_of(n, "")));
    else if (!infinite)
      infinite = found(n, fmt::format("  the first infinity is in the output {} of {}{}", to_string(output.shape()), place(n),
                                      line_of(n, "")));
  }
  void ran(Node& n, std::span<const Tensor>, std::span<const Tensor> grads) override {
    if (gradient) return;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || all_finite(grads[i])) continue;
      const Edge& e = n.inputs[i];
      const std::string of = e.leaf.defined() && !e.leaf.name().empty() ? "'" + e.leaf.name() + "'"
                             : e.node                                   ? fmt::format("its input, the output of {}", e.node->op)
                                                                        : fmt::format("its input {}", i);
      gradient = found(n, fmt::format("  the first {} is in the gradient that the backward of {}\n  gave to {}{}",
                                      has_nan(grads[i]) ? "NaN" : "infinity", place(n), of, line_of(n, "recorded")));
      return;
    }
  }

 private:
  static Found found(const Node& n, std::string text) { return {std::move(text), n.op, n.scope ? n.scope->path : std::string()}; }
};

std::optional<std::string> bad_data(const Module& model, const Batch& batch) {
  for (const auto& [name, p] : model.named_parameters())
    if (!all_finite(p)) return fmt::format("  the parameter '{}' was {} before the step", name, has_nan(p) ? "NaN" : "infinite");
  for (const auto& [name, b] : model.named_buffers())
    if (!all_finite(b)) return fmt::format("  the buffer '{}' was {} before the step", name, has_nan(b) ? "NaN" : "infinite");
  for (const auto& [what, t] : {std::pair("inputs", batch.inputs), std::pair("targets", batch.targets)}) {
    if (all_finite(t)) continue;
    const Tensor rows = isfinite(t).reshape({t.size(0), -1});
    const auto row = argmin(all(rows, 1).to(i64)).item<std::int64_t>();
    return fmt::format("  the {} of the batch hold {}, first in row {}: look at the data", what,
                       has_nan(t) ? "NaN" : "an infinity", row);
  }
  return {};
}

}  // namespace

void detail::report_nonfinite([[maybe_unused]] const Tensor& loss) {
#if SPOOL_WITH_CUDA
  kernels::report_nonfinite(loss);
#endif
}

ForwardState::ForwardState(const Module& model) {
  NoGrad guard;
  const Device device = device_of(model);
  if (device.is_cuda()) saves_ = zeros({1}, {.dtype = i64, .device = device});
  for (const NamedTensor& b : model.named_buffers()) {
    const bool by_device = device.is_cuda() && b.tensor.device() == device && is_dense(b.tensor);
    (by_device ? on_device_ : buffers_).push_back(b.tensor);
    (by_device ? device_copies_ : copies_).push_back(empty_like(b.tensor));
    (by_device ? device_copies_ : copies_).back().copy_(b.tensor);
  }
  seed_ = default_generator().seed();
  position_ = default_generator().position();
}

void ForwardState::save() {
  NoGrad guard;
  for (std::size_t i = 0; i < buffers_.size(); ++i) copies_[i].copy_(buffers_[i]);
#if SPOOL_WITH_CUDA
  if (saves_.defined()) kernels::save_unless_reported(on_device_, device_copies_, saves_);
#endif
  ++host_saves_;
  seed_ = default_generator().seed();
  position_ = default_generator().position();
}

std::int64_t ForwardState::saves() const { return saves_.defined() ? saves_.item<std::int64_t>() : host_saves_; }

void ForwardState::restore() const {
  NoGrad guard;
  for (std::size_t i = 0; i < buffers_.size(); ++i) Tensor(buffers_[i]).copy_(copies_[i]);
  for (std::size_t i = 0; i < on_device_.size(); ++i) Tensor(on_device_[i]).copy_(device_copies_[i]);
  default_generator().manual_seed(seed_);
  default_generator().set_position(position_);
}

NonFiniteOrigin find_nonfinite(Module& model, const LossFunction& loss, std::span<const Batch> batches) {
  const detail::KeepGradients keep(model);
  for (const Batch& batch : batches) {
    if (auto data = bad_data(model, batch)) return {*data, "", "", false};
    Finder finder;
    // Operations on the inputs themselves are on the tape only where the inputs ask for a gradient.
    Tensor inputs = batch.inputs.detach();
    if (is_floating(inputs.dtype())) inputs.set_requires_grad(true);
    const Tensor value = loss(model(inputs), batch.targets);
    if (finder.infinite || finder.nan) {
      const Finder::Found& first = finder.infinite ? *finder.infinite : *finder.nan;
      std::string text = first.text;
      if (finder.infinite && finder.nan && !all_finite(value)) text += '\n' + finder.nan->text;
      if (!all_finite(value)) return {text, first.op, first.layer, false};
    }
    value.backward();
    if (finder.gradient) return {finder.gradient->text, finder.gradient->op, finder.gradient->layer, true};
  }
  return {"  each operation by itself is finite: the sum over the accumulated batches is not", "", "", true};
}

}  // namespace spool
