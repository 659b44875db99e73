// Pooling layers: x [N, C, H, W].
#pragma once
#include "spool/autograd/ops.h"
#include "spool/layers/module.h"

namespace spool {

struct MaxPool2d : Module {
  using Options = MaxPool2dOptions;
  explicit MaxPool2d(Options options);
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options); }
  std::string extra_repr() const override;

  const Options options;
};

struct AvgPool2d : Module {
  using Options = AvgPool2dOptions;
  explicit AvgPool2d(Options options);
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options); }
  std::string extra_repr() const override;

  const Options options;
};

struct AdaptiveAvgPool2d : Module {
  struct Options {
    Size2 output_size = 1;
  };
  explicit AdaptiveAvgPool2d(Options options);
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, options.output_size); }
  std::string extra_repr() const override;

  const Options options;
};

}  // namespace spool
