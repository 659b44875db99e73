// Numbers in the states that checkpoints are made of; what train/*.cpp share, not for users.
#pragma once
#include <string>
#include <string_view>

#include "spool/core/named_tensors.h"

namespace spool::detail {

Tensor state_number(double value);
Tensor state_integer(std::int64_t value);
// The tensor of one element by that name. Throws ValueError, calling the state `owner`'s, where it is missing or something else.
const Tensor& state_entry(const char* owner, const StateDict& state, std::string_view name);
template <class T>
T state_value(const char* owner, const StateDict& state, std::string_view name) {
  return state_entry(owner, state, name).item<T>();
}
// Appends `part`, each name after "prefix.".
void append_state(StateDict& state, const std::string& prefix, const StateDict& part);
// Those whose names begin with "prefix.", without it.
StateDict part_of_state(const StateDict& state, const std::string& prefix);
bool has_part(const StateDict& state, const std::string& prefix);
// An independent copy.
StateDict clone_state(const StateDict& state);

}  // namespace spool::detail
