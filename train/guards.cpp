#include "spool/train/guards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/layers/norm.h"
#include "spool/train/evaluate.h"
#include "spool/train/nonfinite.h"

namespace spool::detail {
namespace {

std::string shortened(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

std::unordered_set<const TensorImpl*> held_by(const Optimizer& optimizer) {
  std::unordered_set<const TensorImpl*> held;
  for (const Optimizer::Group& g : optimizer.groups())
    for (const Tensor& p : g.params) held.insert(p.impl().get());
  return held;
}

// The data set that examples of this one are taken from, and which.
struct Source {
  const Dataset* base;
  std::vector<std::int64_t> indices;
};
Source source_of(const Dataset& dataset) {
  Source s{&dataset, std::vector<std::int64_t>(static_cast<std::size_t>(dataset.size()))};
  for (std::size_t i = 0; i < s.indices.size(); ++i) s.indices[i] = static_cast<std::int64_t>(i);
  while (const auto* part = dynamic_cast<const Subset*>(s.base)) {
    for (std::int64_t& i : s.indices) i = part->indices()[static_cast<std::size_t>(i)];
    s.base = &part->dataset();
  }
  return s;
}

// The inputs of a data set that is held in memory.
std::optional<Tensor> inputs_in_memory(const Dataset& base) {
  if (const auto* pictures = dynamic_cast<const ImageDataset*>(&base)) return pictures->images();
  if (const auto* tensors = dynamic_cast<const TensorDataset*>(&base)) return tensors->inputs();
  return {};
}

std::string_view row(const Tensor& inputs, std::int64_t index) {
  const auto bytes = static_cast<std::int64_t>(size_of(inputs.dtype())) * (inputs.numel() / inputs.size(0));
  return {static_cast<const char*>(inputs.raw_data()) + index * bytes, static_cast<std::size_t>(bytes)};
}

std::string overlap(std::size_t shared, std::size_t of, std::int64_t validation, std::int64_t training) {
  return fmt::format(
      "{} of the {} validation examples are in the training data (the first is number {}, number {} there): the "
      "validation scores will be too good",
      shared, of, validation, training);
}

}  // namespace

void check_not_softmax(const Tensor& output) {
  if (output.dim() != 2 || output.size(1) < 2 || output.size(0) == 0 || !is_floating(output.dtype())) return;
  NoGrad guard;
  const Tensor rows = output.detach().to(f64);
  const bool probabilities = all(ge(rows, 0)).item<bool>() && all(lt(abs(rows.sum({1}) - 1.0), 1e-3)).item<bool>();
  if (!probabilities) return;
  throw ValueError(
      "Trainer",
      "the model's outputs are probabilities: each row is positive and sums to 1, so it ends in a softmax. "
      "cross_entropy applies one itself, and after a second one learning is slow and stops early: remove the softmax "
      "from forward(), and apply it where probabilities are shown. Off by .guards = {.softmax = false}",
      {{"output", output}});
}

void check_last_batch(Module& model, DataLoader& loader) {
  const std::int64_t n = loader.dataset().size(), size = loader.options().batch_size;
  const bool one = size == 1 || (n % size == 1 && !loader.options().drop_last);
  if (!one || n == 0) return;
  const auto modules = model.modules();
  if (std::none_of(modules.begin(), modules.end(), [](Module* m) { return dynamic_cast<BatchNormBase*>(m) != nullptr; })) return;
  const ForwardState before(model);
  const std::uint64_t epoch = loader.epoch();
  try {
    NoGrad no_grad;
    const auto first = loader.begin();
    loader.set_epoch(epoch);
    model(first->inputs.narrow(0, 0, 1).to(device_of(model)));
  } catch (const ValueError& e) {
    before.restore();
    if (!e.op().starts_with("batch_norm")) throw;  // batch_norm_relu is one too
    throw ValueError(
        "Trainer", fmt::format("{} examples in batches of {} leave a batch of one, of which batch norm cannot take the variance "
                               "(layer {}): set .drop_last = true or another .batch_size in the DataLoader's options",
                               n, size, e.layer()));
  }
  before.restore();
}

std::vector<std::string> untrained_parameters(const Module& model, const Optimizer& optimizer) {
  const auto held = held_by(optimizer);
  std::vector<std::string> names;
  for (const auto& [name, p] : model.named_parameters())
    if (p.requires_grad() && !held.count(p.impl().get())) names.push_back(name);
  if (names.empty()) return {};
  return {
      fmt::format("the optimizer does not hold {}: they get gradients but are never trained. Give it model.parameters(), or "
                  "freeze them with set_requires_grad(false)",
                  shortened(names))};
}

std::vector<std::string> parameters_without_gradient(const Module& model, const Optimizer& optimizer) {
  const auto held = held_by(optimizer);
  std::vector<std::string> unused, frozen;
  for (const auto& [name, p] : model.named_parameters()) {
    if (!held.count(p.impl().get()) || p.grad().defined()) continue;
    (p.requires_grad() ? unused : frozen).push_back(name);
  }
  std::vector<std::string> sentences;
  if (!unused.empty())
    sentences.push_back(
        fmt::format("{} got no gradient in the first step: forward() does not use them, or cuts them off with "
                    "detach() or NoGrad",
                    shortened(unused)));
  if (!frozen.empty() && unused.empty() && frozen.size() == held.size())
    sentences.push_back("every parameter is frozen: nothing will be trained");
  return sentences;
}

std::optional<std::string> shared_examples(const Dataset& training, const Dataset& validation) {
  const Source train = source_of(training), valid = source_of(validation);
  std::size_t shared = 0;
  std::int64_t first_valid = -1, first_train = -1;
  const auto count = [&](std::size_t v, std::int64_t t) {
    if (shared++ == 0) first_valid = static_cast<std::int64_t>(v), first_train = t;
  };
  const auto a = inputs_in_memory(*train.base), b = inputs_in_memory(*valid.base);
  if (train.base == valid.base) {
    std::unordered_map<std::int64_t, std::int64_t> position;
    for (std::size_t i = 0; i < train.indices.size(); ++i) position.emplace(train.indices[i], static_cast<std::int64_t>(i));
    for (std::size_t v = 0; v < valid.indices.size(); ++v)
      if (const auto t = position.find(valid.indices[v]); t != position.end()) count(v, t->second);
  } else if (a && b && a->dtype() == b->dtype() && a->numel() > 0 && b->numel() > 0 && row(*a, 0).size() == row(*b, 0).size()) {
    std::unordered_multimap<std::size_t, std::size_t> by_hash;
    by_hash.reserve(valid.indices.size());
    const std::hash<std::string_view> hash;
    for (std::size_t v = 0; v < valid.indices.size(); ++v) by_hash.emplace(hash(row(*b, valid.indices[v])), v);
    std::unordered_set<std::size_t> seen;
    for (std::size_t t = 0; t < train.indices.size(); ++t) {
      const std::string_view example = row(*a, train.indices[t]);
      const auto [from, to] = by_hash.equal_range(hash(example));
      for (auto at = from; at != to; ++at)
        if (row(*b, valid.indices[at->second]) == example && seen.insert(at->second).second)
          count(at->second, static_cast<std::int64_t>(t));
    }
  }
  if (!shared) return {};
  return overlap(shared, valid.indices.size(), first_valid, first_train);
}

}  // namespace spool::detail
