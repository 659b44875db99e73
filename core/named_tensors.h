// Tensors by name: what models, optimizers and schedules give to a checkpoint and take back from one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "spool/core/tensor.h"

namespace spool {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// In the order in which things were registered. Names are unique.
using StateDict = std::vector<NamedTensor>;

// The tensor of that name, or null.
inline const Tensor* find_tensor(const StateDict& state, std::string_view name) {
  for (const NamedTensor& entry : state)
    if (entry.name == name) return &entry.tensor;
  return nullptr;
}

}  // namespace spool
