#include "spool/train/layer_trace.h"

#include <algorithm>
#include <string_view>

namespace spool::detail {
namespace {

// Of an operand; one that needs no gradient is known only by the name it was saved under.
Shape shape_of(const Node& n, std::size_t input, std::string_view saved_as) {
  const Edge& e = n.inputs[input];
  if (e.leaf.defined()) return e.leaf.shape();
  if (e.node) return e.node->outputs[e.output_nr].shape;
  for (const Saved* s : n.saved)
    if (s->name() == saved_as && s->defined()) return s->peek().shape();
  return {};
}

// Multiplications and additions, each counted as one; other operations count one for each element that they give.
double flops_of(const Node& n, const Shape& output) {
  const std::string_view op = n.op;
  const auto elements = static_cast<double>(output.numel());
  const auto size = [](std::int64_t s) { return static_cast<double>(s); };
  if (op == "conv2d") {  // each output element: the weights of its channel
    const Shape weight = shape_of(n, 1, "weight");
    if (weight.dim() == 0) return elements;
    return 2 * elements * size(weight.numel()) / size(std::max<std::int64_t>(weight[0], 1));
  }
  if (op == "conv_transpose2d") {  // each input element: the weights of its channel
    const Shape x = shape_of(n, 0, "grad"), weight = shape_of(n, 1, "weight");
    if (weight.dim() == 0) return elements;
    return 2 * size(x.numel()) * size(weight.numel()) / size(std::max<std::int64_t>(weight[0], 1));
  }
  if (op == "linear" || op == "matmul" || op == "bmm") {
    const Shape x = shape_of(n, 0, op == "linear" ? "input" : "a"), weight = shape_of(n, 1, op == "linear" ? "weight" : "b");
    const std::int64_t inner = x.dim() > 0 ? x[x.dim() - 1] : weight.dim() > 0 ? weight[weight.dim() - 1] : 1;
    return 2 * elements * size(inner);
  }
  if (op == "view" || op == "reshape" || op == "permute" || op == "transpose" || op == "expand" || op == "select" ||
      op == "narrow" || op == "slice" || op == "contiguous" || op == "clone" || op == "to" || op == "cat" || op == "stack" ||
      op == "squeeze" || op == "unsqueeze")
    return 0;
  return elements;
}

}  // namespace

LayerTrace::LayerTrace(Module& model) : last_(std::chrono::steady_clock::now()) {
  for (Module* m : model.modules())
    if (m->num_children() == 0) layers_.insert(m->layer_path());
  for (const Tensor& p : model.parameters()) {
    parameters_.insert(p.impl().get());
    counted_.insert(p.storage().get());
  }
}

double LayerTrace::seconds_since_last() {
  const auto now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now - last_).count();
}

void LayerTrace::recorded(Node& n, const Tensor& output) {
  const double seconds = seconds_since_last();
  const auto known = row_of_.find(&n);
  std::size_t index = known != row_of_.end() ? known->second : rows_.size();
  if (known == row_of_.end()) {
    const bool layer = n.scope && layers_.count(n.scope);
    if (layer && !rows_.empty() && rows_.back().scope == n.scope) {
      index = rows_.size() - 1;
    } else {
      Row row;
      row.name = layer ? n.scope->path : n.op;
      row.what = !n.scope ? std::string() : layer ? n.scope->description : "in " + n.scope->path;
      row.scope = layer ? n.scope : nullptr;
      rows_.push_back(std::move(row));
    }
    row_of_.emplace(&n, index);
    Row& row = rows_[index];
    row.nodes.emplace_back(&n);
    row.flops += flops_of(n, output.shape());
    for (const Edge& e : n.inputs)
      if (e.leaf.defined() && parameters_.erase(e.leaf.impl().get())) row.parameters += e.leaf.numel();
  }
  Row& row = rows_[index];
  row.output = output.shape();
  row.dtype = output.dtype();
  row.forward += seconds;
  start();
}

void LayerTrace::ran(Node& n, std::span<const Tensor>, std::span<const Tensor>) {
  if (const auto at = row_of_.find(&n); at != row_of_.end()) rows_[at->second].backward += seconds_since_last();
  start();
}

std::size_t LayerTrace::saved_bytes(const Row& row) {
  std::size_t bytes = 0;
  for (const Ref<Node>& n : row.nodes)
    for (const Saved* s : n->saved) {
      const Tensor& t = s->peek();
      if (!t.defined() || !counted_.insert(t.storage().get()).second) continue;
      bytes += static_cast<std::size_t>(t.numel()) * size_of(t.dtype());
    }
  return bytes;
}

}  // namespace spool::detail
