// Tutorial 08: making it fast. The README beside this file quotes the regions between [name] and [/name]; the tests compare both.
// With --time it prints the profiler's own tables too, which are different each time.
#include <spool/spool.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <utility>

using namespace spool;

namespace {

// [passes]
// What `work` does to memory: its kernels with their calls and the megabytes of their operands, and the sum of all.
template <class Work>
double show_passes(Work&& work) {
  Profiler profiler;
  work();
  profiler.stop();
  std::map<std::string, std::pair<int, double>> kernels;
  double all = 0;
  for (const KernelRun& run : profiler.runs()) {
    const double mb = static_cast<double>(run.bytes) / 1e6;
    auto& [calls, sum] = kernels[run.name];
    ++calls;
    sum += mb;
    all += mb;
  }
  for (const auto& [name, kernel] : kernels)
    if (kernel.second > 0.5) std::printf("%-29s %3d x  %5.1f MB\n", name.c_str(), kernel.first, kernel.second);
  std::printf("%-29s %3zu x  %5.1f MB\n", "all kernels", profiler.runs().size(), all);
  return all;
}
// [/passes]

// [net]
struct Net : Module {
  Conv2d& conv1 = add<Conv2d>("conv1", {.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn1 = add<BatchNorm2d>("bn1", {.num_features = 16});
  Conv2d& conv2 = add<Conv2d>("conv2", {.in_channels = 16, .out_channels = 32, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn2 = add<BatchNorm2d>("bn2", {.num_features = 32});
  Linear& fc = add<Linear>("fc", {.in_features = 32 * 8 * 8, .out_features = 10});
  bool fused = false;

  Tensor block(const Tensor& x, Conv2d& conv, BatchNorm2d& bn) {
    if (fused) return bn.relu_max_pool2d(conv(x), {.kernel_size = 2});
    return max_pool2d(relu(bn(conv(x))), {.kernel_size = 2});
  }
  Tensor forward(const Tensor& x) override { return fc(flatten(block(block(x, conv1, bn1), conv2, bn2), 1)); }
};
// [/net]

// The last line of print_tape().
std::string held(const Tensor& output) {
  const std::string tape = tape_to_string(output);
  return tape.substr(tape.rfind('\n', tape.size() - 2) + 1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool times = argc > 1 && std::string(argv[1]) == "--time";
  manual_seed(1);
  {
    // [twice]
    const Tensor a = rand({1000, 1000}), b = rand({1000, 1000}), c = rand({1000, 1000});
    show_passes([&] { return a * b + c; });
    // [/twice]
  }
  {
    // [rows]
    const Tensor table = rand({100, 64}), weight = rand({64, 64});
    show_passes([&] {
      for (int i = 0; i < 100; ++i) matmul(table[i], weight);
    });
    show_passes([&] { matmul(table, weight); });
    // [/rows]
  }
  // [step]
  Net model;
  Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
  const Tensor images = rand({32, 3, 32, 32}), labels = randint(0, 10, {32});
  const auto step = [&] {
    adam.zero_grad();
    const Tensor loss = cross_entropy(model(images), labels);
    loss.backward();
    adam.step();
    return loss;
  };
  step();  // the first one also makes what later ones reuse
  const double plain = show_passes(step);
  // [/step]
  // [fused]
  model.fused = true;
  step();
  const double fused = show_passes(step);
  std::printf("%.2f of the bytes\n", fused / plain);
  // [/fused]
  // [same]
  std::cout << "held by the fused tape: " << held(cross_entropy(model(images), labels));
  const Tensor fused_scores = model(images);
  model.fused = false;
  std::cout << "held by the plain tape: " << held(cross_entropy(model(images), labels));
  std::cout << "the same scores: " << std::boolalpha << allclose(fused_scores, model(images), 1e-4, 1e-5) << "\n";
  model.fused = true;
  // [/same]
  // [infer]
  {
    const EvalMode eval(model);
    const NoGrad no_grad;
    show_passes([&] { model(images); });
  }
  // [/infer]
  // [half]
  const auto mixed_step = [&] {
    adam.zero_grad();
    Tensor loss;
    {
      const Autocast mixed;
      loss = cross_entropy(model(images), labels);
    }
    loss.backward();
    adam.step();
    return loss;
  };
  mixed_step();
  const double mixed = show_passes(mixed_step);
  std::printf("%.2f of the bytes\n", mixed / fused);
  // [/half]
  // [allocations]
  step();
  const MemoryStats before = memory_stats();
  for (int i = 0; i < 10; ++i) step();
  const MemoryStats after = memory_stats();
  std::cout << "asked of the system in ten steps: " << after.system_allocations - before.system_allocations << "\n";
  // [/allocations]
  // [graph]
  CapturedStep captured(
      [&](const Tensor& x, const Tensor& y) {
        adam.zero_grad();
        const Tensor loss = cross_entropy(model(x), y);
        loss.backward();
        adam.step();
        return loss;
      },
      adam);
  captured(images, labels);
  // [/graph]
  if (times) std::cout << "captured: " << captured.captured() << ", for " << captured.reason() << "\n";
  // [times]
  Profiler profiler;
  for (int i = 0; i < 10; ++i) step();
  profiler.stop();
  profiler.write_chrome_trace("step.json");
  if (times) std::cout << profiler.kernel_table() << "\n" << profiler.layer_table();
  // [/times]
}
