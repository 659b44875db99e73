// Elementwise nonlinearities and softmax as modules; the functions of the same names do the same without one.
#pragma once
#include <optional>

#include "spool/autograd/ops.h"
#include "spool/layers/module.h"

namespace spool {

struct ReLU : Module {
  Tensor forward(const Tensor& x) override { return relu(x); }
};
struct LeakyReLU : Module {
  struct Options {
    double negative_slope = 0.01;
  };
  LeakyReLU() : LeakyReLU(Options{}) {}
  explicit LeakyReLU(Options given) : options(given) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, options.negative_slope); }
  std::string extra_repr() const override;

  const Options options;
};
struct GELU : Module {
  Tensor forward(const Tensor& x) override { return gelu(x); }
};
struct SiLU : Module {
  Tensor forward(const Tensor& x) override { return silu(x); }
};
struct Tanh : Module {
  Tensor forward(const Tensor& x) override { return tanh(x); }
};
struct Sigmoid : Module {
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};
// log(1 + exp(beta x)) / beta, exact at any x.
struct Softplus : Module {
  struct Options {
    double beta = 1;
  };
  Softplus() : Softplus(Options{}) {}
  explicit Softplus(Options options);
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const Options options;
};
struct Softmax : Module {
  struct Options {
    std::optional<int> dim = {};  // required
  };
  explicit Softmax(Options options);
  Tensor forward(const Tensor& x) override { return softmax(x, *options.dim); }
  std::string extra_repr() const override;

  const Options options;
};
struct LogSoftmax : Module {
  using Options = Softmax::Options;
  explicit LogSoftmax(Options options);
  Tensor forward(const Tensor& x) override { return log_softmax(x, *options.dim); }
  std::string extra_repr() const override;

  const Options options;
};

}  // namespace spool
