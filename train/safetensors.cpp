#include "spool/train/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>

#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"
#include "spool/train/atomic_file.h"
#include "spool/train/checkpoint.h"
#include "spool/train/safetensors_header.h"
#include "spool/train/state.h"

namespace spool {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

[[noreturn]] void fail(const std::string& source, const std::string& why) {
  throw IoError("safetensors", fmt::format("'{}' is damaged: {}", source, why));
}

class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail_to("open", errno);
    struct stat s {};
    if (::fstat(fd_, &s) != 0 || !S_ISREG(s.st_mode)) {
      ::close(fd_);
      throw IoError("safetensors", fmt::format("'{}' is not a file", path));
    }
    size_ = static_cast<std::uint64_t>(s.st_size);
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }
  void read(std::uint64_t offset, void* to, std::uint64_t bytes) const {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t n = ::pread(fd_, at, std::min<std::uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_to("read", errno);
      if (n == 0) fail(path_, fmt::format("it ends at byte {}, while it was read", offset));
      at += n;
      offset += static_cast<std::uint64_t>(n);
      bytes -= static_cast<std::uint64_t>(n);
    }
  }

 private:
  [[noreturn]] void fail_to(const char* what, int error) const {
    throw IoError("safetensors", fmt::format("cannot {} '{}': {}", what, path_, std::system_category().message(error)));
  }
  std::string path_;
  int fd_;
  std::uint64_t size_ = 0;
};

// `read(offset, to, bytes)` gives parts of `size` bytes.
template <class Read>
TensorFile load(std::uint64_t size, const std::string& source, const Read& read) {
  std::uint64_t header_bytes = 0;
  if (size < sizeof header_bytes)
    fail(source, fmt::format("it has {} bytes, fewer than the 8 that any safetensors file begins with", size));
  read(0, &header_bytes, sizeof header_bytes);
  if (header_bytes > detail::kMaxHeaderBytes || header_bytes > size - sizeof header_bytes)
    fail(source,
         fmt::format("its header is said to have {} bytes, the file has {}: it was cut short, or is not a safetensors file",
                     header_bytes, size));
  std::string json(header_bytes, '\0');
  read(sizeof header_bytes, json.data(), header_bytes);
  const std::uint64_t data = sizeof header_bytes + header_bytes;
  detail::SafetensorsHeader header = detail::parse_header(json, size - data, source);

  TensorFile file{{}, std::move(header.metadata)};
  for (detail::TensorEntry& t : header.tensors) {
    Tensor tensor = empty(t.shape, {.dtype = t.dtype});
    read(data + t.begin, tensor.raw_data(), t.end - t.begin);
    if (t.dtype == boolean) {
      const auto* bytes = static_cast<const unsigned char*>(tensor.raw_data());
      for (std::uint64_t i = 0; i < t.end - t.begin; ++i)
        if (bytes[i] > 1) fail(source, fmt::format("tensor '{}': element {} is {}, neither true nor false", t.name, i, bytes[i]));
    }
    file.tensors.push_back({std::move(t.name), std::move(tensor)});
  }
  return file;
}

}  // namespace

void save_safetensors(const std::string& path, const StateDict& tensors, const Metadata& metadata) {
  std::set<std::string> names;
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& t : tensors) {
    if (!t.tensor.defined()) throw ValueError("save", fmt::format("the tensor '{}' is undefined", t.name));
    if (t.name == "__metadata__") throw ValueError("save", "a tensor cannot be called '__metadata__': the format uses that name");
    if (!names.insert(t.name).second) throw ValueError("save", fmt::format("two tensors are called '{}'", t.name));
    order.push_back(&t);
  }
  // As the format's own library does: large elements first, so that every tensor is aligned, then by name.
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const std::size_t sa = size_of(a->tensor.dtype()), sb = size_of(b->tensor.dtype());
    return sa != sb ? sa > sb : a->name < b->name;
  });
  std::vector<detail::TensorEntry> entries;
  std::uint64_t at = 0;
  for (const NamedTensor* t : order) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(t->tensor.numel()) * size_of(t->tensor.dtype());
    entries.push_back({t->name, t->tensor.dtype(), t->tensor.shape(), at, at + bytes});
    at += bytes;
  }
  const std::string header = detail::make_header(entries, metadata);
  const std::uint64_t header_bytes = header.size();
  if (header_bytes > detail::kMaxHeaderBytes)
    throw ValueError("save",
                     fmt::format("names and notes take {} bytes, the format allows {}", header_bytes, detail::kMaxHeaderBytes));

  NoGrad guard;
  AtomicFile file(path);
  file.write(&header_bytes, sizeof header_bytes);
  file.write(header.data(), header.size());
  for (const NamedTensor* t : order) {
    const Tensor rows = t->tensor.detach().to(Device::cpu()).contiguous();
    file.write(rows.raw_data(), static_cast<std::size_t>(rows.numel()) * size_of(rows.dtype()));
  }
  file.commit();
}

TensorFile load_safetensors(const std::string& path) {
  const InputFile file(path);
  return load(file.size(), path, [&](std::uint64_t offset, void* to, std::uint64_t bytes) { file.read(offset, to, bytes); });
}

TensorFile parse_safetensors(std::span<const std::byte> bytes, const std::string& source) {
  return load(bytes.size(), source, [&](std::uint64_t offset, void* to, std::uint64_t n) {
    if (n > 0) std::memcpy(to, bytes.data() + offset, n);
  });
}

void save_weights(const Module& module, const std::string& path, const Metadata& metadata) {
  save_safetensors(path, module.state_dict(), metadata);
}

LoadResult load_weights(Module& module, const std::string& path, LoadWeightsOptions options) {
  TensorFile file = load_safetensors(path);
  if (is_checkpoint(file)) {
    detail::check_whole(path, file);
    file.tensors = detail::part_of_state(file.tensors, "model");
  }
  return module.load_state_dict(file.tensors, {.strict = options.strict, .source = path});
}

}  // namespace spool
