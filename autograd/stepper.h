// Stepper: backward() a node at a time, to see what a gradient is made of.
//
//   Stepper stepper(loss);
//   while (stepper.step()) stepper.print(std::cout);
// or, of all steps, those of a layer (an operation, a parameter):
//   while (stepper.run_until("conv2")) stepper.print(std::cout);
// or a look before it happens:
//   while (stepper.run_before("conv2.weight")) stepper.print_next(std::cout);
#pragma once
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "spool/autograd/autograd.h"
#include "spool/core/tensor.h"

namespace spool {

// What one node did, or is about to do. Gradients are copies.
struct BackwardStep {
  struct Saved {
    std::string name;  // "input"
    Shape shape;
    DType dtype;
    std::size_t bytes;  // of its elements
  };
  struct Sent {
    std::string to;    // as print_tape names it: "#6", "conv2.weight"
    Tensor grad;       // as the operation returned it; has the input's shape, or the one that the operation broadcast it to
    bool accumulated;  // added to a leaf's grad(); false where it waits for a node, or for the leaf's hooks
  };
  std::size_t number = 0;         // as print_tape counts
  std::string op;                 // "conv2d"
  std::string layer;              // "conv2", or empty
  std::vector<Tensor> grads_out;  // what came in: the gradient of each output, after hooks; undefined where none arrived
  std::vector<Saved> saved;       // what was there to compute with
  std::vector<Sent> sent;         // what went out, an entry an input that got a gradient
  std::size_t bytes_freed = 0;    // given back by letting go of what was saved; what somebody else holds too, as weights, is not
};

// Leaves what loss.backward(grad, options) leaves, bit for bit, once step() has returned false; abandoned before, leaves that were not reached have
// got nothing. Between steps anything may run that does not change the graph. Throws what backward() throws.
class Stepper {
 public:
  explicit Stepper(const Tensor& loss, const Tensor& grad = {}, BackwardOptions options = {});
  ~Stepper();

  // Runs the next node; false, when none was left. Throws GradError when an earlier step has thrown.
  bool step();
  // Runs nodes until one has run that is of this operation ("conv2d"), in this layer or one below it ("block1"), or gives a gradient to the leaf of
  // this name ("conv1.weight"); false, when the end came first. Throws ValueError when the tape has no such node.
  bool run_until(const std::string& name);
  // The same, but stops before that node has run: a breakpoint. next() shows what has arrived for it, and no leaf has got anything from it yet. Called
  // where it has stopped, it goes on to the next such node.
  bool run_before(const std::string& name);
  // What the next step() will run: without what goes out and is freed. Throws GradError when no node is left, or an earlier step has thrown.
  const BackwardStep& next();
  // The step that ran last. Throws GradError when there is none: before the first step and after the end.
  const BackwardStep& last() const;
  // Prints last(), with the norm of each gradient and the formula of the derivative (autograd/explain.h).
  void print(std::ostream& out) const;
  // Prints next() in the same way, as far as it is known.
  void print_next(std::ostream& out);

 private:
  bool arrive();
  void check_name(const std::string& name) const;
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace spool
