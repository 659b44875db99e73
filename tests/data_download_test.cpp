#include <archive.h>
#include <archive_entry.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include "catch.h"
#include "data_support.h"
#include "http_server.h"
#include "spool/data/cifar.h"
#include "spool/data/cifar10_source.h"
#include "spool/data/download.h"

using namespace spool;
using namespace spool::test;
namespace fs = std::filesystem;
using Reason = DownloadError::Reason;

namespace {

std::string content(std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += static_cast<char>(i * i * 7 + i / 251);
  return text;
}

std::string sha256(const std::string& bytes) {
  const TempFolder folder;
  write_file(folder / "x", bytes);
  return sha256_of(folder / "x");
}

DownloadOptions options_for(const std::string& body) {
  return {.bytes = body.size(),
          .sha256 = sha256(body),
          .attempts = 3,
          .retry_seconds = 0.01,
          .stall_seconds = 5,
          .connect_seconds = 5};
}

DownloadError error_of(const std::string& url, const fs::path& file, const DownloadOptions& options) {
  try {
    download(url, file, options);
  } catch (const DownloadError& e) {
    return e;
  }
  FAIL("nothing was thrown");
  return {Reason::network, ""};
}

// Loopback is reached directly, whatever proxy this machine uses.
struct NoProxy {
  ScopedVariable lower{"no_proxy", "127.0.0.1"}, upper{"NO_PROXY", "127.0.0.1"};
};

struct Entry {
  std::string name, body;
  bool link = false;
};

void write_archive(const fs::path& path, const std::vector<Entry>& entries) {
  const std::unique_ptr<archive, int (*)(archive*)> out(archive_write_new(), archive_write_free);
  archive_write_add_filter_gzip(out.get());
  archive_write_set_format_pax_restricted(out.get());
  REQUIRE(archive_write_open_filename(out.get(), path.c_str()) == ARCHIVE_OK);
  for (const Entry& e : entries) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), e.name.c_str());
    archive_entry_set_filetype(entry.get(), e.link ? AE_IFLNK : AE_IFREG);
    if (e.link) archive_entry_set_symlink(entry.get(), e.body.c_str());
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), e.link ? 0 : static_cast<la_int64_t>(e.body.size()));
    REQUIRE(archive_write_header(out.get(), entry.get()) == ARCHIVE_OK);
    if (!e.link) archive_write_data(out.get(), e.body.data(), e.body.size());
  }
  REQUIRE(archive_write_close(out.get()) == ARCHIVE_OK);
}

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("A checksum is that of the standard") {
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("A file is fetched, checked, and not fetched again", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server(content(300000));
  DownloadOptions options = options_for(server.body);
  std::uint64_t last = 0, total = 0;
  options.progress = [&](std::uint64_t received, std::uint64_t of) { last = received, total = of; };
  const fs::path file = folder / "new folder/file.bin";
  download(server.url(), file, options);
  CHECK(read_file(file) == server.body);
  CHECK(last == 300000);
  CHECK(total == 300000);
  CHECK(entries_in(file.parent_path()) == 1);
  download(server.url(), file, options);
  CHECK(server.starts().size() == 1);
  write_file(file, "something else");  // a file that is wrong is replaced
  download(server.url(), file, options);
  CHECK(read_file(file) == server.body);
  download(server.url(), folder / "unchecked", {});
  CHECK(read_file(folder / "unchecked") == server.body);
}

TEST_CASE("A download that is cut goes on where it stopped", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server(content(300000));
  server.cut_after = 100000;
  server.cuts = 2;
  download(server.url(), folder / "file", options_for(server.body));
  CHECK(read_file(folder / "file") == server.body);
  CHECK(server.starts() == std::vector<std::size_t>{0, 100000, 200000});
}

TEST_CASE("A download that stays cut is an error that keeps the beginning, for the next call", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server(content(300000));
  const DownloadOptions options = options_for(server.body);
  write_file(folder / "file.part", server.body.substr(0, 123456));
  server.status = 503;
  const DownloadError error = error_of(server.url(), folder / "file", options);
  CHECK(error.reason() == Reason::network);
  CHECK(error.http_status() == 503);
  CHECK(mentions(error.what(), {server.url(), "503", "123456 bytes are kept"}));
  CHECK(server.starts().size() == 3);  // the attempts
  CHECK(!fs::exists(folder / "file"));
  server.status = 0;
  download(server.url(), folder / "file", options);
  CHECK(read_file(folder / "file") == server.body);
  CHECK(server.starts().back() == 123456);
}

TEST_CASE("A server without ranges, and one without sizes, serve as well", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server(content(200000));
  server.ranges = false;
  write_file(folder / "file.part", "rubbish that is not the beginning");
  download(server.url(), folder / "file", options_for(server.body));
  CHECK(read_file(folder / "file") == server.body);
  server.announce_size = false;
  server.cut_after = 50000;
  server.cuts = 1;
  fs::remove(folder / "file");
  download(server.url(), folder / "file", options_for(server.body));  // only the known size shows that it was cut
  CHECK(read_file(folder / "file") == server.body);
}

TEST_CASE("A part that is too long is begun anew; one that is complete needs no server", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server(content(1000));
  write_file(folder / "file.part", content(2000));
  download(server.url(), folder / "file", options_for(server.body));
  CHECK(server.starts() == std::vector<std::size_t>{0});
  write_file(folder / "other.part", server.body);
  download("http://127.0.0.1:1/none", folder / "other", options_for(server.body));
  CHECK(read_file(folder / "other") == server.body);
  write_file(folder / "unknown.part", content(5000));  // the server has less than that: it says 416
  download(server.url(), folder / "unknown", {});
  CHECK(read_file(folder / "unknown") == server.body);
}

TEST_CASE("Wrong contents are removed, and named with both checksums or sizes", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server(content(1000));
  DownloadOptions options = options_for(server.body);
  const std::string right = options.sha256;
  options.sha256 = std::string(64, 'a');
  const DownloadError error = error_of(server.url(), folder / "file", options);
  CHECK(error.reason() == Reason::content);
  CHECK(mentions(error.what(), {server.url(), right, options.sha256, "removed"}));
  CHECK(entries_in(folder.path()) == 0);

  options.sha256 = right;
  options.bytes = 2000;
  CHECK(mentions(error_of(server.url(), folder / "file", options).what(), {"has 1000 bytes", "expected 2000"}));
  server.announce_size = false;
  options.bytes = 500;
  CHECK(mentions(error_of(server.url(), folder / "file", options).what(), {"more than the expected 500"}));
  CHECK(entries_in(folder.path()) == 0);
}

TEST_CASE("A server that refuses, and none at all, are network errors that leave nothing behind", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server("x");
  server.status = 404;
  const DownloadError refused = error_of(server.url(), folder / "file", options_for("x"));
  CHECK(refused.reason() == Reason::network);
  CHECK(refused.http_status() == 404);
  CHECK(mentions(refused.what(), {server.url(), "404"}));
  CHECK(server.starts().size() == 1);  // no second try
  const DownloadError absent = error_of("http://127.0.0.1:1/file", folder / "file", options_for("x"));
  CHECK(absent.reason() == Reason::network);
  CHECK(absent.http_status() == 0);
  CHECK(error_of("ftp://127.0.0.1/file", folder / "file", options_for("x")).reason() == Reason::network);
  CHECK(entries_in(folder.path()) == 0);
}

TEST_CASE("A place that cannot be written is a disk error", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server(content(1 << 20));
  write_file(folder / "plain", "a file, not a folder");
  const DownloadError blocked = error_of(server.url(), folder / "plain/cache/file", options_for("x"));
  CHECK(blocked.reason() == Reason::disk);
  CHECK(mentions(blocked.what(), {"plain/cache", "cannot be made"}));
  DownloadOptions huge = options_for("x");
  huge.bytes = std::uint64_t{1} << 60;
  CHECK(mentions(error_of(server.url(), folder / "file", huge).what(), {"only", "are free"}));

  const DownloadOptions options = options_for(server.body);
  // A limit on the size of files stands for a disk that runs full.
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const DownloadError full = error_of(server.url(), folder / "file", options);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(full.reason() == Reason::disk);
  CHECK(mentions(full.what(), {"file.part", "cannot be written"}));
}

TEST_CASE("An archive is unpacked whole, or not at all") {
  const TempFolder folder;
  const fs::path archive = folder / "a.tar.gz", target = folder / "out";
  write_archive(archive, {{"set/one.bin", "1"}, {"set/deep/two.bin", content(600000)}, {"readme", "x"}});
  unpack(archive, target, "set");
  CHECK(read_file(target / "set/one.bin") == "1");
  CHECK(read_file(target / "set/deep/two.bin") == content(600000));
  CHECK(entries_in(target) == 1);
  CHECK(mentions(message_of<IoError>([&] { unpack(archive, target, "set"); }), {"exists already"}));
  fs::remove_all(target);
  CHECK(mentions(message_of<IoError>([&] { unpack(archive, target, "other"); }), {"does not hold a folder 'other'"}));
  CHECK(mentions(message_of<IoError>([&] { unpack(archive, target, "set", 1000); }), {"two.bin", "larger than allowed"}));
  const std::string whole = read_file(archive);
  write_file(archive, whole.substr(0, whole.size() / 2));
  CHECK(mentions(message_of<IoError>([&] { unpack(archive, target, "set"); }), {"a.tar.gz", "damaged"}));
  write_file(archive, "this is a text");
  CHECK(mentions(message_of<IoError>([&] { unpack(archive, target, "set"); }), {"a.tar.gz", "damaged or no archive"}));
  CHECK(mentions(message_of<IoError>([&] { unpack(folder / "absent", target, "set"); }), {"absent"}));
  CHECK(entries_in(target) == 0);
}

TEST_CASE("An archive with an entry outside of its folder, or a link, is refused") {
  const TempFolder folder;
  const fs::path archive = folder / "a.tar.gz", target = folder / "out";
  const std::vector<Entry> bad = {
      {"../escaped", "x"}, {"set/../../escaped", "x"}, {(folder / "escaped").string(), "x"}, {"set/link", "/etc", true}};
  for (const Entry& entry : bad) {
    write_archive(archive, {{"set/good", "x"}, entry});
    CHECK(mentions(message_of<IoError>([&] { unpack(archive, target, "set"); }),
                   {entry.name, entry.link ? "is a link" : "outside"}));
    CHECK(!fs::exists(folder / "escaped"));
    CHECK(entries_in(target) == 0);
  }
}

TEST_CASE("CIFAR-10 is taken from what is given, SPOOL_DATA, the cache, and else downloaded, in this order", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  const std::string record(3073, '\1');
  write_archive(folder / "cifar.tar.gz",
                {{"cifar-10-batches-bin/test_batch.bin", record}, {"cifar-10-batches-bin/data_batch_1.bin", record}});
  HttpServer server(read_file(folder / "cifar.tar.gz"));
  const Cifar10Archive archive{server.url(), server.body.size(), sha256(server.body)};
  const ScopedVariable no_data("SPOOL_DATA", nullptr);
  const ScopedVariable cache("SPOOL_CACHE", (folder / "cache").c_str());

  server.status = 404;
  const Cifar10Source none = find_cifar10({}, {}, archive);
  CHECK(!none.folder);
  CHECK(mentions(none.description, {"cache", "404"}));
  server.status = 0;
  const Cifar10Source fetched = find_cifar10({}, {}, archive);
  REQUIRE(fetched.folder);
  CHECK(mentions(fetched.description, {"downloaded", server.url()}));
  CHECK(Cifar10(*fetched.folder, {.train = false, .official_size = false}).size() == 1);
  CHECK(entries_in(folder / "cache") == 1);  // the archive is not kept
  const std::size_t requests = server.starts().size();
  CHECK(mentions(find_cifar10({}, {}, archive).description, {"(cache)"}));
  CHECK(server.starts().size() == requests);

  write_file(folder / "mine/test_batch.bin", record);
  {
    const ScopedVariable data("SPOOL_DATA", (folder / "mine").c_str());
    CHECK(find_cifar10({}, {}, archive).folder == folder / "mine");
    CHECK(find_cifar10(folder / "cache", {}, archive).folder == folder / "cache");
  }
  {
    const ScopedVariable data("SPOOL_DATA", (folder / "wrong").c_str());
    CHECK(mentions(message_of<IoError>([&] { find_cifar10({}, {}, archive); }), {"$SPOOL_DATA", "wrong", "data_batch_1.bin"}));
  }
  CHECK(mentions(message_of<IoError>([&] { find_cifar10(folder / "wrong", {}, archive); }), {"--data", "wrong"}));
}

TEST_CASE("A cache that cannot be written, and a wrong archive, are errors and not a quiet fallback", "[threads]") {
  const NoProxy direct;
  const TempFolder folder;
  HttpServer server("not the archive");
  const ScopedVariable no_data("SPOOL_DATA", nullptr);
  const Cifar10Archive wrong{server.url(), server.body.size(), std::string(64, 'a')};
  {
    const ScopedVariable cache("SPOOL_CACHE", (folder / "cache").c_str());
    CHECK(mentions(message_of<IoError>([&] { find_cifar10({}, {}, wrong); }), {server.url(), "SHA-256"}));
  }
  write_file(folder / "plain", "x");
  const ScopedVariable cache("SPOOL_CACHE", (folder / "plain").c_str());
  CHECK(mentions(message_of<IoError>([&] { find_cifar10({}, {}, wrong); }), {"plain", "SPOOL_CACHE"}));
}

TEST_CASE("The cache folder follows SPOOL_CACHE, XDG_CACHE_HOME and HOME") {
  const ScopedVariable own("SPOOL_CACHE", "/a"), xdg("XDG_CACHE_HOME", "/b"), home("HOME", "/c");
  CHECK(cache_folder() == "/a");
  const ScopedVariable no_own("SPOOL_CACHE", nullptr);
  CHECK(cache_folder() == "/b/spool");
  const ScopedVariable no_xdg("XDG_CACHE_HOME", "");
  CHECK(cache_folder() == "/c/.cache/spool");
  const ScopedVariable no_home("HOME", nullptr);
  CHECK(mentions(message_of<IoError>([] { cache_folder(); }), {"SPOOL_CACHE", "HOME"}));
}
