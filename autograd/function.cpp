#include "spool/autograd/function.h"

#include <fmt/format.h>

#include <cstring>

#include "spool/core/errors.h"

namespace spool {

void FunctionContext::save(const char* name, const Tensor& tensor) { node_->kept.emplace_back(node_, name).save(tensor); }

void FunctionContext::save_output(const char* name) { node_->output_name = name; }

Tensor FunctionContext::saved(const char* name) const {
  for (const Saved& s : node_->kept)
    if (!std::strcmp(s.name(), name)) return s.get();
  throw ValueError(node_->op, fmt::format("forward() saved nothing under the name '{}'", name));
}

bool FunctionContext::needs_grad(std::size_t input) const { return input < node_->inputs.size() && node_->needs(input); }

void FunctionNode::check_count(std::size_t returned) const {
  if (returned != inputs.size())
    throw GradError(
        op,
        fmt::format("backward() returned {} gradients for {} tensor arguments of forward(): return one each, undefined for zero",
                    returned, inputs.size()));
}

void detail::finish_function(FunctionNode& node, const Tensor& output) {
  if (node.output_name) node.kept.emplace_back(&node, node.output_name).save_output(output);
}

}  // namespace spool
