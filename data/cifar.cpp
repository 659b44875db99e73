#include "spool/data/cifar.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "spool/core/errors.h"
#include "spool/data/cifar_names.h"

namespace spool {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPixels = 1024, kPictureBytes = 3 * kPixels;

struct CifarFile {
  fs::path path;
  std::size_t bytes = 0, records = 0;
};

struct CifarSet {
  const char* folder;   // of the official archive
  const char* archive;  // where it comes from
  CifarFormat format;
  std::size_t records;  // per file; 0: any number
};

std::string remedy(const CifarSet& set) {
  return fmt::format("the download was cut or this is another file: delete it and fetch {} again", set.archive);
}

// The size is checked before anything is read, and against what a whole file has.
CifarFile inspect(const fs::path& path, const CifarSet& set) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    throw IoError(
        "CIFAR", fmt::format("{} does not exist; unpack {} and give the folder with its .bin files", path.string(), set.archive));
  if (error) throw IoError("CIFAR", fmt::format("{} cannot be read: {}", path.string(), error.message()));
  if (status.type() != fs::file_type::regular)
    throw IoError("CIFAR", fmt::format("{} is {}, not a file; unpack {} and give the folder with its .bin files", path.string(),
                                       status.type() == fs::file_type::directory ? "a folder" : "no regular file", set.archive));
  CifarFile file{path, static_cast<std::size_t>(fs::file_size(path, error)), 0};
  if (error) throw IoError("CIFAR", fmt::format("the size of {} cannot be read: {}", path.string(), error.message()));
  const std::size_t record = set.format.record_bytes();
  file.records = file.bytes / record;
  const std::size_t rest = file.bytes % record;
  const std::string found = fmt::format("{} has {} bytes: {} whole records of {} and {} bytes left over", path.string(),
                                        file.bytes, file.records, record, rest);
  if (set.records && file.bytes != set.records * record)
    throw IoError("CIFAR",
                  fmt::format("{}; expected {} bytes ({} records): {}", found, set.records * record, set.records, remedy(set)));
  if (rest || file.bytes == 0)
    throw IoError("CIFAR", fmt::format("{}; expected a whole number of records, at least one: {}", found, remedy(set)));
  return file;
}

// In pieces of a few MB, so that the file is not in memory a second time.
void read_file(const CifarFile& file, const CifarSet& set, std::uint8_t* pixels, std::int64_t* labels) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.path.c_str(), "rb"), std::fclose);
  if (!in) throw IoError("CIFAR", fmt::format("{} cannot be opened: {}", file.path.string(), std::strerror(errno)));
  const std::size_t record = set.format.record_bytes();
  std::vector<std::byte> buffer(1000 * record);
  for (std::size_t done = 0; done < file.records;) {
    const std::size_t want = std::min<std::size_t>(1000, file.records - done) * record;
    const std::size_t got = std::fread(buffer.data(), 1, want, in.get());
    if (got != want)
      throw IoError("CIFAR",
                    fmt::format("{} ended after {} of its {} bytes{}", file.path.string(), done * record + got, file.bytes,
                                std::ferror(in.get()) ? fmt::format(": {}", std::strerror(errno))
                                                      : " while it was read: it has been changed"));
    done += parse_cifar(std::span(buffer).first(want), set.format, pixels + done * kPictureBytes, labels + done,
                        file.path.string(), done);
  }
}

ImageDataset read_set(const fs::path& folder, const CifarSet& set, std::span<const char* const> names,
                      std::vector<std::string> classes) {
  std::error_code error;
  const fs::path inner = folder / set.folder;
  const fs::path base = fs::is_directory(inner, error) ? inner : folder;
  if (!fs::is_directory(base, error))
    throw IoError("CIFAR", fmt::format("the folder {} does not exist; unpack {} and give the folder with its .bin files",
                                       folder.string(), set.archive));
  std::vector<CifarFile> files;
  std::size_t n = 0;
  for (const char* name : names) {
    files.push_back(inspect(base / name, set));
    n += files.back().records;
  }
  Tensor images = empty({static_cast<std::int64_t>(n), 3, 32, 32}, {.dtype = DType::u8}, MemoryFormat::channels_last);
  Tensor labels = empty({static_cast<std::int64_t>(n)}, {.dtype = DType::i64});
  auto* pixels = static_cast<std::uint8_t*>(images.raw_data());
  auto* label = static_cast<std::int64_t*>(labels.raw_data());
  for (const CifarFile& file : files) {
    read_file(file, set, pixels, label);
    pixels += file.records * kPictureBytes;
    label += file.records;
  }
  return ImageDataset(images, labels, std::move(classes));
}

ImageDataset read_cifar10(const fs::path& folder, const Cifar10Options& o) {
  static constexpr const char* kTrain[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                           "data_batch_5.bin"};
  static constexpr const char* kTest[] = {"test_batch.bin"};
  const CifarSet set{"cifar-10-batches-bin", "cifar-10-binary.tar.gz", {}, o.official_size ? 10000u : 0u};
  return read_set(folder, set, o.train ? std::span<const char* const>(kTrain) : kTest,
                  {kCifar10Names.begin(), kCifar10Names.end()});
}

ImageDataset read_cifar100(const fs::path& folder, const Cifar100Options& o) {
  static constexpr const char* kTrain[] = {"train.bin"};
  static constexpr const char* kTest[] = {"test.bin"};
  const CifarFormat format{.labels = 2, .label = o.coarse ? 0u : 1u, .classes = o.coarse ? 20 : 100};
  const CifarSet set{"cifar-100-binary", "cifar-100-binary.tar.gz", format, !o.official_size ? 0u : o.train ? 50000u : 10000u};
  std::vector<std::string> classes(kCifar100Names.begin(), kCifar100Names.end());
  if (o.coarse) classes.assign(kCifar100CoarseNames.begin(), kCifar100CoarseNames.end());
  return read_set(folder, set, o.train ? std::span<const char* const>(kTrain) : kTest, std::move(classes));
}

}  // namespace

std::size_t parse_cifar(std::span<const std::byte> bytes, const CifarFormat& format, std::uint8_t* pixels, std::int64_t* labels,
                        std::string_view name, std::size_t first_record) {
  const std::size_t record = format.record_bytes(), n = bytes.size() / record, rest = bytes.size() % record;
  if (rest)
    throw IoError("CIFAR", fmt::format("{} has {} bytes: {} whole records of {} and {} bytes left over", name, bytes.size(), n,
                                       record, rest));
  for (std::size_t r = 0; r < n; ++r) {
    const auto label = std::to_integer<std::int64_t>(bytes[r * record + format.label]);
    if (label >= format.classes)
      throw IoError(
          "CIFAR",
          fmt::format("{}: record {} (at byte {}) has label {}, expected 0 to {}: the file is damaged or of another data set",
                      name, first_record + r, (first_record + r) * record, label, format.classes - 1));
    labels[r] = label;
  }
  for (std::size_t r = 0; r < n; ++r) {
    const std::byte* red = bytes.data() + r * record + format.labels;
    std::uint8_t* out = pixels + r * kPictureBytes;
    for (std::size_t p = 0; p < kPixels; ++p)
      for (std::size_t c = 0; c < 3; ++c) out[3 * p + c] = std::to_integer<std::uint8_t>(red[c * kPixels + p]);
  }
  return n;
}

Cifar10::Cifar10(const fs::path& folder, Cifar10Options options) : ImageDataset(read_cifar10(folder, options)) {}

Cifar100::Cifar100(const fs::path& folder, Cifar100Options options) : ImageDataset(read_cifar100(folder, options)) {}

}  // namespace spool
