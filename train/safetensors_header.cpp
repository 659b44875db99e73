#include "spool/train/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "spool/core/errors.h"

namespace spool::detail {
namespace {

using Json = nlohmann::json;

constexpr struct {
  const char* name;
  DType dtype;
} kTypes[] = {{"F64", f64}, {"F32", f32}, {"BF16", bf16}, {"I64", i64}, {"I32", i32}, {"U8", u8}, {"BOOL", boolean}};

constexpr std::size_t kMaxDepth = 3;  // of brackets: the file, a tensor, its shape
constexpr int kMaxElements = 64;      // of a list

struct Reader {
  const std::string& source;

  [[noreturn]] void fail(const std::string& why) const {
    throw IoError("safetensors", fmt::format("'{}' is damaged: {}", source, why));
  }
  [[noreturn]] void fail(const std::string& tensor, const std::string& why) const {
    throw IoError("safetensors", fmt::format("'{}' is damaged: tensor '{}': {}", source, tensor, why));
  }

  // The library keeps the last of equal keys; a file with two is a file that lies. Depth and lists are limited, so that what is parsed stays of
  // the order of the text.
  Json parse(std::string_view text) const {
    struct Level {
      std::set<std::string> keys = {};
      int elements = 0;
    };
    std::vector<Level> levels;
    const auto watch = [&](int, Json::parse_event_t event, Json& value) {
      using Event = Json::parse_event_t;
      if (event == Event::object_start || event == Event::array_start) {
        if (levels.size() == kMaxDepth) fail("the header is nested too deeply");
        levels.emplace_back();
      } else if (event == Event::object_end || event == Event::array_end) {
        levels.pop_back();
      } else if (event == Event::key) {
        levels.back().elements = 0;
        if (!levels.back().keys.insert(value.get_ref<const std::string&>()).second)
          fail(fmt::format("the header lists '{}' twice", value.get_ref<const std::string&>()));
      } else if (!levels.empty() && ++levels.back().elements > kMaxElements) {
        fail("the header has a list that is too long for a shape");
      }
      return true;
    };
    try {
      return Json::parse(text.begin(), text.end(), watch);
    } catch (const Json::exception& e) {
      fail(fmt::format("the header is not JSON: {}", e.what()));
    }
  }

  const Json& field(const std::string& tensor, const Json& entry, const char* key) const {
    const auto found = entry.find(key);
    if (found == entry.end()) fail(tensor, fmt::format("'{}' is missing", key));
    return *found;
  }

  std::uint64_t count(const std::string& tensor, const Json& value, const char* what) const {
    if (!value.is_number_unsigned()) fail(tensor, fmt::format("{} is {}, not a whole number of at least 0", what, value.dump()));
    return value.get<std::uint64_t>();
  }

  DType dtype(const std::string& tensor, const Json& value) const {
    if (!value.is_string()) fail(tensor, fmt::format("dtype is {}, not a name", value.dump()));
    const auto& name = value.get_ref<const std::string&>();
    for (const auto& t : kTypes)
      if (name == t.name) return t.dtype;
    throw IoError("safetensors", fmt::format("'{}': tensor '{}' has dtype '{}', which is not one of F64, F32, BF16, I64, I32, "
                                             "U8, BOOL: convert it where the file is made (in PyTorch, tensor.float())",
                                             source, tensor, name));
  }

  TensorEntry entry(const std::string& name, const Json& value) const {
    if (!value.is_object()) fail(name, "its entry is not an object");
    for (const auto& item : value.items())
      if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets")
        fail(name, fmt::format("unknown field '{}'", item.key()));
    TensorEntry t{name, dtype(name, field(name, value, "dtype")), {}, 0, 0};
    const Json& shape = field(name, value, "shape");
    if (!shape.is_array()) fail(name, "shape is not a list");
    if (shape.size() > static_cast<std::size_t>(kMaxDims))
      fail(name, fmt::format("shape has {} dimensions, at most {} are supported", shape.size(), kMaxDims));
    std::uint64_t bytes = size_of(t.dtype);
    std::int64_t extent = static_cast<std::int64_t>(bytes);  // as if no size were 0: strides are products too
    for (const Json& d : shape) {
      const std::uint64_t size = count(name, d, "a size");
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
          __builtin_mul_overflow(extent, std::max<std::int64_t>(static_cast<std::int64_t>(size), 1), &extent))
        fail(name, fmt::format("shape {} is too large", shape.dump()));
      t.shape.push_back(static_cast<std::int64_t>(size));
      bytes *= size;
    }
    const Json& offsets = field(name, value, "data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) fail(name, "data_offsets is not a pair");
    t.begin = count(name, offsets[0], "an offset");
    t.end = count(name, offsets[1], "an offset");
    if (t.begin > t.end) fail(name, fmt::format("its data ends ({}) before it begins ({})", t.end, t.begin));
    if (t.end - t.begin != bytes)
      fail(name, fmt::format("{} {} needs {} bytes, its offsets give {}", to_string(t.shape), name_of(t.dtype), bytes,
                             t.end - t.begin));
    return t;
  }

  void check_layout(const std::vector<TensorEntry>& tensors, std::uint64_t data_bytes) const {
    std::vector<const TensorEntry*> order;
    for (const TensorEntry& t : tensors) order.push_back(&t);
    std::sort(order.begin(), order.end(),
              [](auto* a, auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
    std::uint64_t at = 0;
    for (const TensorEntry* t : order) {
      if (t->end > data_bytes)
        fail(t->name, fmt::format("its data ends at {}, the file has {} bytes of data: it was cut short", t->end, data_bytes));
      if (t->begin < at) fail(t->name, fmt::format("its data begins at {}, inside of another tensor's", t->begin));
      if (t->begin > at) fail(t->name, fmt::format("{} bytes before its data belong to no tensor", t->begin - at));
      at = t->end;
    }
    if (at != data_bytes) fail(fmt::format("{} bytes at the end belong to no tensor", data_bytes - at));
  }
};

}  // namespace

SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& source) {
  const Reader reader{source};
  if (json.empty() || json.front() != '{') reader.fail("the header does not begin with '{'");
  const Json root = reader.parse(json);
  SafetensorsHeader header;
  for (const auto& item : root.items()) {
    if (item.key() != "__metadata__") {
      header.tensors.push_back(reader.entry(item.key(), item.value()));
      continue;
    }
    if (!item.value().is_object()) reader.fail("__metadata__ is not an object");
    for (const auto& note : item.value().items()) {
      if (!note.value().is_string()) reader.fail(fmt::format("metadata '{}' is not text", note.key()));
      header.metadata.emplace(note.key(), note.value().get<std::string>());
    }
  }
  reader.check_layout(header.tensors, data_bytes);
  return header;
}

std::string make_header(const std::vector<TensorEntry>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  for (const TensorEntry& t : tensors) {
    const char* type = "";
    for (const auto& k : kTypes)
      if (k.dtype == t.dtype) type = k.name;
    root[t.name] = {{"dtype", type},
                    {"shape", std::vector<std::int64_t>(t.shape.begin(), t.shape.end())},
                    {"data_offsets", {t.begin, t.end}}};
  }
  std::string text;
  try {
    text = root.dump();
  } catch (const nlohmann::json::exception& e) {
    throw ValueError("save", fmt::format("a name or note is not UTF-8: {}", e.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data that follows is aligned
  return text;
}

}  // namespace spool::detail
