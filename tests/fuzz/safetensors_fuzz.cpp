// libFuzzer target: whatever the bytes are, parse_safetensors returns tensors or throws IoError, and what it returns was all in the bytes.
#include <cstdlib>

#include "spool/core/errors.h"
#include "spool/train/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const spool::TensorFile file = spool::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    std::size_t bytes = 0;
    for (const spool::NamedTensor& t : file.tensors)
      bytes += static_cast<std::size_t>(t.tensor.numel()) * spool::size_of(t.tensor.dtype());
    if (bytes > size) std::abort();
  } catch (const spool::IoError&) {
  }
  return 0;
}
