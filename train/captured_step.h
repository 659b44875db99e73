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
// The first steps run as they are written; then, for each shape of the inputs, one is captured. Learning rates that schedules set, step numbers, and the random numbers of
// dropout go on as without capture. What the host does besides (printing, counting in C++) happens only when a step is captured. Where a step cannot be captured (on the CPU, or
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
  using Step = std::function<Tensor(const Tensor& inputs, const Tensor& targets)>;
  // `step` zeroes the gradients, runs the model, backward() and one step() of `optimizer`, and draws random numbers from `generator` alone. Both must outlive this object.
  CapturedStep(Step step, Optimizer& optimizer, Generator& generator = default_generator());
  ~CapturedStep();
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  // One step; returns what `step` returned. Of a captured step it is one tensor that the next call with inputs of this shape overwrites, as it does the gradients.
  Tensor operator()(const Tensor& inputs, const Tensor& targets);

  // Whether the last call launched a graph, and how many nodes it had.
  bool captured() const { return captured_; }
  std::size_t nodes() const;
  // Why steps are not captured, naming the operation; empty where they are, or none was tried yet.
  const std::string& reason() const { return reason_; }

 private:
  struct Shaped;  // what there is for one shape of the inputs
  Tensor capture(Shaped& s, const Tensor& inputs, const Tensor& targets);
  Tensor replay(Shaped& s, const Tensor& inputs, const Tensor& targets);

  Step step_;
  Optimizer& optimizer_;
  Generator& generator_;
  std::vector<std::unique_ptr<Shaped>> shapes_;
  Shaped* last_ = nullptr;
  bool captured_ = false;
  std::string reason_;
};

}  // namespace spool
