// Saving and loading of optimizers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>
#include <unordered_set>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"
#include "spool/optim/optimizer.h"

namespace spool {

// The parameters' own names where all have one and no two the same, else their numbers.
std::vector<std::string> Optimizer::slot_names() const {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  bool usable = true;
  for (const auto& slots : slots_)
    for (const Slot& s : slots) {
      names.push_back(s.param.name());
      usable = usable && !names.back().empty() && seen.insert(names.back()).second;
    }
  if (!usable)
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  return names;
}

StateDict Optimizer::state_dict() const {
  StateDict state;
  const auto number = [](double value) { return scalar_tensor(value, {.dtype = f64}); };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::string prefix = fmt::format("group{}.", g);
    state.push_back({prefix + "lr", number(groups_[g].lr)});
    state.push_back({prefix + "momentum", number(groups_[g].momentum)});
    if (groups_[g].initial_lr) state.push_back({prefix + "initial_lr", number(*groups_[g].initial_lr)});
  }
  const auto kept = state_names();
  const std::vector<std::string> names = slot_names();
  auto name = names.begin();
  for (const auto& slots : slots_)
    for (const Slot& s : slots) {
      state.push_back({*name + ".step", scalar_tensor(s.step, {.dtype = i64})});
      for (std::size_t i = 0; i < kept.size(); ++i)
        if (s.state[i].defined()) state.push_back({*name + '.' + kept[i], s.state[i]});
      ++name;
    }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state) {
  std::unordered_map<std::string, Tensor> given;
  std::vector<std::string> missing, unexpected, mismatched;
  for (const NamedTensor& entry : state)
    if (!given.emplace(entry.name, entry.tensor).second) unexpected.push_back(entry.name + " (twice)");
  // The tensor of that name, taken out of `given`; undefined where missing or of another shape.
  const auto take = [&](const std::string& name, const Shape& shape, bool required) {
    const auto found = given.find(name);
    if (found == given.end()) {
      if (required) missing.push_back(name);
      return Tensor();
    }
    Tensor t = found->second;
    given.erase(found);
    if (t.defined() && t.shape() == shape) return t;
    mismatched.push_back(fmt::format("{} should be {} and is {}", name, to_string(shape), describe(t)));
    return Tensor();
  };
  const auto take_number = [&](const std::string& name, double otherwise, bool required) {
    const Tensor t = take(name, {}, required);
    return t.defined() ? t.item<double>() : otherwise;
  };

  std::vector<Group> groups = groups_;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string prefix = fmt::format("group{}.", g);
    groups[g].lr = take_number(prefix + "lr", 0, true);
    groups[g].momentum = take_number(prefix + "momentum", 0, true);
    if (const double initial = take_number(prefix + "initial_lr", -1, false); initial >= 0) groups[g].initial_lr = initial;
  }
  NoGrad guard;
  std::vector<std::vector<Slot>> loaded = slots_;
  const auto kept = state_names();
  const std::vector<std::string> names = slot_names();
  auto name = names.begin();
  for (auto& slots : loaded)
    for (Slot& s : slots) {
      s.step = static_cast<std::int64_t>(take_number(*name + ".step", 0, true));
      for (std::size_t i = 0; i < kept.size(); ++i) {
        const Tensor t = take(*name + '.' + kept[i], s.param.shape(), s.step > 0);
        s.state[i] = {};
        if (!t.defined() || s.step == 0) continue;
        s.state[i] = empty_like(s.param);
        s.state[i].copy_(t.device() == s.param.device() ? t : t.to(s.param.device()));
      }
      ++name;
    }
  for (const NamedTensor& entry : state)
    if (given.erase(entry.name)) unexpected.push_back(entry.name);

  if (!missing.empty() || !unexpected.empty() || !mismatched.empty()) {
    std::string text = fmt::format("the state does not fit this {}", name_);
    const auto list = [&](const char* title, const std::vector<std::string>& of) {
      if (!of.empty()) text += fmt::format("\n  {}: {}", title, fmt::join(of, ", "));
    };
    list("missing", missing);
    list("unexpected", unexpected);
    list("mismatched", mismatched);
    throw ValueError("load_state_dict", text);
  }
  groups_ = std::move(groups);
  slots_ = std::move(loaded);
}

}  // namespace spool
