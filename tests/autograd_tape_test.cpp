// The tape as a graph.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "../examples/cifar10/convnet.h"
#include "data_support.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("The tape as DOT has its nodes, leaves, arrows and layers") {
  struct Block : Module {
    Linear& inner = add<Linear>("inner", {.in_features = 2, .out_features = 2, .bias = false});
    Tensor forward(const Tensor& x) override { return inner(x).exp(); }
  };
  struct Net : Module {
    Block& block = add<Block>("block");
    Tensor forward(const Tensor& x) override { return block(x); }
  } net;
  Tensor x = ones({3, 2}).set_requires_grad();
  Tensor scale = tensor({2.f}).set_requires_grad();
  scale.set_name("a \"quoted\\ name");
  const Tensor y = net(x) * scale;
  const Tensor loss = (y * scale).sum();
  CHECK(tape_dot(loss) == R"(digraph tape {
  label="5 nodes, 92 B held for backward";
  labelloc=t;
  n5 [label="#5 sum\n[]"];
  n4 [label="#4 mul\n[3, 2]\nholds 28 B"];
  n3 [label="#3 mul\n[3, 2]\nholds 28 B"];
  subgraph "cluster block" {
    label="block";
    n2 [label="#2 exp\n[3, 2]\nholds 24 B"];
    subgraph "cluster block.inner" {
      label="block.inner";
      n1 [label="#1 linear\n[3, 2]\nholds 40 B"];
    }
  }
  leaf1 [shape=box, label="a \"quoted\\ name\n[1]"];
  leaf2 [shape=box, label="leaf [3, 2]"];
  leaf3 [shape=box, label="block.inner.weight\n[2, 2]"];
  n4 -> n5;
  n3 -> n4;
  leaf1 -> n4;
  n2 -> n3;
  leaf1 -> n3;
  n1 -> n2;
  leaf2 -> n1;
  leaf3 -> n1;
}
)");
  CHECK(contains(message_of<GradError>([&] { tape_dot(x); }), "no tape"));
}

TEST_CASE("The DOT of the ConvNet names what print_tape names, and Graphviz draws it where it is installed") {
  manual_seed(0);
  ConvNet model;
  const Tensor loss = cross_entropy(model(randn({2, 3, 32, 32})), randint(0, 10, {2}));
  const std::string dot = tape_dot(loss), tape = tape_to_string(loss);
  std::istringstream lines(tape);
  std::size_t nodes = 0;
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) {
    std::smatch found;
    if (!std::regex_match(line, found, std::regex(R"(#(\d+) (\w+) (\[[^\]]*\]).*)"))) continue;
    ++nodes;
    CHECK(contains(dot, "n" + found[1].str() + " [label=\"#" + found[1].str() + " " + found[2].str() + "\\n" + found[3].str()));
  }
  CHECK(nodes > 10);
  CHECK(contains(dot, "label=\"" + last + "\""));
  for (const NamedTensor& p : model.named_parameters()) CHECK(contains(dot, "[shape=box, label=\"" + p.name + "\\n"));
  if (std::system("dot -V > /dev/null 2>&1") != 0) {
    WARN("Graphviz is not installed, so that nothing was drawn");
    return;
  }
  const TempFolder dir;
  std::ofstream(dir / "tape.dot") << dot;
  REQUIRE(std::system(("dot -Tsvg -o " + (dir / "tape.svg").string() + " " + (dir / "tape.dot").string()).c_str()) == 0);
  std::ifstream svg(dir / "tape.svg");
  const std::string drawn((std::istreambuf_iterator<char>(svg)), {});
  for (std::size_t i = 1; i <= nodes; ++i) CHECK(contains(drawn, "<title>n" + std::to_string(i) + "</title>"));
  CHECK(contains(drawn, "conv1.weight"));
}
