#include "spool/train/history.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "spool/core/errors.h"

namespace spool {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinities.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double to_number(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const auto& text = json.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

Json values_to_json(const NamedValues& values) {
  Json list = Json::array();
  for (const auto& [name, value] : values) list.push_back({name, number(value)});
  return list;
}

NamedValues values_from_json(const Json& list) {
  NamedValues values;
  for (const Json& entry : list) values.emplace_back(entry.at(0).get<std::string>(), to_number(entry.at(1)));
  return values;
}

double read(const std::shared_ptr<StepRecord::Numbers>& numbers, double StepRecord::Numbers::*which) {
  if (!numbers) return std::numeric_limits<double>::quiet_NaN();
  if (numbers->fetch) numbers->fetch();
  return (*numbers).*which;
}

}  // namespace

double StepRecord::loss() const { return read(numbers, &Numbers::loss); }
double StepRecord::grad_norm() const { return read(numbers, &Numbers::grad_norm); }

std::optional<double> EpochRecord::find(std::string_view name) const {
  for (const auto& [known, value] : values())
    if (known == name) return value;
  return {};
}

NamedValues EpochRecord::values() const {
  NamedValues all = train;
  for (const auto& [name, value] : validation) all.emplace_back("val_" + name, value);
  return all;
}

std::string to_json(const std::vector<EpochRecord>& epochs) {
  Json list = Json::array();
  for (const EpochRecord& e : epochs)
    list.push_back({{"epoch", e.epoch},
                    {"step", e.step},
                    {"lr", number(e.lr)},
                    {"grad_norm", number(e.grad_norm)},
                    {"seconds", number(e.seconds)},
                    {"samples", e.samples},
                    {"train", values_to_json(e.train)},
                    {"validation", values_to_json(e.validation)}});
  return list.dump();
}

std::vector<EpochRecord> epochs_from_json(const std::string& text, const std::string& source) {
  std::vector<EpochRecord> epochs;
  try {
    for (const Json& e : Json::parse(text))
      epochs.push_back({.epoch = e.at("epoch").get<std::int64_t>(),
                        .step = e.at("step").get<std::int64_t>(),
                        .lr = to_number(e.at("lr")),
                        .grad_norm = to_number(e.at("grad_norm")),
                        .seconds = to_number(e.at("seconds")),
                        .samples = e.at("samples").get<std::int64_t>(),
                        .train = values_from_json(e.at("train")),
                        .validation = values_from_json(e.at("validation"))});
  } catch (const nlohmann::json::exception& e) {
    throw IoError("load_checkpoint", fmt::format("'{}': its history of epochs cannot be read: {}", source, e.what()));
  }
  return epochs;
}

}  // namespace spool
