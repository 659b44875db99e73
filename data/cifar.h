// CIFAR-10 and CIFAR-100 in their binary versions (Krizhevsky, 2009; https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "spool/data/dataset.h"

namespace spool {

struct Cifar10Options {
  bool train = true;  // data_batch_1.bin to data_batch_5.bin, else test_batch.bin
  // Whether every file must hold exactly the official 10,000 pictures; otherwise any whole number of them is taken.
  bool official_size = true;
};

// 32 x 32 RGB pictures in ten classes. `folder` holds the .bin files, or a folder cifar-10-batches-bin that does.
// Throws IoError, naming the file, for one that is missing, no regular file, unreadable, of the wrong size, or holds a label that is no class.
class Cifar10 final : public ImageDataset {
 public:
  explicit Cifar10(const std::filesystem::path& folder, Cifar10Options options = {});
};

struct Cifar100Options {
  bool train = true;          // train.bin, else test.bin
  bool coarse = false;        // the 20 superclasses as labels, else the 100 classes
  bool official_size = true;  // exactly 50,000 and 10,000 pictures
};

// The same with a hundred classes; the folder within is cifar-100-binary.
class Cifar100 final : public ImageDataset {
 public:
  explicit Cifar100(const std::filesystem::path& folder, Cifar100Options options = {});
};

// One record: `labels` bytes, of which number `label` counts, then 1,024 red, 1,024 green and 1,024 blue pixels, row by row.
struct CifarFormat {
  std::size_t labels = 1, label = 0;
  std::int64_t classes = 10;
  std::size_t record_bytes() const { return labels + 3072; }
};

// The records in `bytes`: writes their pixels (3,072 bytes each, row by row, channels side by side) and labels, and returns their number. `name`
// and `first_record` are for messages. Throws IoError when the bytes are not a whole number of records or a label is not in [0, classes).
std::size_t parse_cifar(std::span<const std::byte> bytes, const CifarFormat& format, std::uint8_t* pixels, std::int64_t* labels,
                        std::string_view name = "buffer", std::size_t first_record = 0);

}  // namespace spool
