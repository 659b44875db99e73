// Running the rows of the op table and comparing what comes out; what the tests that go through the whole table share.
#pragma once
#include "op_case.h"

namespace spool::test {

// All rows there are.
const OpTable& table();

std::string title(const OpCase& c);

// Fresh leaves: the case's inputs after `change`, floating ones asking for gradients.
template <class F>
Tensors leaves(const OpCase& c, F change) {
  Tensors inputs = c.inputs();
  for (Tensor& t : inputs) {
    if (!t.defined()) continue;
    t = change(t).detach();
    if (is_floating(t.dtype()) && c.differentiable) t.set_requires_grad();
  }
  return inputs;
}

struct Outcome {
  Tensors outputs, gradients;
};

// Results and gradients, for the cotangent drawn from a fixed seed.
Outcome run(const OpCase& c, const Tensors& inputs);

// Largest difference relative to the largest finite value; infinities and NaN must agree place by place.
double relative_error(const Tensor& got, const Tensor& want);
void compare(const Outcome& got, const Outcome& want, double tolerance);

// Changes for `leaves`: none; the same elements, last dimension outermost in memory; a window of a tensor three times as large.
Tensor same(const Tensor& t);
Tensor reversed(const Tensor& t);
Tensor window(const Tensor& t);

}  // namespace spool::test
