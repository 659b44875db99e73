// What a model consists of: layers, the shapes they give, parameters, arithmetic, memory, and time.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "spool/train/evaluate.h"

namespace spool {

struct LayerSummary {
  std::string name;  // the layer's path, or the operation where it belongs to no layer of its own
  std::string what;  // "Conv2d(3, 32, kernel_size=(3, 3), ...)"
  Shape output;
  std::int64_t parameters = 0;
  double flops = 0;             // of the forward pass: a multiplication and an addition are two; other operations one an element
  std::size_t saved_bytes = 0;  // what it keeps for backward, that no layer before it does
};

struct ModelSummary {
  std::string model;  // its type
  Shape input;
  std::vector<LayerSummary> layers = {};  // in the order in which they ran
  std::int64_t parameters = 0, trainable = 0;
  double flops = 0;
  std::size_t parameter_bytes = 0, buffer_bytes = 0, saved_bytes = 0;
};

// Runs the model once on `input` in the mode that it is in, and leaves buffers and the default generator as they were. Only what depends on floating-point
// inputs or parameters is seen. `std::cout << summary(model, zeros({1, 3, 32, 32}));`
ModelSummary summary(Module& model, const Tensor& input);
std::string to_string(const ModelSummary& summary);
std::ostream& operator<<(std::ostream& out, const ModelSummary& summary);

struct LayerTime {
  std::string name, what;
  double forward = 0, backward = 0;  // seconds
};
// Runs forward, loss and backward on a batch, `repeats` times after a first one that does not count, and gives the medians. Parameters' gradients, buffers and the
// default generator are left as they were. CPU only: operations on a GPU have not ended when they return; throws DeviceError there.
std::vector<LayerTime> time_layers(Module& model, const LossFunction& loss, const Batch& batch, int repeats = 5);

}  // namespace spool
