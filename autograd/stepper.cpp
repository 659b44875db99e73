#include "spool/autograd/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>

#include "spool/autograd/engine.h"
#include "spool/autograd/explain.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/tape.h"
#include "spool/core/errors.h"
#include "spool/core/storage.h"

namespace spool {
namespace {

// A copy, because a second owner of the gradient itself would change which sums are computed in place.
Tensor copy_of(const Tensor& grad) { return grad.defined() ? clone(grad.detach()) : Tensor(); }

bool matches(const Node& node, const std::string& name) {
  const std::string layer = node.scope ? node.scope->path : std::string();
  return node.op == name || (node.scope && (layer == name || layer.rfind(name + ".", 0) == 0)) ||
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](const Edge& e) { return e.leaf.defined() && e.leaf.name() == name; });
}

}  // namespace

struct Stepper::Run {
  Tensor loss;  // keeps the tape alive
  Tape tape;
  BackwardRun::Request request;
  BackwardRun engine;
  const Node* node = nullptr;          // of `coming`, else of `last`
  std::optional<BackwardStep> coming;  // known before it runs
  std::optional<BackwardStep> last;
  bool stopped = false;  // by run_before, at `coming`
  bool broken = false;

  Run(const Tensor& output, const Tensor& grad, bool retain_graph)
      : loss(output), tape(output), engine(std::span(&output, 1), std::span(&grad, 1), request, retain_graph) {}
};

Stepper::Stepper(const Tensor& loss, const Tensor& grad, BackwardOptions options)
    : run_(std::make_unique<Run>(loss, grad, options.retain_graph)) {}

Stepper::~Stepper() = default;

// Makes the next node, and what has come in for it, known; false when none is left.
bool Stepper::arrive() {
  if (run_->broken)
    throw GradError("Stepper",
                    "an earlier step threw, and its gradients are lost: run the forward pass again and make a new Stepper");
  if (run_->coming) return true;
  run_->broken = true;
  const NoGrad no_grad;
  const BackwardRun::Scope scope;
  run_->node = run_->engine.take_next();
  if (run_->node) {
    const Node& node = *run_->node;
    BackwardStep& s = run_->coming.emplace();
    s.number = run_->tape.number(&node);
    s.op = node.op;
    if (node.scope) s.layer = node.scope->path;
    for (const Tensor& g : run_->engine.grads_out()) s.grads_out.push_back(copy_of(g));
    for (const Saved* kept : node.saved)
      if (kept->defined()) s.saved.push_back({kept->name(), kept->peek().shape(), kept->peek().dtype(), bytes_of(kept->peek())});
  }
  run_->broken = false;
  return run_->node;
}

bool Stepper::step() {
  const bool more = arrive();
  run_->last.reset();
  run_->stopped = false;
  run_->broken = true;
  const NoGrad no_grad;
  const BackwardRun::Scope scope;
  if (!more) {
    run_->engine.finish();
    run_->broken = false;
    return false;
  }
  BackwardStep s = std::move(*run_->coming);
  run_->coming.reset();
  const Node& node = *run_->node;
  std::vector<Ref<Storage>> held;
  for (const Saved* kept : node.saved)
    if (kept->defined() && std::find(held.begin(), held.end(), kept->peek().storage()) == held.end())
      held.push_back(kept->peek().storage());
  run_->engine.compute();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Edge& e = node.inputs[i];
    const Tensor& g = run_->engine.grads_in()[i];
    if (g.defined() && e.needed())
      s.sent.push_back({run_->tape.name(e), copy_of(g), e.leaf.defined() && !BackwardRun::waits_for_hooks(e)});
  }
  run_->engine.pass_on();
  for (const Ref<Storage>& storage : held)
    if (storage->use_count() == 1) s.bytes_freed += storage->bytes();
  run_->last = std::move(s);
  run_->broken = false;
  return true;
}

void Stepper::check_name(const std::string& name) const {
  const std::span<Node* const> nodes = run_->tape.nodes();
  if (std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) { return matches(*n, name); })) return;
  std::set<std::string> ops;
  for (const Node* n : nodes) ops.insert(n->op);
  throw ValueError(
      "Stepper", fmt::format("the tape has no operation, layer or leaf named '{}'; its operations are {}: see print_tape()", name,
                             fmt::join(ops, ", ")));
}

bool Stepper::run_until(const std::string& name) {
  check_name(name);
  while (step())
    if (matches(*run_->node, name)) return true;
  return false;
}

bool Stepper::run_before(const std::string& name) {
  check_name(name);
  if (run_->stopped) step();
  while (arrive()) {
    if (matches(*run_->node, name)) return run_->stopped = true;
    step();
  }
  step();  // the end: leaves with hooks
  return false;
}

const BackwardStep& Stepper::next() {
  if (!arrive()) throw GradError("Stepper", "there is no next step: the backward pass is at its end");
  return *run_->coming;
}

const BackwardStep& Stepper::last() const {
  if (!run_->last)
    throw GradError("Stepper", "there is no step to look at: call step() first, and look only while it returns true");
  return *run_->last;
}

namespace {
std::string came_in_text(const BackwardStep& s) {
  std::string text = fmt::format("#{} {}", s.number, s.op);
  if (!s.layer.empty()) text += fmt::format("   ({})", s.layer);
  for (const Tensor& g : s.grads_out) text += "\n  came in   " + gradient_text(g);
  for (const BackwardStep::Saved& saved : s.saved)
    text += fmt::format("\n  saved     {} {} {}", saved.name, to_string(saved.shape), bytes_text(saved.bytes));
  if (const Explanation* e = find_explanation(s.op)) text += fmt::format("\n  formula   {}", e->backward);
  return text;
}
}  // namespace

void Stepper::print(std::ostream& out) const {
  const BackwardStep& s = last();
  std::string text = came_in_text(s);
  for (const BackwardStep::Sent& sent : s.sent)
    text +=
        fmt::format("\n  went out  {} to {}{}", gradient_text(sent.grad), sent.to, sent.accumulated ? ", added to its grad" : "");
  out << text << "\n  freed     " << bytes_text(s.bytes_freed) << '\n';
}

void Stepper::print_next(std::ostream& out) { out << came_in_text(next()) << "\n  has not run\n"; }

}  // namespace spool
