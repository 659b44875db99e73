// The CIFAR reader against any bytes: they are records, whose pixels and labels are then in range, or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "spool/core/errors.h"
#include "spool/data/cifar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // The first byte chooses the format, and whether the rest is cut to whole records, which random lengths hardly ever are.
  const spool::CifarFormat format =
      data[0] & 1 ? spool::CifarFormat{} : spool::CifarFormat{.labels = 2, .label = 1, .classes = 100};
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] & 2) bytes = bytes.first(bytes.size() / format.record_bytes() * format.record_bytes());
  const std::size_t n = bytes.size() / format.record_bytes();
  std::vector<std::uint8_t> pixels(n * 3072);
  std::vector<std::int64_t> labels(n, -1);
  try {
    if (spool::parse_cifar(bytes, format, pixels.data(), labels.data()) != n) std::abort();
    for (const std::int64_t label : labels)
      if (label < 0 || label >= format.classes) std::abort();
  } catch (const spool::IoError&) {
  }
  return 0;
}
