// What a module does to all of its tensors at once: moving, converting, saving, loading.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"
#include "spool/layers/module.h"

namespace spool {
namespace {

std::string list_of(const char* title, const std::vector<std::string>& names) {
  return names.empty() ? std::string() : fmt::format("\n  {}: {}", title, fmt::join(names, ", "));
}

// "" where `source` can be copied into `target`.
std::string mismatch(const std::string& name, const Tensor& target, const Tensor& source) {
  if (!source.defined()) return fmt::format("{} is undefined", name);
  if (target.shape() != source.shape())
    return fmt::format("{} is {} in the module and {} in the state", name, to_string(target.shape()), to_string(source.shape()));
  if (is_floating(target.dtype()) != is_floating(source.dtype()))
    return fmt::format("{} is {} in the module and {} in the state", name, name_of(target.dtype()), name_of(source.dtype()));
  return {};
}

}  // namespace

void Module::set_tensors(const std::function<Tensor(const Tensor&)>& convert) {
  struct Change {
    Tensor target, data, grad;
  };
  NoGrad guard;
  std::vector<Change> changes;  // all are made before one is applied, so that running out of memory half way changes nothing
  for (const auto& list : {named_parameters(), named_buffers()})
    for (const NamedTensor& entry : list) {
      const Tensor& t = entry.tensor;
      Tensor data = convert(t.detach());
      if (data.dtype() == t.dtype() && data.device() == t.device()) continue;
      changes.push_back({t, std::move(data), t.grad().defined() ? convert(t.grad().detach()) : Tensor()});
    }
  for (Change& c : changes) {
    c.target.set_data(c.data);
    if (c.grad.defined()) {
      const GradState state = c.target.impl()->grad_state;
      c.target.set_grad(std::move(c.grad));
      c.target.impl()->grad_state = state;
    }
  }
}

Module& Module::to(Device device) {
  check_usable(device);
  set_tensors([device](const Tensor& t) { return t.to(device); });
  return *this;
}

Module& Module::to(DType dtype) {
  if (!is_floating(dtype))
    throw DTypeError(type_name(),
                     fmt::format("a module can be converted to floating-point types only, not to {}", name_of(dtype)));
  set_tensors([dtype](const Tensor& t) { return is_floating(t.dtype()) ? t.to(dtype) : t; });
  return *this;
}

void Module::zero_grad() {
  for (const NamedTensor& p : named_parameters()) Tensor(p.tensor).set_grad({});
}

Module& Module::requires_grad_(bool value) {
  for (NamedTensor& p : named_parameters()) p.tensor.set_requires_grad(value);
  return *this;
}

LoadResult Module::load_state_dict(const StateDict& state, const LoadOptions& options) {
  LoadResult result;
  std::vector<std::string> mismatched, repeated;
  std::unordered_map<std::string, const Tensor*> given;
  for (const NamedTensor& entry : state)
    if (!given.emplace(entry.name, &entry.tensor).second) repeated.push_back(entry.name);

  std::vector<std::pair<Tensor, const Tensor*>> copies;
  for (const NamedTensor& own : state_dict()) {
    const auto found = given.find(own.name);
    if (found == given.end()) {
      result.missing.push_back(own.name);
      continue;
    }
    if (std::string why = mismatch(own.name, own.tensor, *found->second); !why.empty()) mismatched.push_back(std::move(why));
    copies.emplace_back(own.tensor, found->second);
    given.erase(found);
  }
  for (const NamedTensor& entry : state)
    if (given.erase(entry.name)) result.unexpected.push_back(entry.name);

  const bool wrong_names = !repeated.empty() || (options.strict && !(result.missing.empty() && result.unexpected.empty()));
  if (wrong_names || !mismatched.empty()) {
    std::string text =
        fmt::format("{} does not fit {}", options.source.empty() ? "the state" : "'" + options.source + "'", type_name());
    text += list_of("missing", result.missing) + list_of("unexpected", result.unexpected) + list_of("repeated", repeated) +
            list_of("mismatched", mismatched);
    if (wrong_names && repeated.empty() && mismatched.empty()) text += "\n  {.strict = false} loads the names that do fit";
    if (wrong_names) throw ValueError("load_state_dict", text);
    throw ShapeError("load_state_dict", text);
  }
  NoGrad guard;
  for (auto& [target, source] : copies) {
    const Tensor local = source->device() == target.device() ? *source : source->to(target.device());
    target.copy_(local);
  }
  return result;
}

}  // namespace spool
