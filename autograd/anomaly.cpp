#include "spool/autograd/anomaly.h"

#include <fmt/format.h>

#include <algorithm>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"

namespace spool {
namespace {

constexpr std::size_t kWritesKept = 4096, kFrames = 2;

std::vector<CallStack::Frame> frames_of(const Node& n) {
  return n.extras ? n.extras->recorded_at.frames(kFrames) : std::vector<CallStack::Frame>();
}

std::string lines_of(const Node& n, const char* what) { return to_string(frames_of(n), what); }

const char* name_of(bool nan) { return nan ? "NaN" : "infinity"; }

// "5 of the 128 elements"
std::string share(const Tensor& t, bool nan) {
  NoGrad guard;
  const Tensor bad = nan ? isnan(t) : logical_not(isfinite(t));
  return fmt::format("{} of the {} elements", bad.to(DType::i64).sum().item<std::int64_t>(), t.numel());
}

// Where NaN or infinity came from when the operation did not make it: a leaf, data that are not on the tape, or an infinity out of an earlier operation, of which
// NaN is made.
std::string came_in(const Node& n, bool nan) {
  const auto bad = [&](const Tensor& t) { return t.defined() && (nan ? has_nan(t) : !all_finite(t)); };
  bool unseen = false;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    const Tensor& leaf = n.inputs[i].leaf;
    unseen = unseen || !n.inputs[i].needed();
    if (leaf.defined() && bad(leaf))
      return fmt::format("\n  it was in its input {} already", leaf.name().empty() ? std::to_string(i) : "'" + leaf.name() + "'");
  }
  if (unseen) {
    bool looked = false;
    for (const Saved* s : n.saved) {
      if (s->is_output() || !s->defined()) continue;
      looked = true;
      if (bad(s->peek()))
        return fmt::format("\n  it was in its input '{}' already, which no operation on the tape has made: look at the data",
                           s->name());
    }
    if (!looked) return "\n  it may have been in an input that is not on the tape: look there too";
  }
  if (!nan) return {};
  const Node* from = nullptr;
  for (const Node* at = &n; at;) {
    const Node* next = nullptr;
    for (const Edge& e : at->inputs)
      if (e.node && e.node->extras && e.node->extras->infinite) next = e.node.get();
    from = next ? next : from;
    at = next;
  }
  return from ? lines_of(*from, fmt::format("it came of an infinity, first in the output of {}, which ran", from->op).c_str())
              : std::string();
}

}  // namespace

DetectAnomaly::DetectAnomaly(AnomalyOptions options) : options_(options) {
  const auto* around = dynamic_cast<const DetectAnomaly*>(before());
  writes_ = around ? around->writes_ : std::make_shared<std::deque<Write>>();
}

DetectAnomaly::~DetectAnomaly() = default;

void DetectAnomaly::recorded(Node& n, const Tensor& output) {
  detail::keep_call_stack(n);
  // What a backward pass records for a second derivative is looked at when that pass is through the operation that it is the backward of.
  if (thread_state.phase == Phase::backward || all_finite(output)) return;
  const bool nan = has_nan(output);
  if (!nan) n.extras->infinite = true;
  if (!nan && !options_.check_inf) return;
  std::vector<CallStack::Frame> frames = frames_of(n);
  const std::string text = fmt::format("the first {} of the forward pass is in {} of its output{}{}", name_of(nan),
                                       share(output, nan), to_string(frames, ""), came_in(n, nan));
  throw AnomalyError(n.op, text, {{"output", output}}, false, std::move(frames));
}

void DetectAnomaly::ran(Node& n, std::span<const Tensor> grad_out, std::span<const Tensor> grad_in) {
  for (std::size_t i = 0; i < grad_in.size(); ++i) {
    const Tensor& g = grad_in[i];
    if (!n.needs(i) || all_finite(g)) continue;
    const bool nan = has_nan(g);
    const bool made_here = std::all_of(grad_out.begin(), grad_out.end(), all_finite);
    const Edge& e = n.inputs[i];
    const std::string to = e.node                  ? fmt::format("its input, the output of {}", e.node->op)
                           : e.leaf.name().empty() ? fmt::format("its input {}", i)
                                                   : "'" + e.leaf.name() + "'";
    std::vector<CallStack::Frame> frames = frames_of(n);
    const std::string text = fmt::format("the first {} of the backward pass is in {} of the gradient that it gave to {}{}{}",
                                         name_of(nan), share(g, nan), to, to_string(frames, "recorded"),
                                         made_here ? "" : "\n  it had come in: backward() was given it, or a hook made it");
    throw AnomalyError(n.op, text, {{"gradient", g}}, true, std::move(frames));
  }
}

void DetectAnomaly::overwritten(const char* op, const Tensor& tensor) {
  if (writes_->size() == kWritesKept) writes_->pop_front();
  writes_->push_back({op, tensor.storage().get(), tensor.version(), next_node_seq(), CallStack::here()});
}

std::string DetectAnomaly::who_overwrote(const Node& node, const Tensor& saved, std::uint32_t saved_version) const {
  // The node has held the storage since it was made, so a write after that is to this storage, and not to another one in the same place.
  const auto first = std::find_if(writes_->begin(), writes_->end(), [&](const Write& w) {
    return w.storage == saved.storage().get() && w.at_seq > node.seq && w.version > saved_version;
  });
  if (first == writes_->end()) return {};
  return to_string(first->stack.frames(kFrames), fmt::format("overwritten by {}", first->op));
}

bool all_finite(const Tensor& t) {
  if (!t.defined() || !is_floating(t.dtype()) || t.numel() == 0) return true;
  NoGrad guard;
  return all(isfinite(t.detach())).item<bool>();
}

bool has_nan(const Tensor& t) {
  if (!t.defined() || !is_floating(t.dtype()) || t.numel() == 0) return false;
  NoGrad guard;
  return any(isnan(t.detach())).item<bool>();
}

void detail::keep_call_stack(Node& node) {
  if (CallStack& stack = node.make_extras().recorded_at; stack.empty()) stack = CallStack::here();
}

std::string detail::overwrite_lines(const Node& node, const Tensor& saved, std::uint32_t saved_version) {
  const auto* guard = dynamic_cast<const DetectAnomaly*>(tape_observer);
  const std::string write = guard ? guard->who_overwrote(node, saved, saved_version) : std::string();
  const bool recorded = node.extras && !node.extras->recorded_at.empty();
  if (write.empty() && !recorded)
    return ". To see the lines that saved and overwrote it, make a DetectAnomaly (autograd/anomaly.h) before the forward pass";
  return (recorded ? lines_of(node, "saved") : std::string()) +
         (write.empty() ? "\n  overwritten where no DetectAnomaly was alive on this thread" : write);
}

}  // namespace spool
