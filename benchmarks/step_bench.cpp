// Milliseconds of one training step of the example's network (batch 128: forward, backward, clip, Adam), and the memory it takes.
// usage: step_bench [THREADS [STEPS]]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../examples/cifar10/convnet.h"

using namespace spool;

int main(int argc, char** argv) {
  if (argc > 1) set_num_threads(std::atoi(argv[1]));
  const int steps = argc > 2 ? std::atoi(argv[2]) : 30;
  manual_seed(0);
  ConvNet model;
  Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
  const Tensor x = randn({128, 3, 32, 32}).contiguous(MemoryFormat::channels_last), y = randint(0, 10, {128});
  std::vector<double> times;
  for (int i = 0; i < steps + 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    adam.zero_grad();
    cross_entropy(model(x), y).backward();
    adam.step();
    if (i >= 5) times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("ConvNet step, batch 128, %d threads: median %.2f ms, min %.2f, max %.2f; peak memory %.0f MB\n", get_num_threads(),
              times[times.size() / 2], times.front(), times.back(), static_cast<double>(usage.ru_maxrss) / 1024);
}
