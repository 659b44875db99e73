// What the operations on the tape compute, and what their derivatives do with what was saved.
//
//   std::cout << explain("conv2d");
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace spool {

// Formulas of one operation, as the tape names it: y is its output, x (or a and b) its input, g the gradient of the loss with respect to y, gx that with
// respect to x. Where the operation broadcasts, gradients are summed to the shape of the input.
struct Explanation {
  const char* op;        // "mul"
  const char* forward;   // "y = a * b"
  const char* backward;  // "ga = g * b, gb = g * a"
  const char* saved;     // "a, because gb reads it; b, because ga does; ..."
};

// All of them.
std::span<const Explanation> explanations() noexcept;
// Null for what is not an operation of Spool: one of your own (autograd/function.h).
const Explanation* find_explanation(std::string_view op) noexcept;
// As text: a line with the name, one for each formula and one for what is saved. Throws ValueError, which lists the nearest names, when no operation of the tape has this name.
std::string explain(const std::string& op);

}  // namespace spool
