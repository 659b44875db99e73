// Tensors in a file, in the safetensors format (https://github.com/huggingface/safetensors), which PyTorch and others read and write. Elements are
// stored in row-major order, whatever their order in memory. Types: F64, F32, BF16, I64, I32, U8, BOOL.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "spool/core/named_tensors.h"
#include "spool/layers/module.h"

namespace spool {

using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  StateDict tensors;  // in the order of their names
  Metadata metadata;
};

// Replaces `path` at once and whole: after a crash, a full disk or an exception the old file is still there. Throws IoError naming the
// file and the reason; ValueError for names that are used twice, reserved or not UTF-8.
void save_safetensors(const std::string& path, const StateDict& tensors, const Metadata& metadata = {});

// Reads a file, trusting nothing in it: every size, offset and type is checked before it is used. Throws IoError naming the file and, where
// one is to blame, the tensor.
TensorFile load_safetensors(const std::string& path);
// The same from memory; `source` is what errors call it.
TensorFile parse_safetensors(std::span<const std::byte> bytes, const std::string& source);

// A module's parameters and buffers, by the names that PyTorch gives them.
void save_weights(const Module& module, const std::string& path, const Metadata& metadata = {});

struct LoadWeightsOptions {
  bool strict = true;  // see Module::load_state_dict
};
// From such a file, or from a checkpoint, of which the rest is left aside.
LoadResult load_weights(Module& module, const std::string& path, LoadWeightsOptions options = {});

}  // namespace spool
