// backward(): runs the tape from the newest node to the oldest.
//
// A node's inputs were all made before it, so by the time the highest remaining sequence number is reached, everything that used its outputs
// has run and their gradients are complete. That is the whole scheduling: a heap ordered by sequence number, and a table, local to the
// call, of the gradients that wait.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "spool/autograd/autograd.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/engine.h"
#include "spool/autograd/node.h"
#include "spool/autograd/observer.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

bool unshared(const Tensor& t) { return t.impl()->use_count() == 1 && t.storage()->use_count() == 1; }

// `into` += `grad`, where `into` may be empty. Adds in place only into a buffer nobody else holds, and whose elements are all its own: the
// gradient of a sum is one number, seen many times.
void accumulate(Tensor& into, Tensor grad) {
  if (!into.defined()) {
    into = std::move(grad);
  } else if (!thread_state.grad_enabled && unshared(into) && into.strides() == grad.strides() && is_dense(into)) {
    into.add_(grad);
    into.impl()->channels_sum_to_zero &= grad.impl()->channels_sum_to_zero;
  } else {
    into = add(into, grad);
  }
}

// A gradient as `source` (an operation's backward, or a hook) returned it, brought to the shape and type of what it belongs to.
Tensor fitted(const char* source, Tensor grad, const Shape& shape, DType dtype, Device device) {
  if (grad.device() != device)
    throw GradError(source,
                    fmt::format("returned a gradient on {} for a tensor on {}", to_string(grad.device()), to_string(device)));
  bool fits = grad.dim() >= shape.dim();
  for (int i = 1; fits && i <= shape.dim(); ++i) {
    const std::int64_t want = shape[shape.dim() - i];
    fits = want == grad.shape()[grad.dim() - i] || want == 1;
  }
  if (!fits)
    throw GradError(source, fmt::format("returned a gradient of shape {} for a tensor of shape {}", to_string(grad.shape()),
                                        to_string(shape)));
  if (grad.shape() != shape) grad = sum_to(grad, shape);
  if (grad.dtype() != dtype) grad = grad.to(dtype);
  return grad;
}

void add_to_leaf(const Tensor& leaf, Tensor grad) {
  TensorImpl& t = *leaf.impl();
  NoGrad guard;
  t.grad_state = t.grad.defined() && t.grad_state != GradState::fresh ? GradState::mixed : GradState::fresh;
  if (t.grad.defined()) {
    if (t.grad.grad_fn() || !is_dense(t.grad))
      t.grad = add(t.grad, grad);
    else
      t.grad.add_(grad);
  } else if (unshared(grad) && grad.strides() == t.strides && !grad.requires_grad()) {
    t.grad = std::move(grad);
  } else {
    // .grad shares its elements with nothing, and lies in memory like its parameter.
    Tensor own = empty_like(leaf);
    own.copy_(grad);
    t.grad = std::move(own);
  }
}

void run_hooks(const Node& node, BackwardRun::Slots& grads) {
  for (const auto& [nr, hook] : node.extras->hooks)
    if (grads[nr].defined())
      if (Tensor replaced = hook(grads[nr]); replaced.defined())
        grads[nr] = fitted("a hook", replaced, node.outputs[nr].shape, node.outputs[nr].dtype, node.outputs[nr].device);
  for (const auto& [nr, kept] : node.extras->kept)
    if (grads[nr].defined()) *kept = clone(grads[nr].detach()).contiguous();
}

// The gradient of a leaf with hooks, which see the sum of all that arrived, once.
void finish_hooked_leaf(const Tensor& leaf, Tensor grad) {
  for (const auto& hook : leaf.impl()->extras->hooks)
    if (Tensor replaced = hook(grad); replaced.defined())
      grad = fitted("a hook", std::move(replaced), leaf.shape(), leaf.dtype(), leaf.device());
  add_to_leaf(leaf, std::move(grad));
}

// Finds the nodes from which one of the inputs can be reached.
void mark_paths(BackwardRun::Request& request, std::span<const Tensor> outputs) {
  std::unordered_set<const Node*> seen;
  std::vector<Node*> nodes;
  for (const Tensor& t : outputs)
    if (t.grad_fn() && seen.insert(t.grad_fn().get()).second) nodes.push_back(t.grad_fn().get());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const Edge& e : nodes[i]->inputs)
      if (e.node && seen.insert(e.node.get()).second) nodes.push_back(e.node.get());
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->seq < b->seq; });
  const auto is_input = [&](const Node* producer, std::uint32_t nr, const Tensor& leaf) {
    return std::any_of(request.inputs.begin(), request.inputs.end(), [&](const Tensor& t) {
      return leaf.defined() ? t.is_same(leaf) : producer && t.grad_fn().get() == producer && t.output_nr() == nr;
    });
  };
  for (Node* n : nodes)
    if (std::any_of(n->inputs.begin(), n->inputs.end(), [&](const Edge& e) {
          return is_input(e.node.get(), e.output_nr, e.leaf) || (e.node && request.on_path.count(e.node.get()));
        }))
      request.on_path.insert(n);
}

Tensor seed_of(const Tensor& output, const Tensor& given) {
  if (!given.defined()) {
    if (output.numel() != 1)
      throw GradError("backward",
                      "a gradient was not given, and can be left out only for a tensor of one element: reduce the tensor "
                      "to a loss (sum, mean) or pass its gradient",
                      {{"output", output}});
    return ones_like(output.detach());
  }
  if (given.shape() != output.shape())
    throw ShapeError("backward", "the gradient must have the shape of the tensor it belongs to",
                     {{"output", output}, {"gradient", given}});
  if (given.dtype() != output.dtype())
    throw DTypeError("backward", "the gradient must have the type of the tensor it belongs to",
                     {{"output", output}, {"gradient", given}});
  if (given.device() != output.device())
    throw DeviceError("backward", "the gradient must be on the device of the tensor it belongs to",
                      {{"output", output}, {"gradient", given}});
  return given;
}

}  // namespace

BackwardRun::BackwardRun(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs, Request& request, bool keep)
    : request_(request), keep_(keep) {
  if (!grad_outputs.empty() && grad_outputs.size() != outputs.size())
    throw GradError("backward", fmt::format("{} gradients were given for {} outputs", grad_outputs.size(), outputs.size()));
  // Every output is checked before any gradient moves.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (!output.requires_grad())
      throw GradError(
          "backward",
          "this tensor does not depend on anything that requires a gradient: was it computed under NoGrad, from detach()ed "
          "tensors, or from parameters without set_requires_grad()?",
          {{"output", output}});
    if (output.grad_fn() && output.grad_fn()->ran)
      throw GradError(
          "backward",
          fmt::format("the graph of this tensor was already freed: backward() has run through {}. Pass {{.retain_graph = true}} "
                      "to the first backward(), or run the forward pass again",
                      output.grad_fn()->op),
          {{"output", output}});
    roots_.emplace_back(Edge(output), seed_of(output, grad_outputs.empty() ? Tensor() : grad_outputs[i]));
  }
  for (auto& [edge, seed] : roots_) deliver(edge, std::move(seed));
}

void BackwardRun::deliver(const Edge& e, Tensor grad) {
  if (!request_.to_leaves)
    for (std::size_t i = 0; i < request_.inputs.size(); ++i) {
      const Tensor& t = request_.inputs[i];
      if (e.leaf.defined() ? t.is_same(e.leaf) : t.grad_fn() == e.node && t.output_nr() == e.output_nr)
        accumulate(request_.results[i], grad);
    }
  if (e.leaf.defined() && request_.to_leaves && waits_for_hooks(e)) {
    const auto it = std::find_if(hooked_.begin(), hooked_.end(), [&](const auto& entry) { return entry.first.is_same(e.leaf); });
    accumulate(it == hooked_.end() ? hooked_.emplace_back(e.leaf, Tensor()).second : it->second, std::move(grad));
  } else if (e.leaf.defined()) {
    if (request_.to_leaves) add_to_leaf(e.leaf, std::move(grad));
  } else if (request_.to_leaves || request_.on_path.count(e.node.get())) {
    const auto [slots, is_new] = waiting_.find_or_add(e.node.get());
    accumulate((*slots)[e.output_nr], std::move(grad));
    if (is_new) queue_.push(e.node.get());
  }
}

bool BackwardRun::waits_for_hooks(const Edge& e) { return e.leaf.impl()->extras && !e.leaf.impl()->extras->hooks.empty(); }

Node* BackwardRun::take_next() {
  if (queue_.empty()) return nullptr;
  node_ = queue_.top();
  queue_.pop();
  grads_out_ = waiting_.take(node_);
  if (node_->extras) run_hooks(*node_, grads_out_);
  return node_;
}

void BackwardRun::compute() {
  Node& node = *node_;
  thread_state.layer = node.scope;
  grads_in_.assign(node.inputs.size(), Tensor());
  node.backward(std::span<const Tensor>(grads_out_.data(), grads_out_.size()), grads_in_);
  if (detail::tape_observer) detail::tape_observer->ran(node, grads_out(), grads_in_);
  grads_out_.clear();
}

void BackwardRun::pass_on() {
  Node& node = *node_;
  if (!keep_) node.free_saved();
  for (std::size_t i = 0; i < grads_in_.size(); ++i) {
    const Edge& e = node.inputs[i];
    if (!grads_in_[i].defined() || !e.needed()) continue;
    if (e.leaf.defined()) {
      deliver(e, fitted(node.op, std::move(grads_in_[i]), e.leaf.shape(), e.leaf.dtype(), e.leaf.device()));
    } else {
      const Meta& m = e.node->outputs[e.output_nr];
      deliver(e, fitted(node.op, std::move(grads_in_[i]), m.shape, m.dtype, m.device));
    }
  }
}

void BackwardRun::finish() {
  for (auto& [leaf, total] : hooked_) finish_hooked_leaf(leaf, std::move(total));
  hooked_.clear();
}

namespace {

void run(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs, BackwardRun::Request& request, bool keep) {
  BackwardRun backward(outputs, grad_outputs, request, keep);
  const BackwardRun::Scope scope;
  while (backward.take_next()) {
    backward.compute();
    backward.pass_on();
  }
  backward.finish();
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs, BackwardOptions options) {
  NoGrad guard;
  BackwardRun::Request request;
  run(outputs, grad_outputs, request, options.retain_graph);
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, GradOptions options,
                         std::span<const Tensor> grad_outputs) {
  for (const Tensor& t : inputs)
    if (!t.requires_grad())
      throw GradError("grad", "this input does not require a gradient: call set_requires_grad() before the forward pass",
                      {{"input", t}});
  BackwardRun::Request request;
  request.to_leaves = false;
  request.inputs = inputs;
  request.results.resize(inputs.size());
  mark_paths(request, outputs);
  GradModeGuard guard(options.create_graph);
  run(outputs, grad_outputs, request, options.create_graph || options.retain_graph);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor& result = request.results[i];
    // Results are the caller's own, to be written into.
    if (result.defined() && (!is_dense(result) || (!options.create_graph && !unshared(result)))) result = clone(result);
    if (!result.defined() && !options.allow_unused)
      throw GradError("grad",
                      "the outputs do not depend on this input: pass {.allow_unused = true} to get an undefined gradient instead",
                      {{"input", inputs[i]}});
  }
  return std::move(request.results);
}

Tensor grad(const Tensor& output, const Tensor& input, GradOptions options) {
  return grad(std::span(&output, 1), std::span(&input, 1), options)[0];
}

void Tensor::backward(const Tensor& grad, BackwardOptions options) const {
  spool::backward(std::span(this, 1), std::span(&grad, 1), options);
}

}  // namespace spool
