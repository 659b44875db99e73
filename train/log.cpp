#include "spool/train/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "spool/core/build_info.h"
#include "spool/core/errors.h"
#include "spool/train/atomic_file.h"
#include "spool/train/event_file.h"
#include "spool/train/trainer.h"

namespace spool {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

// The step that a line of a JsonLog belongs to; -1 for a line that is none.
std::int64_t step_of(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return -1;
  const auto step = json.find("step");
  return step != json.end() && step->is_number_integer() ? step->get<std::int64_t>() : 0;
}

// What a run that goes on from `step` keeps of an earlier log: no line that was cut, none of a step that it will take again.
std::string lines_until(const std::string& path, std::int64_t step) {
  std::ifstream in(path, std::ios::binary);
  std::string kept, line;
  while (std::getline(in, line) && !in.eof()) {
    const std::int64_t at = step_of(line);
    if (at >= 0 && at <= step) kept += line + '\n';
  }
  return kept;
}

void replace_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace

std::string to_csv(const std::vector<EpochRecord>& epochs) {
  std::vector<std::string> columns;  // of every epoch: a resumed run may have other metrics
  for (const EpochRecord& e : epochs)
    for (const auto& [name, value] : e.values())
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  std::string text = "epoch,step,seconds,lr,grad_norm,samples";
  for (const std::string& name : columns) text += ',' + csv_field(name);
  text += '\n';
  for (const EpochRecord& e : epochs) {
    text += fmt::format("{},{},{:.3f},{},{},{}", e.epoch, e.step, e.seconds, e.lr, e.grad_norm, e.samples);
    for (const std::string& name : columns) {
      const auto value = e.find(name);
      text += value ? fmt::format(",{}", *value) : ",";
    }
    text += '\n';
  }
  return text;
}

void CsvLog::on_epoch_end(Trainer& trainer, const EpochRecord&) { replace_file(path_, to_csv(trainer.report().epochs)); }

JsonLog::JsonLog(std::string path, Options options) : path_(std::move(path)), options_(options) {
  if (options.every_steps < 0)
    throw ValueError("JsonLog", fmt::format("every_steps must be at least 0, not {}", options.every_steps));
}

JsonLog::~JsonLog() {
  if (file_ >= 0) ::close(file_);
}

void JsonLog::write(const std::string& line) {
  if (file_ < 0) return;  // a warning from before the run began; "fit" repeats it
  const std::string text = line + '\n';
  const ssize_t written = ::write(file_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()))
    throw IoError("JsonLog", fmt::format("cannot write '{}': {}", path_,
                                         written < 0 ? std::system_category().message(errno) : "the disk is full"));
}

void JsonLog::on_fit_begin(Trainer& trainer) {
  if (file_ >= 0) ::close(file_);
  const TrainReport& report = trainer.report();
  replace_file(path_, report.steps > 0 ? lines_until(path_, report.steps) : "");
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw IoError("JsonLog", fmt::format("cannot write '{}': {}", path_, std::system_category().message(errno)));
  write(Json{{"event", "fit"},
             {"step", report.steps},
             {"model", trainer.model().type_name()},
             {"parameters", trainer.model().num_parameters()},
             {"optimizer", trainer.optimizer().name()},
             {"epochs", trainer.options().epochs},
             {"batch_size", trainer.training()->options().batch_size},
             {"spool_version", version()},
             {"warnings", report.warnings}}
            .dump(-1, ' ', false, Json::error_handler_t::replace));
}

void JsonLog::on_step_end(Trainer&, const StepRecord& s) {
  if (options_.every_steps == 0 || s.step % options_.every_steps != 0) return;
  write(Json{{"event", "step"},
             {"step", s.step},
             {"epoch", s.epoch},
             {"loss", number(s.loss())},
             {"grad_norm", number(s.grad_norm())},
             {"lr", number(s.lr)},
             {"samples", s.samples}}
            .dump());
}

void JsonLog::on_epoch_end(Trainer&, const EpochRecord& e) {
  Json json{{"event", "epoch"},     {"step", e.step},     {"epoch", e.epoch},
            {"seconds", e.seconds}, {"lr", number(e.lr)}, {"grad_norm", number(e.grad_norm)},
            {"samples", e.samples}};
  for (const auto& [name, value] : e.values()) json[name] = number(value);
  write(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void JsonLog::on_warning(Trainer& trainer, const std::string& text) {
  write(Json{{"event", "warning"}, {"step", trainer.report().steps}, {"text", text}}.dump(-1, ' ', false,
                                                                                          Json::error_handler_t::replace));
}

void JsonLog::on_fit_end(Trainer&, const TrainReport& report) {
  write(Json{{"event", "end"},
             {"step", report.steps},
             {"stopped", report.stopped},
             {"best_epoch", report.best_epoch},
             {"best", number(report.best)}}
            .dump(-1, ' ', false, Json::error_handler_t::replace));
}

TensorBoardLog::TensorBoardLog(std::string folder, Options options) : folder_(std::move(folder)), options_(options) {
  if (options.every_steps < 0)
    throw ValueError("TensorBoardLog", fmt::format("every_steps must be at least 0, not {}", options.every_steps));
}
TensorBoardLog::~TensorBoardLog() = default;

void TensorBoardLog::on_fit_begin(Trainer& trainer) {
  const std::int64_t steps = trainer.report().steps;
  const auto resumed = steps > 0 ? std::optional(steps) : std::nullopt;
  train_ = std::make_unique<EventFile>(folder_ + "/train", resumed);
  validation_ = trainer.validation() ? std::make_unique<EventFile>(folder_ + "/validation", resumed) : nullptr;
  train_->add_text("model", "```\n" + to_string(trainer.model()) + "\n```", steps);
}

void TensorBoardLog::on_step_end(Trainer&, const StepRecord& s) {
  if (options_.every_steps == 0 || s.step % options_.every_steps != 0) return;
  train_->add_scalar("step/loss", s.loss(), s.step);
  train_->add_scalar("step/lr", s.lr, s.step);
  train_->add_scalar("step/grad_norm", s.grad_norm(), s.step);
}

void TensorBoardLog::on_epoch_end(Trainer&, const EpochRecord& e) {
  for (const auto& [name, value] : e.train) train_->add_scalar(name, value, e.step);
  if (validation_)
    for (const auto& [name, value] : e.validation) validation_->add_scalar(name, value, e.step);
}

}  // namespace spool
