#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "spool/autograd/autograd.h"
#include "spool/autograd/node.h"
#include "spool/autograd/tape.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

std::string quoted(const std::string& text) {
  std::string q = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') q += '\\';
    if (c == '\n')
      q += "\\n";
    else
      q += c;
  }
  return q + '"';
}

// A layer: its own nodes, and the layers in it.
struct Cluster {
  std::vector<const Node*> nodes;
  std::map<std::string, Cluster> parts;
};

void write(std::string& text, const Tape& tape, const Cluster& cluster, const std::string& path, const std::string& indent) {
  for (const Node* n : cluster.nodes) {
    std::string label = fmt::format("#{} {}", tape.number(n), n->op);
    for (const Meta& m : n->outputs) label += "\n" + to_string(m.shape);
    if (const std::size_t held = bytes_held(*n)) label += "\nholds " + bytes_text(held);
    text += fmt::format("{}n{} [label={}];\n", indent, tape.number(n), quoted(label));
  }
  for (const auto& [name, part] : cluster.parts) {
    const std::string below = path.empty() ? name : path + "." + name;
    text += fmt::format("{}subgraph {} {{\n{}  label={};\n", indent, quoted("cluster " + below), indent, quoted(below));
    write(text, tape, part, below, indent + "  ");
    text += indent + "}\n";
  }
}

}  // namespace

std::string tape_dot(const Tensor& output) {
  const Tape tape = Tape::of("tape_dot", output);
  Cluster all;
  for (const Node* n : tape.nodes()) {
    Cluster* at = &all;
    const std::string path = n->scope ? n->scope->path : "";
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      at = &at->parts[path.substr(begin, end - begin)];
      begin = end + 1;
    }
    at->nodes.push_back(n);
  }
  std::string text = fmt::format("digraph tape {{\n  label={};\n  labelloc=t;\n", quoted(tape.summary()));
  write(text, tape, all, "", "  ");
  std::unordered_map<const TensorImpl*, std::size_t> leaves;
  std::string arrows;
  for (const Node* n : tape.nodes())
    for (const Edge& e : n->inputs) {
      if (!e.needed()) continue;
      if (e.node) {
        const std::string label = e.node->outputs.size() > 1 ? fmt::format(" [label={}]", quoted(tape.name(e))) : "";
        arrows += fmt::format("  n{} -> n{}{};\n", tape.number(e.node.get()), tape.number(n), label);
        continue;
      }
      const auto [at, is_new] = leaves.try_emplace(e.leaf.impl().get(), leaves.size() + 1);
      if (is_new) {
        const std::string shape =
            e.leaf.name().empty() ? "" : "\n" + to_string(e.leaf.shape());  // without a name, the shape is its name
        text += fmt::format("  leaf{} [shape=box, label={}];\n", at->second, quoted(tape.name(e) + shape));
      }
      arrows += fmt::format("  leaf{} -> n{};\n", at->second, tape.number(n));
    }
  return text + arrows + "}\n";
}

}  // namespace spool
