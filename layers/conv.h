// Convolutions of pictures. Weights lie channels-last in memory; their shapes and indices are PyTorch's.
#pragma once
#include "spool/autograd/ops.h"
#include "spool/layers/module.h"

namespace spool {

// x [N, in_channels, H, W] -> [N, out_channels, H', W'], H' = (H + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
struct Conv2d : Module {
  struct Options {
    std::int64_t in_channels = 0;   // required
    std::int64_t out_channels = 0;  // required
    Size2 kernel_size = 0;          // required
    Size2 stride = 1;
    Size2 padding = 0;
    Size2 dilation = 1;
    std::int64_t groups = 1;  // divides both numbers of channels
    bool bias = true;
  };
  explicit Conv2d(Options options);
  Tensor forward(const Tensor& x) override;
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor& weight;  // [out_channels, in_channels / groups, kH, kW], uniform within 1 / sqrt(in_channels / groups kH kW)
  Tensor& bias;    // [out_channels], within the same bound; undefined without
};

// The transpose of Conv2d: x [N, in_channels, H, W] -> [N, out_channels, H', W'],
// H' = (H - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
struct ConvTranspose2d : Module {
  struct Options {
    std::int64_t in_channels = 0;   // required
    std::int64_t out_channels = 0;  // required
    Size2 kernel_size = 0;          // required
    Size2 stride = 1;
    Size2 padding = 0;
    Size2 output_padding = 0;  // smaller than the stride or the dilation
    std::int64_t groups = 1;
    bool bias = true;
    Size2 dilation = 1;
  };
  explicit ConvTranspose2d(Options options);
  Tensor forward(const Tensor& x) override;
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor& weight;  // [in_channels, out_channels / groups, kH, kW]
  Tensor& bias;    // [out_channels]; undefined without
};

}  // namespace spool
