// The tape as one HTML page that needs nothing else, no network and no script.
//
//   std::vector<BackwardStep> steps;
//   Stepper stepper(loss, {}, {.retain_graph = true});
//   while (stepper.step()) steps.push_back(stepper.last());
//   std::ofstream("tape.html") << tape_html(loss, steps);
#pragma once
#include <span>
#include <string>

#include "spool/autograd/stepper.h"

namespace spool {

// Every node in the order in which backward() runs, with operation, shapes, bytes held and layer; a click on one shows its formulas, what it saved, where
// its gradients go, and their norms: those of `steps`, which a Stepper over this tape gave, and of the leaves' grad(). What is saved can be seen only
// before backward() frees it, or after one that retains the graph. Throws GradError when there is no tape, and ValueError for a step of another one.
std::string tape_html(const Tensor& output, std::span<const BackwardStep> steps = {});

}  // namespace spool
