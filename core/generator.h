// Random numbers by counter (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the i-th number is
// a function of the seed and i alone, so results depend on neither threads nor device.
#pragma once
#include <cstdint>

#include "spool/core/dtype.h"

namespace spool {

// Four random words from a 64-bit key and a 128-bit counter.
struct Philox {
  std::uint32_t words[4];
  SPOOL_HD Philox(std::uint64_t key, std::uint64_t counter, std::uint64_t stream = 0) {
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32);
    std::uint32_t c2 = static_cast<std::uint32_t>(stream), c3 = static_cast<std::uint32_t>(stream >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
  }
  // In [0, 1), 24 bits.
  SPOOL_HD float uniform(int i) const { return static_cast<float>(words[i] >> 8) * 0x1p-24f; }
  // In [0, 1), 53 bits; i is 0 or 1.
  SPOOL_HD double uniform_double(int i) const {
    return static_cast<double>((static_cast<std::uint64_t>(words[2 * i]) << 21) ^ (words[2 * i + 1] >> 11)) * 0x1p-53;
  }
};

// A position in the stream of numbers of one seed. An operation that draws takes a `Draw`, its own part of the stream.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  void manual_seed(std::uint64_t seed) {
    seed_ = seed;
    next_ = 0;
  }
  std::uint64_t seed() const { return seed_; }
  // How many draws were made; with the seed it is the whole state.
  std::uint64_t position() const { return next_; }
  void set_position(std::uint64_t position) { next_ = position; }

  struct Draw {
    std::uint64_t seed, stream;
    SPOOL_HD Philox operator()(std::uint64_t counter) const { return Philox(seed, counter, stream); }
  };
  Draw draw() { return {seed_, next_++}; }

  // One number in [0, n), without bias. For shuffles and the like, on the host.
  std::uint64_t below(std::uint64_t n);

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

// The generator used where none is given. Not for concurrent use from several threads.
Generator& default_generator();
// Restarts the default generator.
void manual_seed(std::uint64_t seed);

}  // namespace spool
