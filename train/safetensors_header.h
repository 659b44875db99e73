// The header of a safetensors file: JSON that says where each tensor lies. What train/safetensors*.cpp share, not for users.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spool/train/safetensors.h"

namespace spool::detail {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

struct TensorEntry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;  // in the data, which follows the header
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // sorted by name
  Metadata metadata;
};

// Checks everything: types, shapes, sizes, and that the tensors cover `data_bytes` bytes without gap or overlap. Throws IoError.
SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& source);
// The JSON of tensors that follow each other in this order.
std::string make_header(const std::vector<TensorEntry>& tensors, const Metadata& metadata);

}  // namespace spool::detail
