// The tape: a Node is one line of it, made by the operation that ran, holding what its derivative needs.
//
// Ownership points one way: a tensor holds the node that made it, a node holds the nodes and leaves its inputs came from. A node never
// holds its own outputs, so a graph has no cycles and is freed when its last tensor is.
#pragma once
#include <atomic>
#include <functional>
#include <span>

#include "spool/core/call_stack.h"
#include "spool/core/inline_vector.h"
#include "spool/core/tensor.h"
#include "spool/core/thread_state.h"

namespace spool {

// Where a gradient goes next: to an output of another node, to a leaf's grad(), or nowhere.
struct Edge {
  Ref<Node> node;
  std::uint32_t output_nr = 0;
  Tensor leaf;
  Edge() = default;
  explicit Edge(const Tensor& input);
  bool needed() const noexcept { return static_cast<bool>(node) || leaf.defined(); }
};

// Enough of a tensor to check a gradient against it and to make one of zeros.
struct Meta {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
};

// A tensor kept from the forward computation for the backward one. Members of node structs; each registers itself with its node, which
// is how the tape can print what it holds and the engine can free it.
class Saved {
 public:
  Saved(Node* owner, const char* name);
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  // Keeps an input of the operation.
  void save(const Tensor& input);
  // Keeps the operation's own output number `output_nr`, without the history that would make a cycle of it.
  void save_output(const Tensor& output, std::uint32_t output_nr = 0);
  // The kept tensor. Throws GradError when backward() has freed it, or when its elements were overwritten since.
  Tensor get() const;
  // Whether anything was kept; an optional operand may not have been.
  bool defined() const noexcept { return tensor_.defined(); }
  void free() noexcept {
    freed_ = freed_ || tensor_.defined();
    tensor_ = {};
  }

  const char* name() const noexcept { return name_; }
  // Whether it is the operation's own output.
  bool is_output() const noexcept { return is_output_; }
  // Without the checks of get(); for printing.
  const Tensor& peek() const noexcept { return tensor_; }

 private:
  const char* name_;
  Node* owner_;
  Tensor tensor_;
  std::uint32_t version_ = 0;
  std::uint32_t output_nr_ = 0;
  bool is_output_ = false;
  bool freed_ = false;
};

// What few nodes have.
struct NodeExtras {
  std::vector<std::pair<std::uint32_t, std::function<Tensor(const Tensor&)>>> hooks;  // (output, hook)
  std::vector<std::pair<std::uint32_t, std::shared_ptr<Tensor>>> kept;                // outputs whose gradient is kept
  CallStack recorded_at;                                                              // kept by DetectAnomaly
  bool infinite = false;                                                              // an output is, as DetectAnomaly saw
};

struct Node : RefCounted, PooledObject {
  explicit Node(const char* op);

  const char* op;          // "conv2d"
  std::uint64_t seq;       // creation order; backward runs the highest first
  const LayerPath* scope;  // the layer that was running, or null
  Inline<Edge, 3> inputs;
  Inline<Meta, 1> outputs;
  Inline<Saved*, 4> saved;
  std::unique_ptr<NodeExtras> extras;
  bool ran = false;  // backward has run and freed what was saved

  // Given the gradient of every output (undefined where none arrived; see `grad_or_zeros`), fills the gradient of every input that
  // needs one. A gradient may have the broadcast shape of the operation; the engine sums it to the input's. Left undefined = zero.
  // Written with differentiable operations, so that it is itself differentiable while gradients are recorded.
  virtual void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) = 0;

  NodeExtras& make_extras();
  bool needs(std::size_t input) const noexcept { return inputs[input].needed(); }
  void free_saved() noexcept;

 protected:
  ~Node() override;
  void destroy() const noexcept override;
};

// Whether an operation on these tensors must be recorded.
inline bool needs_grad(const Tensor& t) { return thread_state.grad_enabled && t.requires_grad(); }
template <class... T>
bool any_needs_grad(const T&... t) {
  return thread_state.grad_enabled && (t.requires_grad() || ...);
}

// Makes the node of an operation with these inputs: `auto node = record<MulNode>(a, b);`. The caller saves into it and then calls set_history.
template <class N, class... T>
Ref<N> record(const T&... inputs) {
  auto node = make_ref<N>();
  (node->inputs.emplace_back(inputs), ...);
  return node;
}
// The same for a list of inputs.
template <class N>
Ref<N> record_list(std::span<const Tensor> inputs) {
  auto node = make_ref<N>();
  for (const Tensor& t : inputs) node->inputs.emplace_back(t);
  return node;
}

// Declares `output` to be the next output of `node`; returns it. Outputs that are not floating point stay outside of the graph. The last output of a node may take it over.
Tensor set_history(Tensor output, Ref<Node> node);

// The number of the node that is made next, on any thread.
std::uint64_t next_node_seq() noexcept;

// The gradient, or zeros where none arrived.
Tensor grad_or_zeros(const Node& node, std::span<const Tensor> grad_out, std::size_t output);

}  // namespace spool
