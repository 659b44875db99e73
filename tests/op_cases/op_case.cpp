#include "op_case.h"

namespace spool::test {

Tensor random(const Shape& shape, double low, double high, std::uint64_t seed) {
  Generator generator(seed);
  return rand(shape, {.dtype = f64}, generator) * (high - low) + low;
}

}  // namespace spool::test
