// Times one workload on the CPU and prints a line "RESULT <median> <min> <unit> <peak memory in MB>": what benchmarks/run puts beside other frameworks.
// usage: workload_bench WORKLOAD THREADS REPEATS [BATCH]     workloads: convnet, convnet-bf16, mlp, resnet18, infer, infer-bf16, tiny
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "workloads.h"

using namespace spool;

namespace {

// Median and minimum time of a call, after a warm-up, in microseconds.
void report(const std::function<void()>& work, int repeats, double per = 1, const char* unit = "us") {
  for (int i = 0; i < std::max(3, repeats / 10); ++i) work();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / per);
  }
  std::sort(times.begin(), times.end());
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("RESULT {:.4f} {:.4f} {} {:.0f}\n", times[times.size() / 2], times.front(), unit,
             static_cast<double>(usage.ru_maxrss) / 1024);
}

// Forward, backward, clipping and Adam.
void train(Module& model, const Tensor& x, const Tensor& labels, std::optional<double> clip, bool mixed, int repeats) {
  Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = clip});
  report(
      [&] {
        adam.zero_grad();
        Tensor loss;
        {
          const Autocast guard(mixed);
          loss = cross_entropy(model(x), labels);
        }
        loss.backward();
        adam.step();
      },
      repeats);
}

Tensor images(std::int64_t n) { return randn({n, 3, 32, 32}).contiguous(MemoryFormat::channels_last); }

void infer(std::int64_t batch, bool mixed, int repeats) {
  ConvNet model;
  model.eval();
  const NoGrad no_grad;
  const Autocast guard(mixed);
  const Tensor x = images(batch);
  report([&] { model(x); }, repeats, static_cast<double>(batch), "us/image");
}

// A chain of 1000 additions and multiplications of `n` numbers, forward and backward, for each operation.
void tiny(std::int64_t n, int repeats) {
  const Tensor c = rand({n}), seed = ones({n});
  Tensor x = rand({n}).set_requires_grad();
  report(
      [&] {
        Tensor y = x;
        for (int i = 0; i < 500; ++i) y = (y + c) * c;
        y.backward(seed);
        x.set_grad({});
      },
      repeats, 1, "ns");  // 1000 operations: microseconds are nanoseconds each
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: workload_bench convnet|convnet-bf16|mlp|resnet18|infer|infer-bf16|tiny THREADS REPEATS [BATCH]\n");
    return 2;
  }
  const std::string what = argv[1];
  set_num_threads(std::stoi(argv[2]));
  const int repeats = std::stoi(argv[3]);
  const std::int64_t batch = argc > 4 ? std::stoll(argv[4]) : what == "mlp" ? 32 : what == "tiny" ? 1 : 128;
  manual_seed(0);
  const Tensor labels = randint(0, 10, {batch});
  const bool mixed = what.ends_with("-bf16");
  if (what.starts_with("convnet")) {
    ConvNet model;
    train(model, images(batch), labels, 1.0, mixed, repeats);
  } else if (what == "mlp") {
    Mlp model;
    train(model, randn({batch, 64}), labels, std::nullopt, false, repeats);
  } else if (what == "resnet18") {
    ResNet18 model;
    train(model, images(batch), labels, 1.0, false, repeats);
  } else if (what.starts_with("infer")) {
    infer(batch, mixed, repeats);
  } else if (what == "tiny") {
    tiny(batch, repeats);
  } else {
    fmt::print(stderr, "workload_bench: unknown workload '{}'\n", what);
    return 2;
  }
}
