// The mistakes that a Trainer looks for before and while it trains.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "spool/data/loader.h"
#include "spool/layers/module.h"
#include "spool/optim/optimizer.h"

namespace spool {

// What is looked for. Each can be switched off.
struct Guards {
  bool nonfinite = true;  // error: the loss or a gradient is infinite or NaN. The step is not taken
  bool softmax = true;    // error: the model ends in a softmax although cross_entropy, which applies one itself, is the loss
  bool batch_of_one =
      true;  // error, before anything is trained: the last batch will be one sample, and a batch norm cannot take it
  bool unused_parameters = true;   // warning: a parameter got no gradient, or the optimizer does not hold it
  bool validation_overlap = true;  // warning: examples of the validation data are in the training data
};

namespace detail {

// Throws ValueError where every row of `output` is a probability distribution.
void check_not_softmax(const Tensor& output);
// Throws ValueError when the loader ends an epoch with one sample that the model cannot train on. Runs the model on one example where that may be so; its buffers
// and the default generator are left as they were.
void check_last_batch(Module& model, DataLoader& loader);
// Sentences, none where all is well.
std::vector<std::string> untrained_parameters(const Module& model, const Optimizer& optimizer);
std::vector<std::string> parameters_without_gradient(const Module& model, const Optimizer& optimizer);
// Compares contents, for data sets in memory and parts of them, and positions, for parts of the same data set; others are not looked at.
std::optional<std::string> shared_examples(const Dataset& training, const Dataset& validation);

}  // namespace detail
}  // namespace spool
