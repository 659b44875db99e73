// One run of the tape, a node at a time: what backward(), grad() and Stepper have in common. Not for users.
#pragma once
#include <queue>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "spool/autograd/autocast.h"
#include "spool/autograd/node.h"

namespace spool {

class BackwardRun {
 public:
  using Slots = Inline<Tensor, 1>;  // the gradients of one node's outputs

  // What a run is to leave where.
  struct Request {
    bool to_leaves = true;                    // add to grad() of leaves
    std::span<const Tensor> inputs;           // else: collect the gradients of these ...
    std::vector<Tensor> results;              // ... here
    std::unordered_set<const Node*> on_path;  // nodes from which an input can be reached; the rest is skipped
  };

  // A thread's state while nodes run: the backward pass of an operation belongs to the layer that recorded it, so say errors, profiles and the
  // tape of the tape.
  class Scope {
   public:
    Scope() = default;
    ~Scope() { thread_state.layer = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseGuard phase_{Phase::backward};
    Autocast off_{false};
    const LayerPath* before_ = thread_state.layer;
  };

  // Checks everything and places the first gradients. `request` must outlive the run.
  BackwardRun(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs, Request& request, bool keep);
  BackwardRun(const BackwardRun&) = delete;
  BackwardRun& operator=(const BackwardRun&) = delete;

  // A node's turn, in a Scope: these three in order. take_next() gives null when no node is left; then comes finish(), for the leaves with hooks.
  Node* take_next();
  void compute();
  void pass_on();
  void finish();

  // Of the node whose turn it is: what has arrived, until compute(), and what its inputs get, from then until pass_on(); undefined where nothing.
  std::span<const Tensor> grads_out() const { return {grads_out_.data(), grads_out_.size()}; }
  std::span<const Tensor> grads_in() const { return grads_in_; }
  // Whether the gradient of this leaf is kept back until finish().
  static bool waits_for_hooks(const Edge& leaf);

 private:
  // Open addressing by node address; never shrinks, so finding a slot costs one probe or two.
  class Waiting {
   public:
    // The gradients of `node`'s outputs, and whether they are new.
    std::pair<Slots*, bool> find_or_add(Node* node) {
      if (2 * (used_ + 1) > table_.size()) grow();
      Entry& e = probe(node);
      if (e.node) return {&slots_[e.index], false};
      e.node = node;
      if (free_.empty()) {
        e.index = slots_.size();
        slots_.emplace_back();
      } else {
        e.index = free_.back();
        free_.pop_back();
      }
      ++used_;
      slots_[e.index].resize(node->outputs.size());
      return {&slots_[e.index], true};
    }
    Slots take(Node* node) {
      Entry& e = probe(node);
      Slots out = std::move(slots_[e.index]);
      slots_[e.index].clear();
      free_.push_back(e.index);
      return out;
    }

   private:
    struct Entry {
      Node* node = nullptr;
      std::size_t index = 0;
    };
    Entry& probe(Node* node) {
      const std::size_t mask = table_.size() - 1;
      std::size_t i = (reinterpret_cast<std::uintptr_t>(node) >> 6) * 0x9E3779B97F4A7C15u >> 20 & mask;
      while (table_[i].node && table_[i].node != node) i = (i + 1) & mask;
      return table_[i];
    }
    void grow() {
      std::vector<Entry> old(table_.empty() ? 64 : 2 * table_.size());
      old.swap(table_);
      for (const Entry& e : old)
        if (e.node) probe(e.node) = e;
    }
    std::vector<Entry> table_;
    std::vector<Slots> slots_;
    std::vector<std::size_t> free_;
    std::size_t used_ = 0;
  };
  struct ByAge {
    bool operator()(const Node* a, const Node* b) const { return a->seq < b->seq; }
  };
  void deliver(const Edge& e, Tensor grad);

  Request& request_;
  bool keep_;
  std::vector<std::pair<Edge, Tensor>>
      roots_;  // stay until the end: edges never change, so they keep every node alive while it waits and runs
  std::priority_queue<Node*, std::vector<Node*>, ByAge> queue_;
  Waiting waiting_;
  std::vector<std::pair<Tensor, Tensor>> hooked_;  // leaves with hooks, and what has arrived for them
  Node* node_ = nullptr;
  Slots grads_out_;
  std::vector<Tensor> grads_in_;
};

}  // namespace spool
