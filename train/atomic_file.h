// Writing a file so that whoever reads its name sees the old contents or the new ones, whole, whatever happens in between.
#pragma once
#include <cstddef>
#include <string>

namespace spool {

// Bytes go to "<path>.tmp" in the same folder; commit() brings them to the disk and gives the file its name. Without a commit, exceptions included,
// the temporary file is removed and the old one left as it is. A killed process leaves at most that one temporary file behind, and the next save
// overwrites it. Errors (IoError) name the path and the system's reason. A second writer of the same path at the same time is refused.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* what, int error) const;

  std::string path_, temporary_;
  int fd_ = -1;
};

}  // namespace spool
