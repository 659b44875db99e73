// backward() a node at a time.
#include "spool/autograd/stepper.h"

#include <sstream>

#include "../examples/cifar10/convnet.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

std::vector<std::vector<float>> gradients(ConvNet& model) {
  std::vector<std::vector<float>> all;
  for (const NamedTensor& p : model.named_parameters()) {
    all.push_back(p.tensor.grad().to_vector<float>());
    Tensor(p.tensor).set_grad({});
  }
  return all;
}

}  // namespace

TEST_CASE("Stepping through the ConvNet leaves the bits that backward() leaves, and frees what it held") {
  manual_seed(0);
  ConvNet model;
  const Tensor x = randn({4, 3, 32, 32}), labels = randint(0, 10, {4});
  cross_entropy(model(x), labels).backward();
  const auto want = gradients(model);
  const Tensor loss = cross_entropy(model(x), labels);
  std::istringstream tape(tape_to_string(loss));
  Stepper stepper(loss);
  std::size_t freed = 0, added = 0;
  std::string line;
  while (stepper.step()) {
    REQUIRE(std::getline(tape, line));  // the tape is printed in the order in which it runs
    const BackwardStep& s = stepper.last();
    CHECK(line.rfind("#" + std::to_string(s.number) + " " + s.op + " ", 0) == 0);
    if (!s.layer.empty()) CHECK(contains(line, "(" + s.layer + ")"));
    for (const auto& sent : s.sent) {
      CHECK(contains(line, sent.to));
      added += sent.accumulated;
    }
    freed += s.bytes_freed;
    CHECK(grad_enabled());
  }
  REQUIRE(std::getline(tape, line));
  CHECK(contains(line, "nodes, "));
  CHECK(gradients(model) == want);
  CHECK(added == want.size());
  CHECK(freed > 4 * 32 * 32 * 32 * sizeof(float));
  CHECK(contains(message_of<GradError>([&] { loss.backward(); }), "already freed"));
  CHECK_FALSE(stepper.step());
  CHECK_THROWS_AS(stepper.last(), GradError);
}

TEST_CASE("A step shows what came in, what was saved, what went out and what was freed") {
  Tensor a = tensor({3.f, 4.f}).set_requires_grad();
  const Tensor loss = square(a * 2).sum();
  Stepper stepper(loss);
  REQUIRE(stepper.run_until("square"));
  CHECK(stepper.last().grads_out.at(0).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(stepper.last().sent.at(0).grad.to_vector<float>() == std::vector<float>{12, 16});
  CHECK_FALSE(stepper.last().sent.at(0).accumulated);
  CHECK(stepper.last().bytes_freed > 0);
  std::ostringstream out;
  stepper.print(out);
  CHECK(contains(out.str(),
                 "#2 square\n  came in   [2] norm 1.414\n  saved     input [2] 8 B\n  formula   gx = g * 2 * x\n  went out  [2] "
                 "norm 20 to #1\n  freed "));
  CHECK_FALSE(a.grad().defined());
  REQUIRE(stepper.step());
  CHECK(stepper.last().sent.at(0).accumulated);
  CHECK(a.grad().to_vector<float>() == std::vector<float>{24, 32});
  CHECK_FALSE(stepper.step());
}

TEST_CASE("A stepper runs until an operation, a layer or a parameter, and names what there is") {
  manual_seed(0);
  ConvNet model;
  const Tensor loss = cross_entropy(model(randn({2, 3, 32, 32})), randint(0, 10, {2}));
  Stepper stepper(loss);
  REQUIRE(stepper.run_until("fc1.weight"));
  CHECK(model.fc1.weight.grad().defined());
  CHECK_FALSE(model.conv2.weight.grad().defined());
  REQUIRE(stepper.run_until("conv2"));
  CHECK(stepper.last().layer == "conv2");
  REQUIRE(stepper.run_until("conv2d"));
  CHECK(stepper.last().layer == "conv1");
  CHECK(contains(message_of<ValueError>([&] { stepper.run_until("conv3d"); }), "'conv3d'"));
  CHECK_FALSE(stepper.run_until("conv2d"));
  CHECK(model.conv1.bias.grad().defined());
}

TEST_CASE("A stepper keeps the graph where asked, calls hooks of leaves at the end, and stops for good where a step throws") {
  Tensor a = tensor({3.f, 4.f}).set_requires_grad();
  int calls = 0;
  a.register_hook([&](const Tensor& g) { return ++calls, g * 10; });
  const Tensor squares = square(a), loss = squares.sum();
  Stepper first(loss, {}, {.retain_graph = true});
  REQUIRE(first.run_until("square"));
  CHECK(first.last().bytes_freed == 0);
  CHECK_FALSE(first.last().sent.at(0).accumulated);
  CHECK(calls == 0);
  CHECK_FALSE(first.step());
  CHECK(calls == 1);
  CHECK(a.grad().to_vector<float>() == std::vector<float>{60, 80});

  Stepper second(loss);
  REQUIRE(second.step());
  {
    NoGrad guard;
    a.add_(1);
  }
  CHECK(contains(message_of<GradError>([&] { second.step(); }), "overwritten in place"));
  CHECK(contains(message_of<GradError>([&] { second.step(); }), "an earlier step threw"));
  CHECK(contains(message_of<GradError>([&] { Stepper(ones({2})); }), "does not depend"));
}

TEST_CASE("A stepper stops before an operation, a layer or a parameter, and shows what has arrived") {
  manual_seed(0);
  ConvNet model;
  const Tensor x = randn({2, 3, 32, 32}), labels = randint(0, 10, {2});
  cross_entropy(model(x), labels).backward();
  const auto want = gradients(model);
  Stepper stepper(cross_entropy(model(x), labels));
  REQUIRE(stepper.run_before("fc1.weight"));
  CHECK(stepper.next().op == "linear");
  CHECK(stepper.next().layer == "fc1");
  CHECK(stepper.next().grads_out.at(0).shape() == Shape{2, 256});
  CHECK(stepper.next().saved.size() == 2);
  CHECK(stepper.next().sent.empty());
  CHECK(model.fc2.weight.grad().defined());
  CHECK_FALSE(model.fc1.weight.grad().defined());
  std::ostringstream coming, done;
  stepper.print_next(coming);
  const std::size_t number = stepper.next().number;
  REQUIRE(stepper.step());
  CHECK(stepper.last().number == number);
  CHECK(model.fc1.weight.grad().defined());
  stepper.print(done);
  const std::string common = coming.str().substr(0, coming.str().find("\n  has not run"));
  CHECK(contains(common, "came in   [2, 256]"));
  CHECK(done.str().rfind(common + "\n  went out  ", 0) == 0);
  // The same node again and again is not what one wants: from a stop it goes on to the next one.
  std::vector<std::string> layers;
  while (stepper.run_before("conv2d")) layers.push_back(stepper.next().layer);
  CHECK(layers == std::vector<std::string>{"conv2", "conv1"});
  CHECK(gradients(model) == want);
  CHECK_THROWS_AS(stepper.next(), GradError);
  CHECK_FALSE(stepper.run_before("conv2d"));
  CHECK(contains(message_of<ValueError>([&] { stepper.run_before("conv3d"); }), "'conv3d'"));
}

TEST_CASE("A stepper stops before its first node, mixes both ways to run, and calls hooks of leaves at the end") {
  Tensor a = tensor({3.f, 4.f}).set_requires_grad();
  int calls = 0;
  a.register_hook([&](const Tensor& g) { return ++calls, g; });
  Stepper stepper(square(a).sum());
  CHECK(stepper.next().op == "sum");
  REQUIRE(stepper.run_before("sum"));
  CHECK(stepper.next().grads_out.at(0).item<float>() == 1);
  REQUIRE(stepper.run_until("sum"));
  REQUIRE(stepper.run_before("square"));
  CHECK(stepper.last().op == "sum");
  CHECK(calls == 0);
  CHECK_FALSE(stepper.run_before("square"));
  CHECK(calls == 1);
  CHECK(a.grad().to_vector<float>() == std::vector<float>{6, 8});
}
