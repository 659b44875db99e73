// Layers that multiply by a matrix, and those that only change a shape.
#pragma once
#include "spool/layers/module.h"

namespace spool {

// y = x weightᵀ + bias; x [*, in_features] -> [*, out_features].
struct Linear : Module {
  struct Options {
    std::int64_t in_features = 0;   // required
    std::int64_t out_features = 0;  // required
    bool bias = true;
  };
  explicit Linear(Options options);
  Linear(std::int64_t in_features, std::int64_t out_features) : Linear(Options{in_features, out_features}) {}
  Tensor forward(const Tensor& x) override;
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor& weight;  // [out_features, in_features], uniform within 1 / sqrt(in_features)
  Tensor& bias;    // [out_features], within the same bound; undefined without
};

// [N, ...] -> [N, product].
struct Flatten : Module {
  struct Options {
    int start_dim = 1;
    int end_dim = -1;
  };
  Flatten() : Flatten(Options{}) {}
  explicit Flatten(Options given) : options(given) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const Options options;
};

// Gives back its input.
struct Identity : Module {
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace spool
