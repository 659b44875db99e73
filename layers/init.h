// Filling tensors with starting values: PyTorch's torch.nn.init. Random numbers are drawn on the CPU in the logical (row-major) order of the
// elements and then moved, so that a seed gives the same values on every device and in every memory format. Each returns its argument, writes
// outside of the tape, and throws before writing anything.
#pragma once
#include "spool/core/generator.h"
#include "spool/core/tensor.h"

namespace spool::init {

// fan_in of a weight [out, in, ...] is in times the size of the kernel, fan_out is out times it. Throws ShapeError below two dimensions.
struct Fans {
  std::int64_t fan_in, fan_out;
};
Fans fans(const Tensor& weight);

enum class Nonlinearity { linear, conv2d, sigmoid, tanh, relu, leaky_relu, selu };
// The factor that keeps variances through the nonlinearity; `param` is the slope of leaky_relu (0.01 where not given).
double calculate_gain(Nonlinearity nonlinearity, std::optional<double> param = {});

Tensor& zeros_(Tensor& t);
Tensor& ones_(Tensor& t);
Tensor& constant_(Tensor& t, double value);
Tensor& uniform_(Tensor& t, double low = 0, double high = 1, Generator& generator = default_generator());
Tensor& normal_(Tensor& t, double mean = 0, double std = 1, Generator& generator = default_generator());
// Normal, drawn again where outside of [low, high] (in law: by inverting the distribution function).
Tensor& trunc_normal_(Tensor& t, double mean = 0, double std = 1, double low = -2, double high = 2,
                      Generator& generator = default_generator());

enum class FanMode { fan_in, fan_out };
struct KaimingOptions {
  double a = 0;  // the slope, for leaky_relu
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
// He et al., "Delving deep into rectifiers" (2015): standard deviation gain / sqrt(fan).
Tensor& kaiming_uniform_(Tensor& t, KaimingOptions options = {}, Generator& generator = default_generator());
Tensor& kaiming_normal_(Tensor& t, KaimingOptions options = {}, Generator& generator = default_generator());
// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010): gain * sqrt(2 / (fan_in + fan_out)).
Tensor& xavier_uniform_(Tensor& t, double gain = 1, Generator& generator = default_generator());
Tensor& xavier_normal_(Tensor& t, double gain = 1, Generator& generator = default_generator());
// The rows, or the columns where there are fewer of them, of t seen as [size(0), rest] are orthonormal times `gain` (Saxe et al., 2013).
Tensor& orthogonal_(Tensor& t, double gain = 1, Generator& generator = default_generator());
// A convolution weight [out, in, kH, kW] (or of three dimensions) that passes its input channels through. `groups` must divide size(0).
Tensor& dirac_(Tensor& t, std::int64_t groups = 1);

// PyTorch's default for the weight of linear and convolution layers: uniform within 1 / sqrt(fan_in), the bias within the same bound.
// `bias` may be undefined.
void default_weight_and_bias_(Tensor& weight, Tensor& bias, Generator& generator = default_generator());

}  // namespace spool::init
