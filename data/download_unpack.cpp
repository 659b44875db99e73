#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>

#include "spool/data/download.h"

namespace spool {
namespace fs = std::filesystem;
namespace {

// A new folder that goes away with this object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& parent) {
    std::string pattern = (parent / ".unpack-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      throw IoError("unpack", fmt::format("no folder can be made in {}: {}", parent.string(), std::strerror(errno)));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Unpacker {
 public:
  Unpacker(const fs::path& archive, const fs::path& into, std::uint64_t max_bytes)
      : archive_(archive), into_(into), left_(max_bytes), reader_(archive_read_new(), archive_read_free) {}

  void run() {
    archive_read_support_filter_all(reader_.get());
    archive_read_support_format_all(reader_.get());
    if (archive_read_open_filename(reader_.get(), archive_.c_str(), std::size_t{1} << 20) != ARCHIVE_OK) damaged();
    for (archive_entry* entry = nullptr;;) {
      const int code = archive_read_next_header(reader_.get(), &entry);
      if (code == ARCHIVE_EOF) return;
      if (code != ARCHIVE_OK && code != ARCHIVE_WARN) damaged();
      take(entry);
    }
  }

 private:
  [[noreturn]] void damaged() const {
    const char* why = archive_error_string(reader_.get());
    throw IoError("unpack", fmt::format("{} is damaged or no archive: {}", archive_.string(), why ? why : "unknown reason"));
  }
  [[noreturn]] void refuse(const std::string& name, const char* why) const {
    throw IoError("unpack", fmt::format("{} holds '{}', which {}: it was not unpacked", archive_.string(), name, why));
  }

  void take(archive_entry* entry) {
    const char* raw = archive_entry_pathname(entry);
    const std::string name = raw ? raw : "";
    const fs::path path(name);
    if (name.empty() || path.is_absolute()) refuse(name, "would land outside of the folder");
    for (const fs::path& piece : path)
      if (piece == "..") refuse(name, "would land outside of the folder");
    if (archive_entry_hardlink(entry) || archive_entry_symlink(entry)) refuse(name, "is a link");
    std::error_code error;
    if (archive_entry_filetype(entry) == AE_IFDIR) {
      fs::create_directories(into_ / path, error);
    } else if (archive_entry_filetype(entry) == AE_IFREG) {
      fs::create_directories((into_ / path).parent_path(), error);
      if (!error) write(into_ / path, name);
    } else {
      refuse(name, "is neither a file nor a folder");
    }
    if (error) throw IoError("unpack", fmt::format("{} cannot be written: {}", (into_ / path).string(), error.message()));
  }

  void write(const fs::path& path, const std::string& name) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    const auto fail = [&] {
      throw IoError("unpack", fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
    };
    if (fd < 0) fail();
    const std::unique_ptr<const int, void (*)(const int*)> closer(&fd, [](const int* f) { ::close(*f); });
    std::string buffer(std::size_t{1} << 18, '\0');
    for (;;) {
      const la_ssize_t got = archive_read_data(reader_.get(), buffer.data(), buffer.size());
      if (got == 0) return;
      if (got < 0) damaged();
      if (static_cast<std::uint64_t>(got) > left_) refuse(name, "makes the contents larger than allowed");
      left_ -= static_cast<std::uint64_t>(got);
      for (const char *at = buffer.data(), *end = at + got; at < end;) {
        const ssize_t n = ::write(fd, at, static_cast<std::size_t>(end - at));
        if (n < 0 && errno != EINTR) fail();
        if (n > 0) at += n;
      }
    }
  }

  const fs::path &archive_, &into_;
  std::uint64_t left_;
  std::unique_ptr<struct archive, int (*)(struct archive*)> reader_;
};

}  // namespace

void unpack(const fs::path& archive, const fs::path& parent, const std::string& name, std::uint64_t max_bytes) {
  std::error_code error;
  if (!fs::is_regular_file(archive, error)) throw IoError("unpack", fmt::format("there is no archive {}", archive.string()));
  fs::create_directories(parent, error);
  if (error) throw IoError("unpack", fmt::format("the folder {} cannot be made: {}", parent.string(), error.message()));
  const fs::path target = parent / name;
  if (fs::exists(target, error)) throw IoError("unpack", fmt::format("{} exists already: remove it first", target.string()));
  const TemporaryFolder temporary(parent);
  Unpacker(archive, temporary.path(), max_bytes).run();
  if (!fs::is_directory(temporary.path() / name, error))
    throw IoError("unpack", fmt::format("{} does not hold a folder '{}'", archive.string(), name));
  fs::rename(temporary.path() / name, target, error);
  if (error) throw IoError("unpack", fmt::format("{} cannot be made: {}", target.string(), error.message()));
}

}  // namespace spool
