#include "spool/layers/dropout.h"

#include <fmt/format.h>

#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/layers/options.h"

namespace spool {

Dropout::Dropout(Options given) : options(given) {
  if (!(options.p >= 0 && options.p <= 1))
    throw ValueError("Dropout", fmt::format("p must be a probability in [0, 1], not {}", options.p));
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, options.p, is_training()); }

std::string Dropout::extra_repr() const { return fmt::format("p={}", options.p); }

}  // namespace spool
