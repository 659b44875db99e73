// One HTML file that shows what happened in a run: nothing else is needed to look at it, no network, no script.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "spool/train/callback.h"
#include "spool/train/summary.h"

namespace spool {

// Curves of loss, metrics, learning rate and gradient norm; confusion matrix, accuracy of each class and the pictures that were most wrong of the validation data;
// the filters of the first convolution; layers with their sizes and times; configuration and environment. What a run does not have (classes, pictures,
// validation) is left out.
//
//   HtmlReport report("report.html", {.title = "CIFAR-10"});
//   Trainer trainer(model, adam, {.epochs = 10, .callbacks = {&report}});
//
// The file is written when fit() ends, also by a signal; it takes another pass over the validation data. A run that was resumed shows all of its epochs, but
// steps only since then. Throws IoError when it cannot be written.
class HtmlReport final : public Callback {
 public:
  struct Options {
    std::string title = "Training report";
    std::vector<std::pair<std::string, std::string>> notes = {};  // shown with the configuration: ("data", "CIFAR-10 from ...")
    std::int64_t worst = 20;                                      // how many of the most wrong pictures
  };
  explicit HtmlReport(std::string path) : HtmlReport(std::move(path), Options{}) {}
  HtmlReport(std::string path, Options options);
  void on_fit_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const StepRecord& record) override;
  void on_fit_end(Trainer& trainer, const TrainReport& report) override;

 private:
  std::string path_;
  Options options_;
  std::vector<StepRecord> steps_;
  std::optional<Batch> batch_;  // of the size trained with, to time layers on
};

// What a report says about the validation data.
struct WrongPicture {
  std::int64_t index = 0;  // in the data set
  std::int64_t label = 0, guess = 0;
  double label_probability = 0, guess_probability = 0;
  std::string png;  // of the picture as it is in the data set
};
struct ClassReport {
  std::vector<std::string> names;
  std::vector<std::int64_t> confusion;  // rows are labels
  std::vector<WrongPicture> worst;      // the least likely label first
};
// Runs a classifier over a data set in its order; without a value where the targets are not labels or the outputs not [N, C].
std::optional<ClassReport> classify_all(Module& model, const DataLoader& loader, std::int64_t worst);

// Everything that a report shows.
struct ReportContents {
  std::string title, subtitle;
  std::vector<std::pair<std::string, std::string>> tiles;  // a number and what it is
  std::vector<std::string> warnings;
  std::vector<EpochRecord> epochs;
  std::vector<StepRecord> steps;
  std::optional<ClassReport> classes;
  std::string filters_png, filters_of;
  int filters_width = 0;
  std::optional<ModelSummary> layers;
  std::vector<LayerTime> times;
  std::vector<std::pair<std::string, std::string>> configuration, environment;
};
std::string to_html(const ReportContents& contents);

}  // namespace spool
