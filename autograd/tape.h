// How the tape is shown: the order of its nodes and the names of what they send gradients to. Not for users.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "spool/autograd/node.h"

namespace spool {

// Every node behind `output`, newest first: the order in which backward() runs. Valid while the output's graph lives.
class Tape {
 public:
  explicit Tape(const Tensor& output);
  // Throws GradError, in the name of `caller`, when there is none.
  static Tape of(const char* caller, const Tensor& output);
  std::span<Node* const> nodes() const noexcept { return nodes_; }
  // Counts from the oldest node of this tape, so that the same program prints the same tape.
  std::size_t number(const Node* n) const;
  // "#3", "#3.1" for one of several outputs, "conv1.weight", or "leaf [2, 3]" for one without a name.
  std::string name(const Edge& e) const;
  // Bytes that all nodes hold for backward; what several hold counts once.
  std::size_t bytes_held() const;
  std::string summary() const;  // "5 nodes, 480 B held for backward"

 private:
  std::vector<Node*> nodes_;
};

std::size_t bytes_held(const Node& n);       // elements of what it saved
std::string bytes_text(std::size_t bytes);   // "8.0 MiB"
std::size_t bytes_of(const Tensor& t);       // of its elements
std::string gradient_text(const Tensor& g);  // "[2, 3] norm 1.5", or "none"

}  // namespace spool
