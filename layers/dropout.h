#pragma once
#include "spool/layers/module.h"

namespace spool {

// In training, zeroes each element with probability p and divides the others by 1 - p; in eval mode, gives back its input. Draws from
// default_generator().
struct Dropout : Module {
  struct Options {
    double p = 0.5;
  };
  Dropout() : Dropout(Options{}) {}
  explicit Dropout(Options options);
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const Options options;
};

}  // namespace spool
