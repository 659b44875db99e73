// The indented tree of a module, as PyTorch prints it, with a column for the number of parameters.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "spool/layers/module.h"

namespace spool {
namespace {

struct Line {
  std::string text;
  std::int64_t parameters;  // -1: none to show
};

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

void add_lines(const Module& module, const std::string& before, const std::string& indent, std::vector<Line>& lines) {
  const auto children = module.named_children();
  if (children.empty()) {
    const std::int64_t n = module.num_parameters();
    lines.push_back({before + module.describe(), n ? n : -1});
    return;
  }
  lines.push_back({before + module.type_name() + '(', -1});
  const std::size_t header = lines.size() - 1;
  std::int64_t below = 0;
  for (const NamedModule& child : children) {
    add_lines(*child.module, fmt::format("{}  ({}): ", indent, child.name), indent + "  ", lines);
    below += child.module->num_parameters();
  }
  if (const std::int64_t own = module.num_parameters() - below; own > 0) lines[header].parameters = own;
  lines.push_back({indent + ')', -1});
}

}  // namespace

std::string to_string(const Module& module) {
  std::vector<Line> lines;
  add_lines(module, "", "", lines);
  std::size_t width = 0, count_width = 0;
  for (const Line& line : lines)
    if (line.parameters >= 0) {
      width = std::max(width, line.text.size());
      count_width = std::max(count_width, grouped(line.parameters).size());
    }
  std::string text;
  for (const Line& line : lines)
    text += line.parameters < 0 ? line.text + '\n'
                                : fmt::format("{:<{}}  {:>{}}\n", line.text, width, grouped(line.parameters), count_width);
  return text + fmt::format("{} parameters", grouped(module.num_parameters()));
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << to_string(module); }

}  // namespace spool
