#include "spool/train/crc32c.h"

#include <array>
#include <cstring>

namespace spool::detail {
namespace {

// Eight tables, so that eight bytes are taken at a time: table[k][b] is the effect of byte b followed by k zero bytes.
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t c = b;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0x82F63B78u ^ (c >> 1) : c >> 1;
    t[0][b] = c;
  }
  for (std::uint32_t b = 0; b < 256; ++b)
    for (std::size_t k = 1; k < 8; ++k) t[k][b] = t[0][t[k - 1][b] & 255] ^ (t[k - 1][b] >> 8);
  return t;
}();

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before) {
  auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t c = ~before;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= c;
    c = 0;
    for (std::size_t i = 0; i < 8; ++i) c ^= kTables[7 - i][word >> (8 * i) & 255];
  }
  for (; bytes > 0; ++at, --bytes) c = kTables[0][(c ^ *at) & 255] ^ (c >> 8);
  return ~c;
}

}  // namespace spool::detail
