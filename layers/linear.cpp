#include "spool/layers/linear.h"

#include <fmt/format.h>

#include "spool/autograd/ops.h"
#include "spool/layers/init.h"
#include "spool/layers/options.h"

namespace spool {
namespace {

const Linear::Options& checked(const Linear::Options& o) {
  detail::check_option("Linear", "in_features", o.in_features, 1);
  detail::check_option("Linear", "out_features", o.out_features, 1);
  return o;
}

}  // namespace

Linear::Linear(Options given)
    : options(checked(given)),
      weight(add_parameter("weight", empty({options.out_features, options.in_features}))),
      bias(add_parameter("bias", options.bias ? empty({options.out_features}) : Tensor())) {
  reset_parameters();
}

void Linear::reset_parameters() { init::default_weight_and_bias_(weight, bias); }

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

std::string Linear::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}", options.in_features, options.out_features,
                     detail::python(options.bias));
}

Tensor Flatten::forward(const Tensor& x) { return flatten(x, options.start_dim, options.end_dim); }

std::string Flatten::extra_repr() const { return fmt::format("start_dim={}, end_dim={}", options.start_dim, options.end_dim); }

}  // namespace spool
