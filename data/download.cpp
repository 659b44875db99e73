#include "spool/data/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace spool {
namespace fs = std::filesystem;
namespace {

using Reason = DownloadError::Reason;
using Clock = std::chrono::steady_clock;

// FILE.part: open and locked, so that two processes do not write it at once.
class PartFile {
 public:
  explicit PartFile(const fs::path& path) : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail();
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd_);
      throw DownloadError(
          Reason::disk,
          fmt::format("{} is in use: another process is downloading it; wait for that one to finish", path.string()));
    }
    struct stat s {};
    if (::fstat(fd_, &s) == 0) size_ = static_cast<std::uint64_t>(s.st_size);
  }
  ~PartFile() { ::close(fd_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  std::uint64_t size() const { return size_; }
  void append(const char* data, std::size_t n) {
    while (n) {
      const ssize_t written = ::pwrite(fd_, data, n, static_cast<off_t>(size_));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      data += written;
      n -= static_cast<std::size_t>(written);
      size_ += static_cast<std::uint64_t>(written);
    }
  }
  void clear() {
    if (::ftruncate(fd_, 0) != 0) fail();
    size_ = 0;
  }
  void sync() {
    if (::fsync(fd_) != 0 && errno != EINVAL) fail();
  }
  void remove() noexcept {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }

 private:
  [[noreturn]] void fail() const {
    throw DownloadError(Reason::disk, fmt::format("{} cannot be written: {}", path_.string(), std::strerror(errno)));
  }
  fs::path path_;
  int fd_;
  std::uint64_t size_ = 0;
};

void show(const DownloadOptions& options, std::uint64_t received, std::uint64_t total) {
  if (options.progress) options.progress(received, options.bytes.value_or(total));
}

// One connection. Callbacks of libcurl must not throw, so what they would throw is kept.
struct Transfer {
  CURL* curl;
  const std::string& url;
  const DownloadOptions& options;
  PartFile& part;
  std::uint64_t start;  // bytes that were there before
  bool checked = false;
  std::uint64_t total = 0;
  Clock::time_point shown{};
  std::exception_ptr error;

  void check_first_bytes() {
    long status = 0;
    curl_off_t length = -1;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (start && status == 200) {  // the server sends the whole file again
      part.clear();
      start = 0;
    }
    if (length >= 0) total = start + static_cast<std::uint64_t>(length);
    if (length >= 0 && options.bytes && total != *options.bytes)
      throw DownloadError(Reason::content,
                          fmt::format("{} has {} bytes, expected {}: the file there is another one", url, total, *options.bytes),
                          status);
    checked = true;
  }
  std::size_t receive(const char* data, std::size_t n) noexcept {
    try {
      if (!checked) check_first_bytes();
      if (options.bytes && part.size() + n > *options.bytes)
        throw DownloadError(
            Reason::content,
            fmt::format("{} sends more than the expected {} bytes: the file there is another one", url, *options.bytes));
      part.append(data, n);
      if (Clock::now() - shown > std::chrono::milliseconds(100)) {
        shown = Clock::now();
        show(options, part.size(), total);
      }
      return n;
    } catch (...) {
      error = std::current_exception();
      return 0;
    }
  }
  static std::size_t on_data(char* data, std::size_t size, std::size_t n, void* self) {
    return static_cast<Transfer*>(self)->receive(data, size * n);
  }
};

void init_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) throw DownloadError(Reason::network, fmt::format("libcurl cannot start: {}", curl_easy_strerror(code)));
}

struct Outcome {
  CURLcode code;
  long status;
  std::string why;
};

Outcome fetch_once(const std::string& url, PartFile& part, const DownloadOptions& options) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) throw DownloadError(Reason::network, "libcurl cannot start a transfer");
  char text[CURL_ERROR_SIZE] = "";
  Transfer transfer{.curl = curl.get(), .url = url, .options = options, .part = part, .start = part.size(), .error = {}};
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, url.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https,file");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS | CURLPROTO_FILE));
  set(CURLOPT_REDIR_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "spool");
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(text));
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_seconds * 1000));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options.stall_seconds)));
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_data);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  const std::string range = fmt::format("{}-", part.size());
  if (part.size()) set(CURLOPT_RANGE, range.c_str());
  Outcome outcome{curl_easy_perform(curl.get()), 0, {}};
  if (transfer.error) std::rethrow_exception(transfer.error);
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &outcome.status);
  outcome.why = *text ? text : curl_easy_strerror(outcome.code);
  return outcome;
}

// What waiting and trying again may mend.
bool is_passing(const Outcome& o) {
  if (o.code == CURLE_HTTP_RETURNED_ERROR) return o.status >= 500 || o.status == 408 || o.status == 429;
  return o.code == CURLE_PARTIAL_FILE || o.code == CURLE_RECV_ERROR || o.code == CURLE_SEND_ERROR ||
         o.code == CURLE_GOT_NOTHING || o.code == CURLE_OPERATION_TIMEDOUT || o.code == CURLE_HTTP2 ||
         o.code == CURLE_HTTP2_STREAM;
}

void fetch(const std::string& url, PartFile& part, const DownloadOptions& options) {
  if (options.bytes && part.size() > *options.bytes) part.clear();
  double wait = options.retry_seconds;
  for (int fruitless = 0; !options.bytes || part.size() != *options.bytes || part.size() == 0;) {
    const std::uint64_t before = part.size();
    const Outcome o = fetch_once(url, part, options);
    if (o.code == CURLE_OK && (!options.bytes || part.size() == *options.bytes)) return;
    if (o.status == 416 && before) {  // what is kept is not a beginning of the server's file
      part.clear();
      continue;
    }
    fruitless = part.size() > before ? 0 : fruitless + 1;
    if ((o.code != CURLE_OK && !is_passing(o)) || fruitless >= options.attempts) {
      const std::string kept =
          part.size() ? fmt::format(" ({} bytes are kept, and the next try continues there)", part.size()) : "";
      if (o.code == CURLE_HTTP_RETURNED_ERROR)
        throw DownloadError(Reason::network, fmt::format("{} answered with HTTP status {}{}", url, o.status, kept), o.status);
      throw DownloadError(Reason::network, fmt::format("{} could not be fetched: {}{}", url, o.why, kept), o.status);
    }
    if (fruitless) {
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
      wait *= 2;
    }
  }
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Why the file's contents are wrong; empty when they are right.
std::string fault(const fs::path& file, const DownloadOptions& options) {
  const std::uint64_t size = fs::file_size(file);
  if (options.bytes && size != *options.bytes) return fmt::format("{} bytes instead of {}", size, *options.bytes);
  if (options.sha256.empty()) return {};
  const std::string sum = sha256_of(file);
  return sum == lower(options.sha256) ? std::string() : fmt::format("SHA-256 {} instead of {}", sum, lower(options.sha256));
}

}  // namespace

std::string sha256_of(const fs::path& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "rb"), std::fclose);
  if (!in) throw IoError("sha256", fmt::format("{} cannot be opened: {}", file.string(), std::strerror(errno)));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  std::vector<char> buffer(std::size_t{1} << 20);
  bool good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  while (good) {
    const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), in.get());
    if (n == 0) break;
    good = EVP_DigestUpdate(context.get(), buffer.data(), n) == 1;
  }
  if (std::ferror(in.get())) throw IoError("sha256", fmt::format("{} cannot be read: {}", file.string(), std::strerror(errno)));
  if (!good || EVP_DigestFinal_ex(context.get(), digest, &length) != 1) throw IoError("sha256", "OpenSSL cannot compute SHA-256");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

void download(const std::string& url, const fs::path& file, const DownloadOptions& options) {
  std::error_code error;
  const bool known = options.bytes || !options.sha256.empty();
  if (known && fs::is_regular_file(file, error) && fault(file, options).empty()) return;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  fs::create_directories(folder, error);
  if (error) throw DownloadError(Reason::disk, fmt::format("the folder {} cannot be made: {}", folder.string(), error.message()));
  fs::path part_path = file;
  part_path += ".part";
  {
    PartFile part(part_path);
    const fs::space_info space = fs::space(folder, error);
    if (!error && options.bytes && *options.bytes > part.size() && *options.bytes - part.size() > space.available)
      throw DownloadError(Reason::disk, fmt::format("{} needs {} bytes, but only {} are free in {}", url,
                                                    *options.bytes - part.size(), space.available, folder.string()));
    init_curl();
    try {
      fetch(url, part, options);
      part.sync();
    } catch (const DownloadError& e) {
      if (e.reason() == Reason::content || part.size() == 0) part.remove();
      throw;
    }
    show(options, part.size(), part.size());
    if (const std::string wrong = fault(part_path, options); !wrong.empty()) {
      part.remove();
      throw DownloadError(
          Reason::content,
          fmt::format("what {} sent is not the expected file: {}; it was removed. Try again; should it stay so, the file "
                      "there has changed",
                      url, wrong));
    }
    fs::rename(part_path, file, error);
    if (error)
      throw DownloadError(Reason::disk,
                          fmt::format("{} cannot be renamed to {}: {}", part_path.string(), file.string(), error.message()));
  }
}

}  // namespace spool
