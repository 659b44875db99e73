#include "spool/layers/activation.h"

#include <fmt/format.h>

#include "spool/core/errors.h"
#include "spool/layers/options.h"

namespace spool {
namespace {

const Softmax::Options& checked(const char* layer, const Softmax::Options& o) {
  if (!o.dim) throw ValueError(layer, "say along which dimension: {.dim = 1} or {.dim = -1}");
  return o;
}

}  // namespace

std::string LeakyReLU::extra_repr() const { return fmt::format("negative_slope={}", options.negative_slope); }

Softplus::Softplus(Options given) : options(given) {
  if (!(options.beta > 0)) throw ValueError("Softplus", fmt::format("beta must be above 0, not {}", options.beta));
}

Tensor Softplus::forward(const Tensor& x) { return options.beta == 1 ? softplus(x) : softplus(x * options.beta) / options.beta; }

std::string Softplus::extra_repr() const { return fmt::format("beta={}", options.beta); }

Softmax::Softmax(Options given) : options(checked("Softmax", given)) {}

std::string Softmax::extra_repr() const { return fmt::format("dim={}", *options.dim); }

LogSoftmax::LogSoftmax(Options given) : options(checked("LogSoftmax", given)) {}

std::string LogSoftmax::extra_repr() const { return fmt::format("dim={}", *options.dim); }

}  // namespace spool
