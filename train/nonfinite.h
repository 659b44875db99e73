// Finding out where infinities and NaNs came from.
#pragma once
#include <span>
#include <string>

#include "spool/autograd/anomaly.h"
#include "spool/core/errors.h"
#include "spool/data/dataset.h"
#include "spool/train/evaluate.h"

namespace spool {

// A loss or gradient that is infinite or NaN. The text tells what is known; these are its parts.
struct NonFiniteError : Error {
  NonFiniteError(const std::string& detail, std::string operation, std::string at_layer, bool in_backward)
      : Error("Trainer", detail), first_op(std::move(operation)), first_layer(std::move(at_layer)), backward(in_backward) {}
  std::string first_op;     // where the first one appeared: "log"; empty when it was in the data or the parameters
  std::string first_layer;  // "block1.fc"; empty outside of any layer
  bool backward;            // it appeared in that operation's backward
};

// The model's buffers and the position of the default generator, to go back to: what a forward pass changes.
class ForwardState {
 public:
  explicit ForwardState(const Module& model);
  // On a device that has an error to report, the buffers that were saved before the error stay; the host does not wait.
  void save();
  // How many calls of save() found no error. Waits.
  std::int64_t saves() const;
  void restore() const;

 private:
  std::vector<Tensor> buffers_, copies_;
  std::vector<Tensor> on_device_, device_copies_;  // those that the device copies by itself
  Tensor saves_;                                   // where there are such
  std::int64_t host_saves_ = 0;
  std::uint64_t seed_ = 0, position_ = 0;
};

struct NonFiniteOrigin {
  std::string text;  // "  in the output of log, layer fc1   Linear(3, 2)"; says so when nothing was found
  std::string op, layer;
  bool backward = false;
};
// Runs forward and backward again, on batches in turn, and watches every operation until the first value that is not finite. The parameters' gradients are left
// as they were; call it with the state of buffers and generator from before the batches.
NonFiniteOrigin find_nonfinite(Module& model, const LossFunction& loss, std::span<const Batch> batches);

namespace detail {
// Has a device report a loss that is not finite, when the host next waits.
void report_nonfinite(const Tensor& loss);
}  // namespace detail

}  // namespace spool
