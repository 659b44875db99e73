// Fetching files over HTTP(S) and unpacking archives. In the library Spool::download, which links libcurl, libarchive and OpenSSL.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "spool/core/errors.h"

namespace spool {

class DownloadError : public IoError {
 public:
  enum class Reason {
    network,  // no connection, a cut that could not be mended, or an HTTP status that is an error
    content,  // wrong size or checksum
    disk,     // the file could not be written
  };
  DownloadError(Reason reason, const std::string& text, long http_status = 0)
      : IoError("download", text), reason_(reason), http_status_(http_status) {}
  Reason reason() const noexcept { return reason_; }
  // 404 and the like; 0 where the server gave none.
  long http_status() const noexcept { return http_status_; }

 private:
  Reason reason_;
  long http_status_;
};

// Called some ten times a second with the bytes that are there, and those there will be (0: unknown).
using DownloadProgress = std::function<void(std::uint64_t received, std::uint64_t total)>;

struct DownloadOptions {
  std::optional<std::uint64_t> bytes = {};  // the expected size
  std::string sha256 = {};                  // the expected checksum, in hexadecimal; empty: not checked
  DownloadProgress progress = {};
  int attempts = 4;           // in a row without a single byte gained
  double retry_seconds = 1;   // wait before the second attempt, doubled for each further one
  double stall_seconds = 30;  // a connection that brings nothing for so long counts as cut
  double connect_seconds = 15;
};

// Fetches `url` (http, https or file) to `file`, creating its folder. Data goes to FILE.part, which a later call continues (where the server can),
// and becomes `file` only after size and checksum were found right. A `file` that is right already is left alone, without a connection.
// Throws DownloadError. A part with wrong contents is removed; after a cut it is kept, to be continued.
void download(const std::string& url, const std::filesystem::path& file, const DownloadOptions& options = {});

// In hexadecimal, lower case. Throws IoError.
std::string sha256_of(const std::filesystem::path& file);

// Unpacks the folder `name` of an archive (tar, zip, ...; compressed or not) to parent/name: into a temporary folder first, which is renamed when
// it is complete. Throws IoError, leaving nothing behind, for a damaged archive, one without that folder, an entry that would land outside of it, a link or
// device, more than `max_bytes` of contents, a full disk, or when parent/name exists already.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& parent, const std::string& name,
            std::uint64_t max_bytes = std::uint64_t{8} << 30);

}  // namespace spool
