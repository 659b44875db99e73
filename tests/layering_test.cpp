// Which folder may include which, read off the sources: an arrow that points the other way fails here.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "catch.h"

namespace fs = std::filesystem;

namespace {

const fs::path root = SPOOL_SOURCE_DIR;

struct Include {
  fs::path file;
  std::string target;
};

std::vector<Include> includes_of(const std::string& folder) {
  std::vector<Include> found;
  const std::regex pattern(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
    std::ifstream file(entry.path());
    std::smatch match;
    for (std::string line; std::getline(file, line);)
      if (std::regex_search(line, match, pattern)) found.push_back({entry.path(), match[1]});
  }
  return found;
}

}  // namespace

TEST_CASE("Folders include only what lies below them") {
  // core/spool.h includes everything, for users.
  const std::map<std::string, std::set<std::string>> allowed{
      {"core", {"core"}},
      {"kernels", {"core", "kernels"}},
      {"autograd", {"core", "kernels", "autograd"}},
      {"layers", {"core", "kernels", "autograd", "layers"}},
      {"optim", {"core", "kernels", "autograd", "optim"}},
      {"data", {"core", "autograd", "data"}},
      {"train", {"core", "kernels", "autograd", "layers", "optim", "data", "train"}},
  };
  int seen = 0;
  for (const auto& [folder, below] : allowed)
    for (const Include& i : includes_of(folder)) {
      if (i.target.rfind("spool/", 0) != 0 || i.file.filename() == "spool.h") continue;
      const std::string target = i.target.substr(6, i.target.find('/', 6) - 6);
      INFO(i.file << " includes " << i.target);
      CHECK(below.count(target) == 1);
      CHECK(fs::exists(root / i.target.substr(6)));
      ++seen;
    }
  CHECK(seen > 100);
}

TEST_CASE("Public headers bring in no other library") {
  const std::regex foreign(
      "^(fmt|Eigen|nlohmann|stb|curl|CLI|catch2|openssl|cuda|cudnn|cublas)[/_.]|dnnl|archive\\.h|omp\\.h|sanitizer");
  for (const std::string folder : {"core", "kernels", "autograd", "layers", "optim", "data", "train"})
    for (const Include& i : includes_of(folder)) {
      const std::string inside = fs::relative(i.file, root).string();
      if (i.file.extension() != ".h" || inside.rfind("kernels/cpu/", 0) == 0 || inside.rfind("kernels/cuda/", 0) == 0) continue;
      INFO(inside << " includes " << i.target);
      CHECK_FALSE(std::regex_search(i.target, foreign));
    }
}
