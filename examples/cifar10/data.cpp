#include "data.h"

#include <fmt/format.h>
#include <spool/data/cifar10_source.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

using namespace spool;

namespace {

Data synthetic(const std::string& why) { return {Synthetic({.train = true}), Synthetic({.train = false}), why}; }

void show_download(std::uint64_t received, std::uint64_t total) {
  if (!isatty(STDERR_FILENO)) return;
  const double mb = static_cast<double>(received) / 1e6, of = static_cast<double>(total) / 1e6;
  fmt::print(stderr, "\rdownloading CIFAR-10  {:5.1f} of {:.1f} MB{}", mb, of, received == total ? "\n" : "");
  std::fflush(stderr);
}

ImageDataset first(const ImageDataset& data, std::int64_t n) {
  n = std::min(n, data.size());
  return ImageDataset(data.images().narrow(0, 0, n), data.labels().narrow(0, 0, n), data.class_names());
}

Data load_all(const Options& options) {
  if (options.synthetic) return synthetic("the built-in synthetic pictures (--synthetic)");
  const Cifar10Source source = find_cifar10(options.data, show_download);
  if (!source.folder) return synthetic("the built-in SYNTHETIC pictures, not CIFAR-10: " + source.description);
  return {Cifar10(*source.folder, {.train = true}), Cifar10(*source.folder, {.train = false}), source.description};
}

}  // namespace

Data load_data(const Options& options) {
  Data data = load_all(options);
  if (options.limit == 0) return data;
  return {first(data.train, options.limit), first(data.test, std::max<std::int64_t>(options.limit / 5, 1)), data.description};
}

Transform transform(bool augment) {
  const Normalize normalize({0.5}, {0.5});
  if (!augment) return normalize;
  return Compose({RandomCrop({.size = 32, .padding = 4}), RandomHorizontalFlip(), normalize});
}
