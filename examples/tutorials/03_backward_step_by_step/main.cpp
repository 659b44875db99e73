// Tutorial 03: backward, step by step. README.md quotes this file.
#include <spool/spool.h>

#include <cstdio>
#include <iostream>

using namespace spool;

// [net]
struct Net : Module {
  Conv2d& conv = add<Conv2d>("conv", {.in_channels = 1, .out_channels = 2, .kernel_size = 3});
  Linear& fc = add<Linear>("fc", {.in_features = 2 * 3 * 3, .out_features = 3});
  Tensor forward(const Tensor& x) override {
    const Tensor h = max_pool2d(relu(conv(x)), {.kernel_size = 2});
    return fc(flatten(h, 1));
  }
};
// [/net]

int main() {
  set_num_threads(1);
  // [tape]
  manual_seed(0);
  Net net;
  const Tensor x = randn({2, 1, 8, 8});
  const Tensor labels = tensor({0, 2}).to(i64);
  const Tensor loss = cross_entropy(net(x), labels);
  print_tape(std::cout, loss);
  // [/tape]

  // [stepper]
  Stepper stepper(loss);
  stepper.step();
  stepper.print(std::cout);
  // [/stepper]
  {
    // [cross_entropy]
    NoGrad guard;
    const Tensor p = softmax(net(x), 1);
    std::cout << (p - one_hot(labels, 3).to(f32)) / 2 << "\n";
    std::cout << stepper.last().sent[0].grad << "\n";
    // [/cross_entropy]
  }
  // [linear]
  stepper.run_until("fc");
  stepper.print(std::cout);
  std::cout << "fc.weight has a gradient: " << std::boolalpha << net.fc.weight.grad().defined();
  std::cout << ", conv.weight: " << net.conv.weight.grad().defined() << "\n";
  // [/linear]
  {
    // [linear_formula]
    NoGrad guard;
    const Tensor g = stepper.last().grads_out[0];
    const Tensor to_input = stepper.last().sent[0].grad;
    std::cout << "g W is what went to the input: " << ((matmul(g, net.fc.weight) - to_input).abs().max() < 1e-6).item<bool>()
              << "\n";
    std::cout << "the sum of g over the batch is fc.bias's: "
              << ((g.sum({0}) - net.fc.bias.grad()).abs().max() < 1e-6).item<bool>() << "\n";
    // [/linear_formula]
  }
  // [until]
  stepper.run_until("max_pool2d");
  stepper.print(std::cout);
  stepper.run_until("conv");
  stepper.print(std::cout);
  std::cout << "another step: " << stepper.step() << "\n";
  // [/until]
  {
    // [before]
    for (Tensor p : net.parameters()) p.set_grad({});
    Stepper again(cross_entropy(net(x), labels));
    while (again.run_before("conv.weight")) {
      again.print_next(std::cout);
      std::cout << "fc.weight has a gradient: " << net.fc.weight.grad().defined();
      std::cout << ", conv.weight: " << net.conv.weight.grad().defined() << "\n";
    }
    std::cout << "at the end, conv.weight: " << net.conv.weight.grad().defined() << "\n";
    // [/before]
  }
  {
    // [same]
    const Tensor stepped = net.conv.weight.grad();
    for (Tensor p : net.parameters()) p.set_grad({});
    cross_entropy(net(x), labels).backward();
    std::cout << "as backward() does it, to the bit: " << equal(stepped, net.conv.weight.grad()) << "\n";
    // [/same]
  }
  {
    // [wrong_name]
    try {
      Stepper(cross_entropy(net(x), labels)).run_until("pool");
    } catch (const ValueError& e) {
      std::cout << e.what() << "\n";
    }
    // [/wrong_name]
  }
  {
    // [accumulate]
    Tensor w = tensor({1, 2}).set_requires_grad();
    square(w).sum().backward();
    std::cout << w.grad() << "\n";
    square(w).sum().backward();
    std::cout << w.grad() << "\n";
    w.set_grad({});  // what zero_grad() does for all parameters
    square(w).sum().backward();
    std::cout << w.grad() << "\n";
    // [/accumulate]
  }
  {
    // [hook]
    Tensor w = tensor({3, 4}).set_requires_grad();
    const Tensor y = w * 2;
    y.register_hook([](const Tensor& g) {
      std::cout << "hook of y: " << g << "\n";
      return clamp(g, -1, 1);
    });
    square(y).sum().backward();
    std::cout << w.grad() << "\n";
    // [/hook]
  }
  {
    // [retain_grad]
    Tensor w = tensor({3, 4}).set_requires_grad();
    const Tensor y = w * 2;
    y.retain_grad();
    square(y).sum().backward();
    std::cout << y.grad() << "\n";
    // [/retain_grad]
  }
  {
    // [retain_graph]
    Tensor w = tensor({3, 4}).set_requires_grad();
    const Tensor y = exp(w).sum();
    y.backward({}, {.retain_graph = true});
    print_tape(std::cout, y);
    y.backward();
    print_tape(std::cout, y);
    // [/retain_graph]
  }
  {
    // [second]
    Tensor x3 = tensor({2}, {.dtype = f64, .requires_grad = true});
    const Tensor y = x3 * x3 * x3;
    const Tensor first = grad(y, x3, {.create_graph = true});
    const Tensor second = grad(first, x3);
    std::cout << "3 x^2 = " << first.detach() << "\n6 x   = " << second << "\n";
    // [/second]
  }
  {
    // [memory]
    const Tensor big = randn({64, 1, 8, 8});
    const Tensor big_labels = zeros({64}, {.dtype = i64});
    Stepper all_steps(cross_entropy(net(big), big_labels));
    while (all_steps.step()) {
      const BackwardStep& s = all_steps.last();
      std::printf("#%zu %-13s freed %6zu bytes\n", s.number, s.op.c_str(), s.bytes_freed);
    }
    // [/memory]
  }
}
