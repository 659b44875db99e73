// The random numbers of one example: a function of (seed, epoch, index) and of who draws, nothing else. So they are the same whatever
// the number of workers, differ between epochs and examples, and a resumed run continues with the ones an uninterrupted run would have had.
#pragma once
#include <cstdint>

#include "spool/core/generator.h"

namespace spool {

struct ExampleRandom {
  std::uint64_t seed = 0, epoch = 0, index = 0;
  // Who draws: 0 is the data set itself, 1, 2, ... the transforms in their order.
  std::uint32_t drawer = 0;

  // Four random words. A drawer that needs more asks with draw = 1, 2, ... (below 65,536).
  SPOOL_HD Philox operator()(std::uint32_t draw = 0) const {
    return Philox(seed ^ kKey, index, (epoch << 32) | (std::uint64_t{drawer & 0xffffu} << 16) | (draw & 0xffffu));
  }

  // Keeps these numbers apart from those of weights initialised from the same seed.
  static constexpr std::uint64_t kKey = 0x5370'6f6f'6c44'6174u;
};

// 0 .. n-1 from a random word. The bias is below n / 2^32.
SPOOL_HD std::uint32_t below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * n) >> 32);
}

}  // namespace spool
