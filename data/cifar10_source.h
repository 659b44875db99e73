// Where CIFAR-10 comes from on this machine. In the library Spool::download.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "spool/data/download.h"

namespace spool {

struct Cifar10Source {
  // For Cifar10(folder); empty when there is neither data nor a network: Synthetic() is what is left then.
  std::optional<std::filesystem::path> folder;
  // One line to print: "CIFAR-10 from /data/cifar10 ($SPOOL_DATA)", or why there is none.
  std::string description;
};

// The archive that is downloaded; the official one unless a test says otherwise.
struct Cifar10Archive {
  std::string url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
  std::uint64_t bytes = 170052171;
  std::string sha256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd";
};

// Looks at `given`, else $SPOOL_DATA, else cache_folder(), and else downloads to the latter. Folders may hold the .bin files or
// cifar-10-batches-bin/. Throws IoError when `given` or $SPOOL_DATA is set but holds no CIFAR-10 (nothing else is tried then), for a download with wrong
// contents, and for a cache that cannot be written. Only a network that is not there, or a server that refuses, leaves `folder` empty.
Cifar10Source find_cifar10(const std::optional<std::filesystem::path>& given = {}, const DownloadProgress& progress = {},
                           const Cifar10Archive& archive = {});

// $SPOOL_CACHE, else $XDG_CACHE_HOME/spool, else ~/.cache/spool. Throws IoError when none of the variables (with $HOME) is set.
std::filesystem::path cache_folder();

}  // namespace spool
