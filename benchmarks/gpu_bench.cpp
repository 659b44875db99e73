// Microseconds of one training step of the example's network on a GPU (batch 128: gather from a data set that lives there, forward, backward, clip, Adam), and what it is made of.
// usage: gpu_bench [fp32|tf32] [STEPS]     prints one line of "name value" pairs
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../examples/cifar10/convnet.h"

using namespace spool;

int main(int argc, char** argv) {
  const std::string precision = argc > 1 ? argv[1] : "fp32";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 2000;
  try {
    if (precision != "fp32" && precision != "tf32") throw ValueError("gpu_bench", "the precision is fp32 or tf32");
    set_allow_tf32(precision == "tf32");
    const Device gpu = Device::cuda();
    check_usable(gpu);
    manual_seed(0);
    constexpr std::int64_t batch = 128;
    const ImageDataset data(randint(0, 256, {50'000, 3, 32, 32}, {.dtype = u8}).contiguous(MemoryFormat::channels_last),
                            randint(0, 10, {50'000}, {.dtype = i64}));
    DataLoader loader(
        data, {.batch_size = batch,
               .shuffle = true,
               .drop_last = true,
               .transform = Compose({RandomCrop({.size = 32, .padding = 4}), RandomHorizontalFlip(), Normalize({0.5}, {0.5})}),
               .device = gpu});
    ConvNet model;
    model.to(gpu);
    Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
    constexpr int warm_up = 20;
    int done = -warm_up;
    CudaWork before;
    std::chrono::steady_clock::time_point start;
    while (done < steps)
      for (const auto& [images, labels] : loader) {
        if (done == steps) break;
        if (done == 0) {
          synchronize(gpu);
          reset_peak_memory(gpu);
          before = cuda_work();
          start = std::chrono::steady_clock::now();
        }
        adam.zero_grad();
        cross_entropy(model(images), labels).backward();
        adam.step();
        ++done;
      }
    const CudaWork after = cuda_work();
    synchronize(gpu);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf(
        "precision %s us_per_step %.1f images_per_s %.0f launches_per_step %.1f megabytes_per_step %.1f waits %llu peak_mib "
        "%.1f\n",
        precision.c_str(), seconds / steps * 1e6, steps * batch / seconds,
        static_cast<double>(after.launches - before.launches) / steps,
        static_cast<double>(after.bytes - before.bytes) / steps / 1e6,
        static_cast<unsigned long long>(after.synchronisations - before.synchronisations),
        static_cast<double>(memory_stats(gpu).peak_allocated) / (1 << 20));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_bench: %s\n", e.what());
    return 1;
  }
}
