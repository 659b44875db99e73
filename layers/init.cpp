#include "spool/layers/init.h"

#include <fmt/format.h>

#include <Eigen/QR>
#include <cmath>
#include <numbers>

#include "spool/autograd/creation.h"
#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"

namespace spool::init {
namespace {

void check_floating(const char* op, const Tensor& t) {
  if (!is_floating(t.dtype())) throw DTypeError(op, "only floating-point tensors can be initialised at random", {{"tensor", t}});
}

// Overwrites `t` with `values`, which lie on the CPU.
Tensor& assign(Tensor& t, const Tensor& values) {
  NoGrad guard;
  t.copy_(t.device() == values.device() ? values : values.to(t.device()));
  return t;
}

// f32 numbers for f32 and bf16, so that a model converted to bf16 and one made as bf16 are the same.
TensorOptions draw_options(const Tensor& t) { return {.dtype = t.dtype() == f64 ? f64 : f32}; }

// The inverse of the standard normal distribution function, by Newton's method on erfc from a rational start (Abramowitz and Stegun 26.2.23).
double normal_quantile(double p) {
  if (p <= 0) return -HUGE_VAL;
  if (p >= 1) return HUGE_VAL;
  const double tail = std::min(p, 1 - p), r = std::sqrt(-2 * std::log(tail));
  double x = (2.515517 + r * (0.802853 + r * 0.010328)) / (1 + r * (1.432788 + r * (0.189269 + r * 0.001308))) - r;
  for (int i = 0; i < 3; ++i) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    x -= (0.5 * std::erfc(-x / std::numbers::sqrt2) - tail) / density;
  }
  return p < 0.5 ? x : -x;
}

double fan(const Tensor& t, FanMode mode) {
  const Fans f = fans(t);
  return static_cast<double>(mode == FanMode::fan_in ? f.fan_in : f.fan_out);
}

}  // namespace

Fans fans(const Tensor& weight) {
  if (weight.dim() < 2)
    throw ShapeError("init", "fan-in and fan-out need a weight of two dimensions or more: [out, in, ...]", {{"weight", weight}});
  std::int64_t kernel = 1;
  for (int d = 2; d < weight.dim(); ++d) kernel *= weight.size(d);
  return {weight.size(1) * kernel, weight.size(0) * kernel};
}

double calculate_gain(Nonlinearity nonlinearity, std::optional<double> param) {
  switch (nonlinearity) {
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu: {
      const double slope = param.value_or(0.01);
      return std::sqrt(2 / (1 + slope * slope));
    }
    case Nonlinearity::selu: return 0.75;
    case Nonlinearity::linear:
    case Nonlinearity::conv2d:
    case Nonlinearity::sigmoid: break;
  }
  return 1;
}

Tensor& constant_(Tensor& t, double value) {
  NoGrad guard;
  t.fill_(value);
  return t;
}
Tensor& zeros_(Tensor& t) { return constant_(t, 0); }
Tensor& ones_(Tensor& t) { return constant_(t, 1); }

Tensor& uniform_(Tensor& t, double low, double high, Generator& generator) {
  check_floating("uniform_", t);
  if (!(low <= high)) throw ValueError("uniform_", fmt::format("the range [{}, {}) is empty", low, high));
  NoGrad guard;
  Tensor values = rand(t.shape(), draw_options(t), generator);
  values.mul_(high - low).add_(low);
  return assign(t, values);
}

Tensor& normal_(Tensor& t, double mean, double std, Generator& generator) {
  check_floating("normal_", t);
  if (!(std >= 0)) throw ValueError("normal_", fmt::format("the standard deviation must be at least 0, not {}", std));
  NoGrad guard;
  Tensor values = randn(t.shape(), draw_options(t), generator);
  values.mul_(std).add_(mean);
  return assign(t, values);
}

Tensor& trunc_normal_(Tensor& t, double mean, double std, double low, double high, Generator& generator) {
  check_floating("trunc_normal_", t);
  if (!(std > 0)) throw ValueError("trunc_normal_", fmt::format("the standard deviation must be above 0, not {}", std));
  if (!(low < high)) throw ValueError("trunc_normal_", fmt::format("the range [{}, {}] is empty", low, high));
  const auto cdf = [&](double x) { return 0.5 * std::erfc(-(x - mean) / std / std::numbers::sqrt2); };
  const double from = cdf(low), to = cdf(high);
  Tensor values = rand(t.shape(), {.dtype = f64}, generator);
  double* v = values.data<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    v[i] = std::clamp(mean + std * normal_quantile(from + (to - from) * v[i]), low, high);
  return assign(t, values);
}

Tensor& kaiming_uniform_(Tensor& t, KaimingOptions options, Generator& generator) {
  const double bound = calculate_gain(options.nonlinearity, options.a) * std::sqrt(3 / fan(t, options.mode));
  return uniform_(t, -bound, bound, generator);
}

Tensor& kaiming_normal_(Tensor& t, KaimingOptions options, Generator& generator) {
  return normal_(t, 0, calculate_gain(options.nonlinearity, options.a) / std::sqrt(fan(t, options.mode)), generator);
}

Tensor& xavier_uniform_(Tensor& t, double gain, Generator& generator) {
  const auto [in, out] = fans(t);
  const double bound = gain * std::sqrt(6 / static_cast<double>(in + out));
  return uniform_(t, -bound, bound, generator);
}

Tensor& xavier_normal_(Tensor& t, double gain, Generator& generator) {
  const auto [in, out] = fans(t);
  return normal_(t, 0, gain * std::sqrt(2 / static_cast<double>(in + out)), generator);
}

Tensor& orthogonal_(Tensor& t, double gain, Generator& generator) {
  check_floating("orthogonal_", t);
  if (t.dim() < 2) throw ShapeError("orthogonal_", "needs two dimensions or more", {{"tensor", t}});
  if (t.numel() == 0) return t;
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const std::int64_t rows = t.size(0), columns = t.numel() / rows;
  Tensor values = randn(t.shape(), {.dtype = f64}, generator);
  Eigen::Map<Matrix> m(values.data<double>(), rows, columns);
  const Matrix tall = rows < columns ? Matrix(m.transpose()) : Matrix(m);
  const Eigen::HouseholderQR<Matrix> qr(tall);
  Matrix q = qr.householderQ() * Matrix::Identity(tall.rows(), tall.cols());
  // With the signs of R's diagonal the result is uniform among orthogonal matrices (Mezzadri, 2007).
  for (Eigen::Index c = 0; c < q.cols(); ++c)
    if (qr.matrixQR()(c, c) < 0) q.col(c) *= -1;
  if (rows < columns)
    m = gain * q.transpose();
  else
    m = gain * q;
  return assign(t, values);
}

Tensor& dirac_(Tensor& t, std::int64_t groups) {
  check_floating("dirac_", t);
  if (t.dim() < 3 || t.dim() > 4)
    throw ShapeError("dirac_", "needs a convolution weight of three or four dimensions", {{"tensor", t}});
  if (groups < 1 || t.size(0) % groups != 0)
    throw ValueError("dirac_", fmt::format("groups = {} does not divide the {} output channels", groups, t.size(0)),
                     {{"tensor", t}});
  const std::int64_t out = t.size(0) / groups, in = t.size(1);
  Tensor values = zeros(t.shape());
  std::int64_t kernel = 1, middle = 0;
  for (int d = 2; d < t.dim(); ++d) {
    kernel *= t.size(d);
    middle = middle * t.size(d) + t.size(d) / 2;
  }
  for (std::int64_t g = 0; g < groups && kernel > 0; ++g)
    for (std::int64_t c = 0; c < std::min(out, in); ++c) values.data<float>()[((g * out + c) * in + c) * kernel + middle] = 1;
  return assign(t, values);
}

void default_weight_and_bias_(Tensor& weight, Tensor& bias, Generator& generator) {
  // kaiming_uniform_ with a = sqrt(5), which is this bound. A weight without inputs is empty.
  const double fan_in = static_cast<double>(fans(weight).fan_in), bound = fan_in > 0 ? 1 / std::sqrt(fan_in) : 0;
  uniform_(weight, -bound, bound, generator);
  if (bias.defined()) uniform_(bias, -bound, bound, generator);
}

}  // namespace spool::init
