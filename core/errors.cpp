#include "spool/core/errors.h"

#include <fmt/format.h>

#include "spool/core/tensor.h"
#include "spool/core/thread_state.h"

namespace spool {

Operand::Operand(std::string_view n, const Tensor& tensor) : name(n), description(describe(tensor)) {}

namespace {
std::string format_error(const std::string& op, const std::string& detail, std::initializer_list<Operand> operands) {
  std::string text = op.empty() ? detail : fmt::format("{}: {}", op, detail);
  for (const Operand& o : operands) text += fmt::format("\n  {} {}", o.name, o.description);
  if (const LayerPath* layer = thread_state.layer) text += fmt::format("\n  layer {}   {}", layer->path, layer->description);
  return text;
}
}  // namespace

Error::Error(std::string op, std::string detail, std::initializer_list<Operand> operands)
    : std::runtime_error(format_error(op, detail, operands)),
      op_(std::move(op)),
      detail_(std::move(detail)),
      layer_(thread_state.layer ? thread_state.layer->path : std::string()),
      operands_(operands) {}

}  // namespace spool
