// The picture decoder against any bytes: a picture with pixels, or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "spool/core/errors.h"
#include "spool/data/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const spool::Picture picture = spool::decode_image(std::as_bytes(std::span(data, size)));
    if (picture.channels() != 3 || picture.shape().bytes() == 0) std::abort();
  } catch (const spool::IoError&) {
  }
  return 0;
}
