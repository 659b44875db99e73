// Saving while things go wrong: the disk is full, the process is killed, somebody else saves.
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "spool/train/atomic_file.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Folder {
  std::string path = std::string(SPOOL_BINARY_DIR) + "/atomic_test_" + std::to_string(::getpid());
  Folder() { REQUIRE(::mkdir(path.c_str(), 0777) == 0); }
  ~Folder() {
    for (const std::string& f : files()) ::unlink((path + '/' + f).c_str());
    ::rmdir(path.c_str());
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    DIR* d = ::opendir(path.c_str());
    while (const dirent* e = ::readdir(d))
      if (e->d_name[0] != '.') names.push_back(e->d_name);
    ::closedir(d);
    return names;
  }
};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

// Every element of every tensor of state `n` is n.
StateDict state(std::int64_t n) {
  return {{"a", full({60'000}, n)}, {"b", full({40'000}, n)}, {"n", full({1}, n, {.dtype = i64})}};
}

}  // namespace

TEST_CASE("A file that is not committed leaves the old one and no trace") {
  const Folder folder;
  const std::string path = folder.path + "/f";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("new", 3);
    CHECK(contents(path) == "old");
  }
  CHECK(contents(path) == "old");
  CHECK(folder.files() == std::vector<std::string>{"f"});
  write_file(path, "newer");
  CHECK(contents(path) == "newer");
  CHECK(folder.files() == std::vector<std::string>{"f"});
}

TEST_CASE("Two writers of one path do not mix: the second is refused while the first writes") {
  const Folder folder;
  const std::string path = folder.path + "/f";
  {
    AtomicFile first(path);
    first.write("first", 5);
    CHECK(contains(message_of<IoError>([&] { AtomicFile second(path); }), "is saving to it right now"));
    first.commit();
  }
  CHECK(contents(path) == "first");
  write_file(path, "second");
  CHECK(contents(path) == "second");
}

TEST_CASE("A full disk is an error that leaves the old file, and the process alive") {
  const Folder folder;
  const std::string path = folder.path + "/weights.safetensors";
  save_safetensors(path, state(1));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 100'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);  // its signal would end the process if the writer did not see to that
  std::string text;
  try {
    save_safetensors(path, state(2));
  } catch (const IoError& e) {
    text = e.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  CHECK(contains(text, "weights.safetensors"));
  CHECK(contains(text, "File too large"));
  CHECK(folder.files() == std::vector<std::string>{"weights.safetensors"});
  CHECK(load_safetensors(path).tensors[0].tensor.to_vector<float>()[0] == 1);
}

TEST_CASE("A save that throws half way leaves the old file") {
  const Folder folder;
  const std::string path = folder.path + "/w";
  save_safetensors(path, state(1));
  StateDict bad = state(2);
  bad.push_back({"undefined", Tensor()});
  CHECK_THROWS_AS(save_safetensors(path, bad), ValueError);
  CHECK(load_safetensors(path).tensors.back().tensor.item<std::int64_t>() == 1);
  CHECK(folder.files().size() == 1);
}

TEST_CASE("Killed at any moment of saving, the file loads and is one that was saved whole") {
  const Folder folder;
  const std::string path = folder.path + "/w";
  save_safetensors(path, state(0));
  std::int64_t last = 0;
  for (int round = 0; round < 25; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      set_num_threads(1);  // the threads of the parent are not here
      for (std::int64_t n = last + 1;; ++n) save_safetensors(path, state(n));
    }
    REQUIRE(child > 0);
    ::usleep(static_cast<useconds_t>(1000 + 797 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const TensorFile file = load_safetensors(path);
    const std::int64_t n = find_tensor(file.tensors, "n")->item<std::int64_t>();
    CHECK(n >= last);
    for (const char* name : {"a", "b"}) {
      const Tensor* t = find_tensor(file.tensors, name);
      CHECK(all(eq(*t, static_cast<double>(n))).item<bool>());
    }
    CHECK(folder.files().size() <= 2);  // the file, and at most one that was being written
    last = n;
  }
  CHECK(last > 0);
  save_safetensors(path, state(last + 1));
  CHECK(folder.files() == std::vector<std::string>{"w"});
}

TEST_CASE("Saving through a link replaces what it stands for") {
  const Folder folder;
  const std::string real = folder.path + "/real", link = folder.path + "/link";
  write_file(real, "old");
  REQUIRE(::symlink("real", link.c_str()) == 0);
  write_file(link, "new");
  CHECK(contents(real) == "new");
  struct stat entry {};
  REQUIRE(::lstat(link.c_str(), &entry) == 0);
  CHECK(S_ISLNK(entry.st_mode));
}
