#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>

#include "spool/train/crc32c.h"
#include "spool/train/event_file.h"
#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += "0123456789abcdef"[(c >> 4) & 15], text += "0123456789abcdef"[c & 15];
  return text;
}

// The payloads of an event file's records, as far as lengths and checksums are right.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at + 16 <= file.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data() + at, 8);
    if (length > file.size() - at - 16) break;
    const std::string payload = file.substr(at + 12, length);
    if (detail::event_record(payload) != file.substr(at, length + 16)) break;
    records.push_back(payload);
    at += length + 16;
  }
  return records;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& f : std::filesystem::directory_iterator(folder)) files.push_back(f.path());
  return files;
}

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

struct StopAfter : Callback {
  std::int64_t step;
  explicit StopAfter(std::int64_t s) : step(s) {}
  void on_step_end(Trainer& t, const StepRecord& s) override {
    if (s.step == step) t.stop("here");
  }
};

}  // namespace

TEST_CASE("CRC-32C has its published check value, in pieces too") {
  CHECK(detail::crc32c("123456789", 9) == 0xE3069283u);
  CHECK(detail::crc32c("56789", 5, detail::crc32c("1234", 4)) == 0xE3069283u);
  CHECK(detail::crc32c("", 0) == 0);
  const std::string zeros(32, '\0');  // RFC 3720, B.4
  CHECK(detail::crc32c(zeros.data(), 32) == 0x8A9136AAu);
}

TEST_CASE("An event record has the bytes that TensorBoard expects") {
  CHECK(hex(detail::event_record(detail::version_event(1.0))) ==
        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  // A length of zero, with its masked checksum; zeros at the end of a file are not that.
  CHECK(hex(detail::event_record("")).substr(16, 8) == "29039807");
}

TEST_CASE("An event file that was cut anywhere is read up to its last whole record") {
  const TempFolder folder;
  std::string path;
  {
    EventFile file((folder / "run").string());
    for (int i = 1; i <= 20; ++i) file.add_scalar("loss", 1.0 / i, i);
    path = file.path();
  }
  const std::string whole = read_file(path);
  CHECK(records_of(whole).size() == 21);
  CHECK(contains(path, "/events.out.tfevents."));
  const std::size_t last = whole.size() - (records_of(whole).back().size() + 16);
  CHECK(records_of(whole.substr(0, last)).size() == 20);
  CHECK(records_of(whole.substr(0, whole.size() - 1)).size() == 20);
  CHECK(records_of(whole + std::string(40, '\0')).size() == 21);
  CHECK(mentions(message_of<IoError>([] { EventFile("/proc/none"); }), {"/proc/none"}));
}

TEST_CASE("A CSV log has a row an epoch, and one table after a resume") {
  const TempFolder folder;
  const std::string path = (folder / "log.csv").string(), checkpoint = (folder / "run").string();
  SmallRun run, again, whole;
  CsvLog csv(path);
  StopAfter stop(8);
  TrainerOptions options{.epochs = 3, .checkpoint = checkpoint, .callbacks = {&csv, &stop}, .verbose = false};
  Trainer(*run.model, *run.adam, options).fit(*run.training, *run.validation);
  options.callbacks = {&csv};
  options.resume = checkpoint;
  const TrainReport report = Trainer(*again.model, *again.adam, options).fit(*again.training, *again.validation);
  const std::string text = read_file(path);
  CHECK(text == to_csv(report.epochs));
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  CHECK(text.starts_with("epoch,step,seconds,lr,grad_norm,samples,loss,accuracy,val_loss,val_accuracy\n1,6,"));
  EpochRecord odd{.epoch = 1};
  odd.train = {{"a,\"b\"", std::nan("")}};
  CHECK(mentions(to_csv({odd}), {",\"a,\"\"b\"\"\"\n", ",nan\n"}));
}

TEST_CASE("A JSON log has complete lines; a resumed run takes out the steps that it does again") {
  const TempFolder folder;
  const std::string path = (folder / "log.jsonl").string(), checkpoint = (folder / "run").string();
  SmallRun run, again;
  JsonLog log(path);
  StopAfter stop(8);
  TrainerOptions options{.epochs = 2, .checkpoint = checkpoint, .callbacks = {&log, &stop}, .verbose = false};
  Trainer(*run.model, *run.adam, options).fit(*run.training, *run.validation);
  // As if the process had gone on and been killed, while it wrote, before it saved again.
  std::ofstream(path, std::ios::app) << R"({"event": "step", "step": 9})" << '\n' << R"({"event": "step", "st)";
  JsonLog second(path);
  options.callbacks = {&second};
  options.resume = checkpoint;
  Trainer(*again.model, *again.adam, options).fit(*again.training, *again.validation);
  std::vector<std::int64_t> steps;
  std::vector<std::string> others;
  for (const auto& line : lines_of(path))
    line["event"] == "step" ? steps.push_back(line["step"]) : others.push_back(line["event"].get<std::string>());
  std::vector<std::int64_t> expected(12);
  for (std::size_t i = 0; i < 12; ++i) expected[i] = static_cast<std::int64_t>(i) + 1;
  CHECK(steps == expected);
  CHECK(others == std::vector<std::string>{"fit", "epoch", "end", "fit", "epoch", "end"});
  const auto lines = lines_of(path);
  CHECK(lines.front()["parameters"] == run.model->num_parameters());
  CHECK(lines.back()["best_epoch"].get<int>() >= 1);
  CHECK_THROWS_AS(JsonLog(path, {.every_steps = -1}), ValueError);
}

TEST_CASE("A TensorBoard log keeps training and validation as two runs") {
  const TempFolder folder;
  SmallRun run;
  TensorBoardLog board((folder / "board").string(), {.every_steps = 2});
  Trainer(*run.model, *run.adam, {.epochs = 2, .callbacks = {&board}, .verbose = false}).fit(*run.training, *run.validation);
  const auto train = files_in(folder / "board" / "train"), validation = files_in(folder / "board" / "validation");
  REQUIRE(train.size() == 1);
  REQUIRE(validation.size() == 1);
  CHECK(records_of(read_file(train[0])).size() == 1 + 1 + 3 * 6 + 2 * 2);  // version, model, steps, epochs
  CHECK(records_of(read_file(validation[0])).size() == 1 + 2 * 2);
}
