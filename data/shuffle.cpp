#include "spool/data/shuffle.h"

#include <numeric>
#include <utility>

#include "spool/core/generator.h"

namespace spool {

std::vector<std::int64_t> shuffled_indices(std::int64_t n, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  constexpr std::uint64_t kKey = 0x5370'6f6f'6c53'6875u;  // apart from weights initialised from the same seed
  for (std::int64_t i = n - 1; i > 0; --i) {              // Fisher and Yates
    const Philox r(seed ^ kKey, static_cast<std::uint64_t>(i), stream);
    const std::uint64_t word = (std::uint64_t{r.words[0]} << 32) | r.words[1];
    // 64 random bits: the bias of the remainder is below n / 2^64.
    std::swap(order[static_cast<std::size_t>(i)], order[word % static_cast<std::uint64_t>(i + 1)]);
  }
  return order;
}

}  // namespace spool
