// How many CIFAR-sized pictures a second the loader delivers, with crop, flip and normalisation. `loader_bench [FOLDER]` reads CIFAR-10
// from FOLDER, and else draws the synthetic set.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "spool/data/cifar.h"
#include "spool/data/loader.h"
#include "spool/data/synthetic.h"

using namespace spool;

namespace {

double pictures_per_second(DataLoader& loader) {
  const auto start = std::chrono::steady_clock::now();
  std::int64_t pictures = 0;
  for (const auto& [images, labels] : loader) pictures += images.shape()[0];
  return static_cast<double>(pictures) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(const char* what, const Dataset& dataset, DataLoaderOptions options) {
  options.batch_size = 128;
  options.shuffle = true;
  DataLoader loader(dataset, options);
  pictures_per_second(loader);  // warm-up
  std::vector<double> rates;
  for (int i = 0; i < 9; ++i) rates.push_back(pictures_per_second(loader));
  std::sort(rates.begin(), rates.end());
  fmt::print("{:36} {:9.0f} images/s   ({:.0f} to {:.0f})\n", what, rates[rates.size() / 2], rates.front(), rates.back());
}

}  // namespace

int main(int argc, char** argv) {
  const ImageDataset train = argc > 1 ? ImageDataset(Cifar10(argv[1])) : ImageDataset(Synthetic());
  const Normalize normalize({0.4914, 0.4822, 0.4465}, {0.247, 0.2435, 0.2616});
  const Compose augment({RandomCrop({.size = 32, .padding = 4}), RandomHorizontalFlip(), normalize});
  fmt::print("{} pictures, batches of 128, shuffled; median of 9 epochs (least to most)\n", train.size());
  measure("inline, normalise", train, {.transform = normalize});
  measure("inline, crop + flip + normalise", train, {.transform = augment});
  measure("1 worker, crop + flip + normalise", train, {.num_workers = 1, .transform = augment});
  measure("2 workers, crop + flip + normalise", train, {.num_workers = 2, .transform = augment});
}
