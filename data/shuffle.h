// Permutations as a function of a seed: no generator is advanced, so nothing else that draws numbers can change the order.
#pragma once
#include <cstdint>
#include <vector>

namespace spool {

// Epochs 0, 1, 2, ... are streams of their own; this one is random_split's.
inline constexpr std::uint64_t kSplitStream = ~std::uint64_t{0};

// 0 .. n-1 in an order drawn uniformly by (seed, stream).
std::vector<std::int64_t> shuffled_indices(std::int64_t n, std::uint64_t seed, std::uint64_t stream);

}  // namespace spool
