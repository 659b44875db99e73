#include "spool/train/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "spool/core/errors.h"

namespace spool {
namespace {

// A write beyond the process's file-size limit raises SIGXFSZ, which would end the process; blocked, write() fails with EFBIG instead.
class BlockFileSizeSignal {
 public:
  BlockFileSizeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~BlockFileSizeSignal() {
    if (sigismember(&before_, SIGXFSZ)) return;
    const timespec now{};
    while (sigtimedwait(&set_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t set_, before_;
};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

}  // namespace

void AtomicFile::fail(const char* what, int error) const {
  throw IoError("save", fmt::format("cannot {} '{}': {}", what, path_, std::system_category().message(error)));
}

// The file that a link stands for is replaced, not the link.
static std::string behind_link(std::string path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const auto target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

AtomicFile::AtomicFile(std::string path) : path_(behind_link(std::move(path))), temporary_(path_ + ".tmp") {
  struct stat file {};
  if (::stat(path_.c_str(), &file) == 0 && !S_ISREG(file.st_mode))
    throw IoError("save", fmt::format("'{}' exists and is not a regular file", path_));
  while (true) {
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) fail("create a file beside", errno);
    struct stat opened {
    }, named{};
    const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    // Between the two calls another writer may have given the file its final name: then it is not ours to touch, and there is room for a new one.
    if (locked && ::fstat(fd_, &opened) == 0 && ::stat(temporary_.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
        opened.st_dev == named.st_dev)
      break;
    ::close(fd_);
    fd_ = -1;
    if (!locked)
      throw IoError("save", fmt::format("cannot save '{}': another process or thread is saving to it right now", path_));
  }
  if (::ftruncate(fd_, 0) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    ::close(fd_);
    fail("write", error);
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const BlockFileSizeSignal guard;
  auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, at, std::min<std::size_t>(bytes, std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", errno);
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("write", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("write", errno);
  ::close(fd_);
  fd_ = -1;
  // The new name is an entry of the folder, which has to reach the disk too. Some file systems cannot be told; then there is nothing more to do.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

}  // namespace spool
