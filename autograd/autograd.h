// Computing gradients: backward(), grad(), checking them, and printing the tape.
#pragma once
#include <iosfwd>
#include <span>

#include "spool/autograd/grad_mode.h"
#include "spool/core/tensor.h"

namespace spool {

// Adds the gradient of `outputs` (weighted by `grad_outputs`; an undefined one means 1 for a tensor of one element) to the grad() of every leaf
// they depend on. Throws GradError when an output has no graph, was freed, or needs a gradient it was not given; ShapeError, DTypeError or
// DeviceError when a given one does not fit. When it throws half way, some leaves may have been added to and others not; the
// graph, the grad mode and the next call are unaffected.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs = {}, BackwardOptions options = {});

struct GradOptions {
  bool create_graph = false;  // the results are themselves recorded, and can be differentiated again
  bool retain_graph = false;  // keep the saved tensors (create_graph does so anyway)
  bool allow_unused = false;  // an input that the outputs do not depend on gives an undefined gradient, not an error
};

// The gradients of `outputs` with respect to `inputs` (leaves or not), without touching any grad().
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, GradOptions options = {},
                         std::span<const Tensor> grad_outputs = {});
// The same for one output and one input.
Tensor grad(const Tensor& output, const Tensor& input, GradOptions options = {});

struct GradcheckOptions {
  double eps = 1e-6;  // step of the central difference
  double atol = 1e-5;
  double rtol = 1e-3;
  bool second_order = false;  // check the gradient's gradient as well
  std::uint64_t seed = 0;     // of the random cotangent
};

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Compares the gradients of `f` at `inputs` with central differences, with a random cotangent (a constant one cannot see errors that cancel in a
// sum). Inputs must be f64; those that require a gradient are checked. Throws GradError naming the input, the element and both values.
void gradcheck(const TensorFunction& f, std::vector<Tensor> inputs, GradcheckOptions options = {});

// Prints the tape behind `output`, in the order in which backward would run it: a line a node with its number, shape, where its inputs
// came from, what it saved and for which layer, then the bytes held in all.
//   #41 conv2d [64, 32, 16, 16] <- #38, conv2.weight, conv2.bias   saves input 8.0 MiB   (conv2)
void print_tape(std::ostream& out, const Tensor& output);
std::string tape_to_string(const Tensor& output);

// The same as a graph in Graphviz's DOT language, to be drawn by `dot -Tsvg`: data flow downwards, from leaves (boxes) to `output`; a node has its
// number, operation, shape and the bytes that it holds; a layer is a cluster around its nodes and the layers in it. Throws GradError when there is no tape.
std::string tape_dot(const Tensor& output);

}  // namespace spool
