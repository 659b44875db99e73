// CapturedStep: a training step recorded once as a CUDA graph and then launched as one, without the host preparing each of its operations.
//
//   CapturedStep step([&](const Tensor& images, const Tensor& labels) {
//     adam.zero_grad();
//     Tensor loss = cross_entropy(model(images), labels);
//     loss.backward();
//     adam.step();
//     return loss;
//   }, adam);
//   for (auto [images, labels] : loader) total.add(step(images, labels), labels.numel());
//
// The first steps run as they are written; then, for each shape of the inputs, one is captured. Learning rates and momenta that schedules set, step numbers, and the random
// numbers of dropout go on as without capture. What the host does besides (printing, counting in C++) happens only when a step is captured. Where a step cannot be captured (on the CPU, or
// because it reads a number back) it runs as written, and reason() says why.
// While a step is captured no other thread may use the device.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "spool/autograd/creation.h"
#include "spool/core/generator.h"
#include "spool/core/tensor.h"
#include "spool/optim/optimizer.h"

namespace spool {

class CapturedStep {
 public:
  // What a step gives: its loss, or {loss, output} where what the model gave is wanted too, for metrics.
  struct Result {
    Result(Tensor of_loss, Tensor of_model = {}) : loss(std::move(of_loss)), output(std::move(of_model)) {}
    Tensor loss, output;
  };
  using Step = std::function<Result(const Tensor& inputs, const Tensor& targets)>;
  // `step` zeroes the gradients, runs the model, backward() and one step() of `optimizer`, and draws random numbers from `generator` alone. Both must outlive this object.
  CapturedStep(Step step, Optimizer& optimizer, Generator& generator = default_generator());
  ~CapturedStep();
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  // One step; returns its loss. Of a captured step it is one tensor that the next call with inputs of this shape overwrites, as it does the gradients.
  Tensor operator()(const Tensor& inputs, const Tensor& targets) { return run(inputs, targets).loss; }
  // ... and all that `step` returned, overwritten likewise.
  Result run(const Tensor& inputs, const Tensor& targets);

  // Whether the last call launched a graph, and how many nodes it had.
  bool captured() const { return captured_; }
  std::size_t nodes() const;
  // Why steps are not captured, naming the operation; empty where they are, or none was tried yet.
  const std::string& reason() const { return reason_; }

 private:
  struct Shaped;  // what there is for one shape of the inputs
  Result capture(Shaped& s, const Tensor& inputs, const Tensor& targets);
  Result replay(Shaped& s, const Tensor& inputs, const Tensor& targets);

  Step step_;
  Optimizer& optimizer_;
  Generator& generator_;
  std::vector<std::unique_ptr<Shaped>> shapes_;
  Shaped* last_ = nullptr;
  bool captured_ = false;
  std::string reason_;
};

}  // namespace spool
