#include "data.h"

#include <fmt/format.h>
#include <spool/data/cifar10_source.h>
#include <unistd.h>

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

}  // namespace

Data load_data(const Options& options) {
  if (options.synthetic) return synthetic("the built-in synthetic pictures (--synthetic)");
  const Cifar10Source source = find_cifar10(options.data, show_download);
  if (!source.folder) return synthetic("the built-in SYNTHETIC pictures, not CIFAR-10: " + source.description);
  return {Cifar10(*source.folder, {.train = true}), Cifar10(*source.folder, {.train = false}), source.description};
}
