#include "spool/core/generator.h"

namespace spool {

std::uint64_t Generator::below(std::uint64_t n) {
  // Rejection of the incomplete last interval, so that every value is equally likely.
  const std::uint64_t limit = n ? (0 - n) % n : 0;
  while (n) {
    const Draw d = draw();
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Philox r = d(i);
      const std::uint64_t value = (std::uint64_t{r.words[0]} << 32) | r.words[1];
      if (value >= limit) return value % n;
    }
  }
  return 0;
}

Generator& default_generator() {
  static Generator generator(0);
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace spool
