// The bundled example, as a user starts it.
#include <filesystem>

#include "data_pictures.h"
#include "programs/spawn.h"
#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Result {
  int code;
  std::string out, err;
};

Result cifar10(const TempFolder& folder, const std::vector<std::string>& arguments) {
  const std::string out = (folder / "out.txt").string(), err = (folder / "err.txt").string();
  const int status = status_of(start(SPOOL_CIFAR10, arguments, out, err));
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_file(out), read_file(err)};
}

std::vector<std::string> training(std::vector<std::string> more) {
  std::vector<std::string> all{"--synthetic", "--limit",   "200", "--batch-size", "50", "--epochs",
                               "4",           "--threads", "1",   "--augment"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("The example trains, logs, reports, and goes on after a signal with the weights of a run that was left alone") {
  const TempFolder folder;
  const auto in = [&](const char* name) { return (folder / name).string(); };
  const Result whole = cifar10(folder, training({"--save", in("whole.st"), "--log", in("log.csv"), "--log", in("log.jsonl"),
                                                 "--log", in("board"), "--report", in("report.html"), "--summary"}));
  CHECK(whole.err == "");
  REQUIRE(whole.code == 0);
  CHECK(mentions(whole.out, {"data   the built-in synthetic pictures", "200 training and 40 test pictures", "1070986 parameters",
                             "conv2 ", " MFLOPs forward", "epoch 4/4  train loss ", "  test loss ",
                             "\ntest accuracy: ", "  accuracy  samples", "triangle", "weights saved to", "report written to"}));
  CHECK(mentions(read_file(in("report.html")), {"ConvNet on CIFAR-10", "synthetic pictures", "Most wrong pictures"}));
  CHECK(read_file(in("log.csv")).starts_with("epoch,step,"));
  CHECK(std::filesystem::exists(in("log.jsonl")));
  CHECK(std::filesystem::is_directory(folder / "board" / "validation"));

  const pid_t child = start(SPOOL_CIFAR10, training({"--checkpoint", in("run.st")}), in("first.txt"));
  for (int i = 0; i < 3000 && !std::filesystem::exists(in("run.st")); ++i) ::usleep(10'000);  // one epoch is done
  ::kill(child, SIGTERM);
  const int status = status_of(child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(mentions(read_file(in("first.txt")),
                 {"interrupted by SIGTERM after step", "resume from " + in("run.st"), "test accuracy: "}));
  const Result rest = cifar10(folder, training({"--resume", in("run.st"), "--save", in("rest.st")}));
  REQUIRE(rest.code == 0);
  CHECK(mentions(rest.out, {"resuming " + in("run.st"), "epoch 4/4"}));
  CHECK(rest.out.find("epoch 1/4  train") == std::string::npos);
  CHECK(read_file(in("rest.st")) == read_file(in("whole.st")));
}

TEST_CASE("The example says what is in pictures, with a bar for every class") {
  const TempFolder folder;
  const auto in = [&](const char* name) { return (folder / name).string(); };
  const Result trained = cifar10(folder, training({"--checkpoint", in("run.st")}));
  REQUIRE(trained.code == 0);
  std::vector<int> pixels;
  for (int i = 0; i < 50 * 40 * 3; ++i) pixels.push_back(i * 7 % 256);
  write_file(in("a picture.jpg"), jpeg_of(50, 40, pixels, 90));
  write_file(in("not one.png"), "text");
  const Result result = cifar10(folder, {"predict", "--load", in("run.st"), in("a picture.jpg"), in("not one.png")});
  CHECK(result.code == 1);
  CHECK(mentions(result.err, {"not one.png", "not a picture"}));
  CHECK(mentions(result.out, {in("a picture.jpg") + "  50 x 40\n", "  triangle", "  disc ", "="}));
  std::istringstream lines(result.out);
  std::string line;
  std::getline(lines, line);
  double total = 0, before = 1;
  int classes = 0;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name, bar;
    double part = -1;
    words >> name >> part >> bar;
    CHECK(part <= before);
    CHECK(static_cast<double>(bar.size()) == Approx(part * 50).margin(0.6));
    total += part;
    before = part;
    ++classes;
  }
  CHECK(classes == 10);
  CHECK(total == Approx(1).margin(1e-3));
  CHECK(cifar10(folder, {"predict", in("a picture.jpg")}).code == 2);  // without weights
}

TEST_CASE("On the CPU the example says that steps are not captured, and trains") {
  const TempFolder folder;
  const Result result = cifar10(folder, training({"--device", "cpu", "--capture"}));
  CHECK(result.code == 0);
  CHECK(mentions(result.out, {"warning: steps are not captured: ", "epoch 4/4", "test accuracy: "}));
}

TEST_CASE("The example refuses files that it could not write before it trains") {
  const TempFolder folder;
  const Result result = cifar10(folder, training({"--report", "/proc/none/report.html"}));
  CHECK(result.code == 1);
  CHECK(mentions(result.err, {"--report", "/proc/none"}));
  CHECK(result.out == "");
  CHECK(mentions(cifar10(folder, {"--help"}).out, {"--checkpoint", "--resume", "--report", "--log", "predict"}));
}
