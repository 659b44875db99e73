// Tutorial 02: the tape, by hand and by machine. README.md quotes this file.
#include <spool/spool.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <utility>
#include <vector>

namespace by_hand {

// [by_hand]
// loss = (tanh(w * x + b) - t)^2
double loss(double w, double b, double x, double t) {
  const double u = w * x + b;
  const double y = std::tanh(u);
  const double d = y - t;
  return d * d;
}

// The same lines, backwards. dw is short for d loss / d w.
std::pair<double, double> gradient(double w, double b, double x, double t) {
  const double u = w * x + b;
  const double y = std::tanh(u);
  const double d = y - t;
  const double dd = 2 * d;
  const double dy = dd * 1;
  const double du = dy * (1 - y * y);
  const double dw = du * x;
  const double db = du * 1;
  return {dw, db};
}
// [/by_hand]

}  // namespace by_hand

namespace small {

// [small_tape]
struct Line {
  double value;
  std::vector<std::pair<int, double>> inputs;  // which line, and how fast this one grows with it
  double grad = 0;
};
std::vector<Line> tape;

struct Number {
  int line;
};
Number write(Line line) {
  tape.push_back(std::move(line));
  return {static_cast<int>(tape.size()) - 1};
}
double value(Number a) { return tape[a.line].value; }
double grad(Number a) { return tape[a.line].grad; }

Number number(double v) { return write({v, {}}); }
Number operator+(Number a, Number b) { return write({value(a) + value(b), {{a.line, 1.0}, {b.line, 1.0}}}); }
Number operator-(Number a, Number b) { return write({value(a) - value(b), {{a.line, 1.0}, {b.line, -1.0}}}); }
Number operator*(Number a, Number b) { return write({value(a) * value(b), {{a.line, value(b)}, {b.line, value(a)}}}); }
Number tanh(Number a) {
  const double y = std::tanh(value(a));
  return write({y, {{a.line, 1 - y * y}}});
}

void backward(Number output) {
  tape[output.line].grad = 1;
  for (int i = output.line; i >= 0; --i)
    for (const auto& [input, slope] : tape[i].inputs) tape[input].grad += slope * tape[i].grad;
}
// [/small_tape]

void show() {
  // [small_use]
  const Number w = number(0.5), b = number(-0.3), x = number(2), t = number(1);
  const Number d = tanh(w * x + b) - t;
  const Number loss = d * d;
  backward(loss);
  std::printf("small tape: dw %.6f  db %.6f, %zu lines\n", grad(w), grad(b), tape.size());
  // [/small_use]
}

void learn() {
  // [small_learn]
  double w = -0.5, b = 0;
  for (int step = 0; step <= 40; ++step) {
    tape.clear();
    const Number nw = number(w), nb = number(b);
    Number loss = number(0);
    for (const auto& [input, target] : {std::pair(2.0, 0.5), std::pair(-1.0, -0.8)}) {
      const Number d = tanh(nw * number(input) + nb) - number(target);
      loss = loss + d * d;
    }
    backward(loss);
    w -= 0.2 * grad(nw);
    b -= 0.2 * grad(nb);
    if (step % 20 == 0) std::printf("step %2d  loss %.4f\n", step, value(loss));
  }
  // [/small_learn]
}

}  // namespace small

using namespace spool;

// [own_engine]
// What backward() does, without its checks: the gradient of every leaf, by name.
std::map<std::string, Tensor> gradients(const Tensor& loss) {
  std::map<std::string, Tensor> leaves;
  std::map<std::uint64_t, std::pair<Node*, Tensor>> waiting;  // by creation: the node, and the gradient of its output so far
  waiting[loss.grad_fn()->seq] = {loss.grad_fn().get(), ones_like(loss)};
  const NoGrad guard;  // the arithmetic below is not to be recorded
  while (!waiting.empty()) {
    const auto newest = std::prev(waiting.end());
    const auto [node, grad_out] = newest->second;
    waiting.erase(newest);
    std::vector<Tensor> grad_in(node->inputs.size());
    node->backward({&grad_out, 1}, grad_in);
    for (std::size_t i = 0; i < grad_in.size(); ++i) {
      const Edge& edge = node->inputs[i];
      if (!grad_in[i].defined() || !edge.needed()) continue;
      if (edge.node) waiting[edge.node->seq].first = edge.node.get();
      Tensor& sum = edge.node ? waiting[edge.node->seq].second : leaves[edge.leaf.name()];
      const Tensor g = sum_to(grad_in[i], edge.node ? edge.node->outputs[edge.output_nr].shape : edge.leaf.shape());
      sum = sum.defined() ? sum + g : g;
    }
  }
  return leaves;
}
// [/own_engine]

int main() {
  set_num_threads(1);
  // [by_hand_use]
  const auto [dw, db] = by_hand::gradient(0.5, -0.3, 2, 1);
  std::printf("by hand:    dw %.6f  db %.6f\n", dw, db);
  const double h = 1e-6;
  const double slope = (by_hand::loss(0.5 + h, -0.3, 2, 1) - by_hand::loss(0.5 - h, -0.3, 2, 1)) / (2 * h);
  std::printf("measured:   dw %.6f\n", slope);
  // [/by_hand_use]
  small::show();
  small::learn();

  {
    // [tensors]
    Tensor w = scalar_tensor(0.5, {.dtype = f64, .requires_grad = true});
    Tensor b = scalar_tensor(-0.3, {.dtype = f64, .requires_grad = true});
    w.set_name("w");
    b.set_name("b");
    const Tensor y = tanh(w * 2 + b);
    const Tensor loss = square(y - 1);
    print_tape(std::cout, loss);
    loss.backward();
    std::printf("Tensor:     dw %.6f  db %.6f\n", w.grad().item<double>(), b.grad().item<double>());
    // [/tensors]
  }
  {
    // [walk]
    Tensor x = tensor({1, 2}).set_requires_grad();
    const Tensor y = exp(x) * x;
    const Node& mul = *y.grad_fn();
    std::cout << mul.op << " has " << mul.inputs.size() << " inputs: ";
    std::cout << "the first from " << mul.inputs[0].node->op;
    std::cout << ", the second from a leaf: " << std::boolalpha << mul.inputs[1].leaf.is_same(x) << "\n";
    for (const Saved* s : mul.saved) std::cout << mul.op << " saved " << s->name() << " = " << s->peek().detach() << "\n";
    // [/walk]
    // [vjp]
    const Tensor grad_out = ones({2});
    std::vector<Tensor> grad_in(2);
    NoGrad guard;
    y.grad_fn()->backward({&grad_out, 1}, grad_in);
    std::cout << "to exp(x): " << grad_in[0] << "\nto x:      " << grad_in[1] << "\n";
    // [/vjp]
  }
  {
    // [network]
    manual_seed(0);
    Sequential net;
    net.add<Linear>("hidden", {.in_features = 2, .out_features = 4});
    net.add<Tanh>("tanh");
    net.add<Linear>("out", {.in_features = 4, .out_features = 1});
    const Tensor x = randn({8, 2});
    const Tensor loss = square(net(x) - x.narrow(1, 0, 1) * x.narrow(1, 1, 1)).mean();
    print_tape(std::cout, loss);
    const auto ours = gradients(loss);
    loss.backward();
    for (const auto& [name, p] : net.named_parameters())
      std::cout << name << " " << to_string(p.shape()) << ": equal to the bit " << equal(ours.at(name), p.grad()) << "\n";
    // [/network]
    // [freed]
    try {
      loss.backward();
    } catch (const GradError& e) {
      std::cout << e.what() << "\n";
    }
    // [/freed]
  }
  {
    // [not_recorded]
    Tensor w = tensor({3}).set_requires_grad();
    std::cout << "w * 2 has a node: " << static_cast<bool>((w * 2).grad_fn()) << "\n";
    std::cout << "after detach():   " << static_cast<bool>((w.detach() * 2).grad_fn()) << "\n";
    {
      NoGrad guard;
      std::cout << "under NoGrad:     " << static_cast<bool>((w * 2).grad_fn()) << "\n";
    }
    // [/not_recorded]
    // [overwritten]
    const Tensor y = square(w);
    {
      NoGrad guard;
      w.add_(1);  // square has saved w to compute 2 w later
    }
    try {
      y.backward();
    } catch (const GradError& e) {
      std::cout << e.what() << "\n";
    }
    // [/overwritten]
  }
}
