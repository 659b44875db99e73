// Normalisation layers.
#pragma once
#include <optional>

#include "spool/autograd/ops.h"
#include "spool/layers/module.h"

namespace spool {

struct BatchNormBase : Module {
  struct Options {
    std::int64_t num_features = 0;  // required: the number of channels
    double eps = 1e-5;
    std::optional<double> momentum =
        0.1;             // running = (1 - momentum) running + momentum batch; nullopt: the plain average of all batches
    bool affine = true;  // learn a scale (from 1) per channel ...
    bool bias = true;    // ... and a shift (from 0)
    bool track_running_stats = true;  // else the batch's statistics are used in eval mode too
  };
  Tensor forward(const Tensor& x) override;
  // relu((*this)(x)) and relu((*this)(x) + residual) in one operation, which passes over memory half as often and holds less of it for backward().
  Tensor relu(const Tensor& x);
  Tensor add_relu(const Tensor& x, const Tensor& residual);
  void reset_running_stats();
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor &weight, &bias;               // [num_features]; undefined where not affine
  Tensor &running_mean, &running_var;  // [num_features], buffers; undefined where not tracked
  Tensor& num_batches_tracked;         // i64, a buffer; undefined where not tracked

 protected:
  BatchNormBase(const char* type, Options options);
  virtual void check_input(const Tensor& x) const = 0;
  // operation(options) as this layer, with its mode's options; counts the batch.
  template <class F>
  Tensor run(const Tensor& x, const F& operation);
};

// x [N, C] or [N, C, L]. In training a channel needs more than one value.
struct BatchNorm1d : BatchNormBase {
  explicit BatchNorm1d(Options given) : BatchNormBase("BatchNorm1d", given) {}

 protected:
  void check_input(const Tensor& x) const override;
};
// x [N, C, H, W]
struct BatchNorm2d : BatchNormBase {
  explicit BatchNorm2d(Options given) : BatchNormBase("BatchNorm2d", given) {}
  // max_pool2d(relu((*this)(x)), pool) in one operation, likewise.
  Tensor relu_max_pool2d(const Tensor& x, const MaxPool2dOptions& pool);

 protected:
  void check_input(const Tensor& x) const override;
};

// Over the last dimensions, each sample by itself.
struct LayerNorm : Module {
  struct Options {
    Shape normalized_shape = {};  // required: {64} or {8, 8}
    double eps = 1e-5;
    bool elementwise_affine = true;
    bool bias = true;
  };
  explicit LayerNorm(Options options);
  Tensor forward(const Tensor& x) override;
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor &weight, &bias;  // of normalized_shape; undefined where not asked for
};

// x [N, C, ...]: over groups of channels, each sample by itself.
struct GroupNorm : Module {
  struct Options {
    std::int64_t num_groups = 0;    // required; divides num_channels
    std::int64_t num_channels = 0;  // required
    double eps = 1e-5;
    bool affine = true;
    bool bias = true;
  };
  explicit GroupNorm(Options options);
  Tensor forward(const Tensor& x) override;
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor &weight, &bias;  // [num_channels]; undefined where not affine
};

}  // namespace spool
