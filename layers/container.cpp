#include "spool/layers/container.h"

#include <fmt/format.h>

#include "spool/core/errors.h"

namespace spool {

Module& ModuleList::operator[](std::int64_t index) const {
  const auto n = static_cast<std::int64_t>(size());
  if (index < -n || index >= n) throw IndexError(type_name(), fmt::format("child {} is out of range: there are {}", index, n));
  return child(static_cast<std::size_t>(index < 0 ? index + n : index));
}

void ModuleList::throw_wrong_type(std::int64_t index, const Module& child) const {
  throw ValueError(type_name(), fmt::format("child {} is a {}, and was asked for as something else", index, child.type_name()));
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (std::size_t i = 0; i < num_children(); ++i) y = child(i)(y);
  return y;
}

}  // namespace spool
