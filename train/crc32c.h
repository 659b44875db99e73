// CRC-32C (Castagnoli), which TensorBoard's files use and checkpoints are sealed with.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spool::detail {

// Of `bytes` bytes, continuing from the checksum of those before (0 at the start).
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before = 0);

}  // namespace spool::detail
