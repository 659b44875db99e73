#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <unordered_set>

#include "spool/autograd/autograd.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/tape.h"
#include "spool/core/errors.h"

namespace spool {
Tape::Tape(const Tensor& output) {
  std::unordered_set<const Node*> seen;
  const auto visit_node = [&](Node* n) {
    if (n && seen.insert(n).second) nodes_.push_back(n);
  };
  visit_node(output.grad_fn().get());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const Edge& e : nodes_[i]->inputs) visit_node(e.node.get());
  std::sort(nodes_.begin(), nodes_.end(), [](const Node* a, const Node* b) { return a->seq > b->seq; });
}

Tape Tape::of(const char* caller, const Tensor& output) {
  if (!output.grad_fn())
    throw GradError(caller, "there is no tape: this tensor was not computed from anything that requires a gradient");
  return Tape(output);
}

std::size_t Tape::number(const Node* n) const {
  const auto it = std::lower_bound(nodes_.begin(), nodes_.end(), n, [](const Node* a, const Node* b) { return a->seq > b->seq; });
  return static_cast<std::size_t>(nodes_.end() - it);
}

std::string Tape::name(const Edge& e) const {
  if (!e.node) return e.leaf.name().empty() ? fmt::format("leaf {}", to_string(e.leaf.shape())) : e.leaf.name();
  if (e.node->outputs.size() > 1) return fmt::format("#{}.{}", number(e.node.get()), e.output_nr);
  return fmt::format("#{}", number(e.node.get()));
}

std::size_t Tape::bytes_held() const {
  std::unordered_set<const Storage*> counted;
  std::size_t held = 0;
  for (const Node* n : nodes_)
    for (const Saved* s : n->saved)
      if (s->defined() && counted.insert(s->peek().storage().get()).second) held += s->peek().storage()->bytes();
  return held;
}

std::string Tape::summary() const {
  return fmt::format("{} node{}, {} held for backward", nodes_.size(), nodes_.size() == 1 ? "" : "s", bytes_text(bytes_held()));
}

std::size_t bytes_held(const Node& n) {
  std::size_t held = 0;
  for (const Saved* s : n.saved)
    if (s->defined()) held += bytes_of(s->peek());
  return held;
}

std::string bytes_text(std::size_t bytes) {
  if (bytes >= std::size_t{1} << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= std::size_t{1} << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} B", bytes);
}

std::size_t bytes_of(const Tensor& t) { return static_cast<std::size_t>(t.numel()) * size_of(t.dtype()); }

std::string gradient_text(const Tensor& grad) {
  if (!grad.defined()) return "none";
  const NoGrad no_grad;
  return fmt::format("{} norm {:.4g}", to_string(grad.shape()), norm(grad.to(DType::f64)).item<double>());
}

std::string tape_to_string(const Tensor& output) {
  if (!output.grad_fn())
    return output.requires_grad() ? fmt::format("a leaf: {}\n", describe(output))
                                  : "no tape: this tensor does not depend on anything that requires a gradient\n";
  const Tape tape(output);
  std::string text;
  for (const Node* n : tape.nodes()) {
    text += fmt::format("#{} {}", tape.number(n), n->op);
    for (const Meta& m : n->outputs) text += " " + to_string(m.shape);
    const char* separator = " <- ";
    for (const Edge& e : n->inputs) {
      if (!e.needed()) continue;
      text += separator + tape.name(e);
      separator = ", ";
    }
    separator = "   saves ";
    for (const Saved* s : n->saved) {
      if (!s->defined()) continue;
      text += fmt::format("{}{} {}", separator, s->name(), bytes_text(bytes_of(s->peek())));
      separator = ", ";
    }
    if (n->scope) text += fmt::format("   ({})", n->scope->path);
    text += '\n';
  }
  return text + tape.summary() + '\n';
}

void print_tape(std::ostream& out, const Tensor& output) { out << tape_to_string(output); }

}  // namespace spool
