#include "spool/train/state.h"

#include <fmt/format.h>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"

namespace spool::detail {

Tensor state_number(double value) { return scalar_tensor(value, {.dtype = f64}); }
Tensor state_integer(std::int64_t value) { return scalar_tensor(value, {.dtype = i64}); }

const Tensor& state_entry(const char* owner, const StateDict& state, std::string_view name) {
  const Tensor* t = find_tensor(state, name);
  if (!t || !t->defined() || t->numel() != 1)
    throw ValueError(owner, fmt::format("the state has no number '{}': it belongs to something else", name));
  return *t;
}

void append_state(StateDict& state, const std::string& prefix, const StateDict& part) {
  for (const NamedTensor& t : part) state.push_back({prefix + '.' + t.name, t.tensor});
}

StateDict part_of_state(const StateDict& state, const std::string& prefix) {
  StateDict part;
  for (const NamedTensor& t : state)
    if (t.name.size() > prefix.size() && t.name.starts_with(prefix) && t.name[prefix.size()] == '.')
      part.push_back({t.name.substr(prefix.size() + 1), t.tensor});
  return part;
}

bool has_part(const StateDict& state, const std::string& prefix) { return !part_of_state(state, prefix).empty(); }

StateDict clone_state(const StateDict& state) {
  NoGrad guard;
  StateDict copy;
  for (const NamedTensor& t : state) copy.push_back({t.name, t.tensor.detach().clone()});
  return copy;
}

}  // namespace spool::detail
