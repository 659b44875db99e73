#include "spool/autograd/node.h"

#include <fmt/format.h>

#include "spool/autograd/anomaly.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/observer.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

std::atomic<std::uint64_t> next_seq{0};

std::uint64_t take_seq() { return next_seq.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint64_t next_node_seq() noexcept { return next_seq.load(std::memory_order_relaxed); }

void retain(const Node* n) noexcept { n->RefCounted::retain(); }
void release(const Node* n) noexcept { n->RefCounted::release(); }

Edge::Edge(const Tensor& input) {
  if (!input.requires_grad()) return;
  if (input.grad_fn()) {
    node = input.grad_fn();
    output_nr = input.output_nr();
  } else {
    leaf = input;
  }
}

Saved::Saved(Node* owner, const char* name) : name_(name), owner_(owner) { owner->saved.emplace_back(this); }

void Saved::save(const Tensor& input) {
  tensor_ = input;
  if (input.defined()) version_ = input.version();
}

void Saved::save_output(const Tensor& output, std::uint32_t output_nr) {
  tensor_ = output.detach();
  version_ = output.version();
  output_nr_ = output_nr;
  is_output_ = true;
}

Tensor Saved::get() const {
  if (freed_)
    throw GradError(owner_->op,
                    fmt::format("the graph was already freed: backward() has run through this operation (saved '{}' is gone). "
                                "Pass {{.retain_graph = true}} to the first backward(), or run the forward pass again",
                                name_));
  if (!tensor_.defined()) return {};
  if (tensor_.version() != version_)
    throw GradError(owner_->op,
                    fmt::format("'{}', saved for the gradient, was overwritten in place, or moved by Module::to(), since "
                                "(version {}, saved at version {}): "
                                "work on a clone(), or run the forward pass again{}",
                                name_, tensor_.version(), version_, detail::overwrite_lines(*owner_, tensor_, version_)),
                    {{name_, tensor_}});
  if (!is_output_ || !thread_state.grad_enabled) return tensor_;
  // For a second derivative the output must lead back to this node.
  Tensor output = tensor_.detach();
  output.impl()->requires_grad = true;
  output.impl()->grad_fn = Ref<Node>(owner_);
  output.impl()->output_nr = output_nr_;
  return output;
}

Node::Node(const char* name) : op(name), seq(take_seq()), scope(thread_state.layer) {}

Node::~Node() = default;

NodeExtras& Node::make_extras() {
  if (!extras) extras = std::make_unique<NodeExtras>();
  return *extras;
}

void Node::free_saved() noexcept {
  ran = true;
  for (Saved* s : saved) s->free();
}

void Node::destroy() const noexcept {
  // A chain of a million nodes must not recurse a million deep: the first destructor on a thread works off the list of all that
  // become free while it runs.
  static constinit thread_local std::vector<const Node*>* pending = nullptr;
  if (pending) {
    pending->push_back(this);
    return;
  }
  std::vector<const Node*> list;
  pending = &list;
  delete this;
  while (!list.empty()) {
    const Node* next = list.back();
    list.pop_back();
    delete next;
  }
  pending = nullptr;
}

Tensor set_history(Tensor output, Ref<Node> node) {
  const auto nr = static_cast<std::uint32_t>(node->outputs.size());
  node->outputs.emplace_back(Meta{output.shape(), output.dtype(), output.device()});
  if (!is_floating(output.dtype())) return output;
  TensorImpl& t = *output.impl();
  t.requires_grad = true;
  t.grad_fn = std::move(node);
  t.output_nr = nr;
  if (detail::tape_observer) detail::tape_observer->recorded(*t.grad_fn, output);
  return output;
}

Tensor grad_or_zeros(const Node& node, std::span<const Tensor> grad_out, std::size_t output) {
  if (grad_out[output].defined()) return grad_out[output];
  const Meta& m = node.outputs[output];
  return zeros(m.shape, {.dtype = m.dtype, .device = m.device});
}

}  // namespace spool
