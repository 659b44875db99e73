#include "spool/data/cifar10_source.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

namespace spool {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFolder = "cifar-10-batches-bin";

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

// One of the files is enough: a missing or damaged one is for Cifar10 to name.
bool holds_files(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "data_batch_1.bin", error) || fs::exists(folder / "test_batch.bin", error);
}

Cifar10Source named(const fs::path& folder, const char* who) {
  if (!holds_files(folder) && !holds_files(folder / kFolder))
    throw IoError("CIFAR-10", fmt::format("{} is {}, but there is neither data_batch_1.bin nor {}/data_batch_1.bin in it", who,
                                          folder.string(), kFolder));
  return {folder, fmt::format("CIFAR-10 from {} ({})", folder.string(), who)};
}

}  // namespace

fs::path cache_folder() {
  if (const char* own = variable("SPOOL_CACHE")) return own;
  if (const char* xdg = variable("XDG_CACHE_HOME")) return fs::path(xdg) / "spool";
  if (const char* home = variable("HOME")) return fs::path(home) / ".cache" / "spool";
  throw IoError("cache", "there is no place for downloads: none of SPOOL_CACHE, XDG_CACHE_HOME and HOME is set; set one");
}

Cifar10Source find_cifar10(const std::optional<fs::path>& given, const DownloadProgress& progress,
                           const Cifar10Archive& archive) {
  if (given) return named(*given, "--data");
  if (const char* data = variable("SPOOL_DATA")) return named(data, "$SPOOL_DATA");
  const fs::path cache = cache_folder();
  if (holds_files(cache / kFolder)) return {cache, fmt::format("CIFAR-10 from {} (cache)", (cache / kFolder).string())};
  const fs::path file = cache / "cifar-10-binary.tar.gz";
  try {
    download(archive.url, file, {.bytes = archive.bytes, .sha256 = archive.sha256, .progress = progress, .attempts = 3});
  } catch (const DownloadError& e) {
    if (e.reason() == DownloadError::Reason::network)
      return {{}, fmt::format("CIFAR-10 is neither given, nor in {}, nor can it be downloaded ({})", cache.string(), e.detail())};
    if (e.reason() == DownloadError::Reason::disk)
      throw IoError("CIFAR-10",
                    fmt::format("{}; SPOOL_CACHE=DIR names another place for downloads, --data DIR the data itself", e.detail()));
    throw;
  }
  unpack(file, cache, kFolder);
  std::error_code ignored;
  fs::remove(file, ignored);
  return {cache, fmt::format("CIFAR-10 from {} (downloaded from {})", (cache / kFolder).string(), archive.url)};
}

}  // namespace spool
