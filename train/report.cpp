// What a report shows, gathered from a run.
#include "spool/train/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>

#include "spool/autograd/autocast.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/allocator.h"
#include "spool/core/build_info.h"
#include "spool/core/errors.h"
#include "spool/core/parallel.h"
#include "spool/layers/conv.h"
#include "spool/train/atomic_file.h"
#include "spool/train/png.h"
#include "spool/train/svg_chart.h"
#include "spool/train/trainer.h"

namespace spool {
namespace {

std::string picture_png(const Dataset& dataset, std::int64_t index) {
  const ExampleSpec spec = dataset.spec();
  if (!spec.is_picture() || (spec.input[0] != 1 && spec.input[0] != 3)) return {};
  const Tensor pixels = dataset.get(index).inputs.permute({1, 2, 0}).contiguous();
  return detail::encode_png(static_cast<const std::uint8_t*>(pixels.raw_data()), static_cast<int>(spec.input[2]),
                            static_cast<int>(spec.input[1]), static_cast<int>(spec.input[0]));
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string duration(double seconds) {
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<std::int64_t>(seconds);
  return s < 3600 ? fmt::format("{}:{:02} min", s / 60, s % 60) : fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

std::vector<std::pair<std::string, std::string>> configuration_of(Trainer& t) {
  const TrainerOptions& o = t.options();
  const DataLoaderOptions& l = t.training()->options();
  const Optimizer& optimizer = t.optimizer();
  std::vector<std::pair<std::string, std::string>> list{
      {"model", fmt::format("{}, {} parameters", t.model().type_name(), t.model().num_parameters())},
      {"optimizer", optimizer.name()},
      {"learning rate", fmt::format("{:g}", optimizer.groups().front().initial_lr.value_or(optimizer.lr()))}};
  if (optimizer.groups().front().weight_decay > 0)
    list.emplace_back("weight decay", fmt::format("{:g}", optimizer.groups().front().weight_decay));
  if (optimizer.clip_options().clip_norm)
    list.emplace_back("clip norm", fmt::format("{:g}", *optimizer.clip_options().clip_norm));
  if (o.schedule)
    list.emplace_back("schedule", fmt::format("{}, per {}", o.schedule->name(), o.schedule_per == Per::epoch ? "epoch" : "step"));
  if (o.plateau) list.emplace_back("schedule", "ReduceLROnPlateau");
  list.emplace_back("epochs", fmt::format("{}", o.epochs));
  list.emplace_back("batch size", o.accumulate > 1 ? fmt::format("{} x {} accumulated", l.batch_size, o.accumulate)
                                                   : fmt::format("{}", l.batch_size));
  list.emplace_back("training data",
                    fmt::format("{} examples{}, seed {}", t.training()->dataset().size(), l.shuffle ? ", shuffled" : "", l.seed));
  if (t.validation()) list.emplace_back("validation data", fmt::format("{} examples", t.validation()->dataset().size()));
  if (!o.resume.empty()) list.emplace_back("resumed from", o.resume);
  return list;
}

std::vector<std::pair<std::string, std::string>> environment_of(Trainer& t) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string build = build_info();
  while (!build.empty() && build.back() == '\n') build.pop_back();
  return {{"device", to_string(device_of(t.model()))},
          {"threads", std::to_string(get_num_threads())},
          {"processor", cpu_name()},
          {"host", host},
          {"peak memory", fmt::format("{:.0f} MiB of tensors", static_cast<double>(memory_stats().peak_allocated) / (1 << 20))},
          {"library", build}};
}

// The first convolution over pictures.
void add_filters(Module& model, ReportContents& c) {
  for (const NamedModule& m : model.named_modules()) {
    const auto* conv = dynamic_cast<const Conv2d*>(m.module);
    if (!conv || (conv->weight.size(1) != 3 && conv->weight.size(1) != 1)) continue;
    const detail::FilterSheet sheet = detail::filter_sheet(conv->weight);
    c.filters_png = sheet.png;
    c.filters_of = m.name.empty() ? conv->describe() : m.name + "  " + conv->describe();
    c.filters_width = sheet.width;
    return;
  }
}

void add_tiles(const TrainReport& report, const std::string& validation, ReportContents& c) {
  double seconds = 0;
  std::int64_t samples = 0;
  for (const EpochRecord& e : report.epochs) seconds += e.seconds, samples += e.samples;
  if (!report.epochs.empty()) {
    const EpochRecord& last = report.epochs.back();
    const auto add = [&](const char* name, const std::string& what) {
      if (const auto value = last.find(name)) c.tiles.emplace_back(detail::short_number(*value), what);
    };
    add("val_accuracy", validation + " accuracy");
    add("val_loss", validation + " loss");
    add("accuracy", "training accuracy");
    add("loss", "training loss");
    if (report.best_epoch > 0) c.tiles.emplace_back(std::to_string(report.best_epoch), "best epoch");
  }
  c.tiles.emplace_back(std::to_string(report.epochs.size()), "epochs");
  c.tiles.emplace_back(std::to_string(report.steps), "steps");
  if (seconds > 0) {
    c.tiles.emplace_back(duration(seconds), "of training");
    c.tiles.emplace_back(fmt::format("{:.0f}", static_cast<double>(samples) / seconds), "examples a second");
  }
}

}  // namespace

std::optional<ClassReport> classify_all(Module& model, const DataLoader& loader, std::int64_t worst) {
  const Dataset& dataset = loader.dataset();
  const ExampleSpec spec = dataset.spec();
  if (spec.target.dim() != 0 || spec.target_dtype != i64 || dataset.size() == 0) return {};
  DataLoader in_order(dataset, {.batch_size = loader.options().batch_size,
                                .num_workers = loader.options().num_workers,
                                .transform = loader.options().transform});
  const EvalMode eval(model);
  const NoGrad no_grad;
  const Device device = device_of(model);
  ClassReport r;
  std::int64_t classes = 0, index = 0;
  for (const auto& [inputs, targets] : in_order) {
    const Tensor output = model(inputs.to(device));
    if (output.dim() != 2 || output.size(0) != targets.size(0) || output.size(1) < 1 || !is_floating(output.dtype())) return {};
    classes = output.size(1);
    r.confusion.resize(static_cast<std::size_t>(classes * classes));
    const std::vector<double> p = softmax(output, 1).to(Device::cpu()).to_vector<double>();
    const auto labels = targets.to_vector<std::int64_t>(),
               guesses = argmax(output, 1).to(Device::cpu()).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i, ++index) {
      if (labels[i] < 0 || labels[i] >= classes) continue;
      ++r.confusion[static_cast<std::size_t>(labels[i] * classes + guesses[i])];
      if (labels[i] == guesses[i]) continue;
      const double* row = p.data() + static_cast<std::int64_t>(i) * classes;
      r.worst.push_back({.index = index,
                         .label = labels[i],
                         .guess = guesses[i],
                         .label_probability = row[labels[i]],
                         .guess_probability = row[guesses[i]],
                         .png = {}});
    }
  }
  std::stable_sort(r.worst.begin(), r.worst.end(),
                   [](const auto& a, const auto& b) { return a.label_probability < b.label_probability; });
  r.worst.resize(std::min(r.worst.size(), static_cast<std::size_t>(std::max<std::int64_t>(worst, 0))));
  for (WrongPicture& w : r.worst) w.png = picture_png(dataset, w.index);
  r.names = dataset.class_names();
  for (std::int64_t c = static_cast<std::int64_t>(r.names.size()); c < classes; ++c) r.names.push_back(std::to_string(c));
  r.names.resize(static_cast<std::size_t>(classes));
  return r;
}

HtmlReport::HtmlReport(std::string path, Options options) : path_(std::move(path)), options_(std::move(options)) {}

void HtmlReport::on_fit_begin(Trainer& trainer) {
  AtomicFile probe(path_);  // what cannot be written should not show after the training
  steps_.clear();
  batch_.reset();
  DataLoader one(trainer.training()->dataset(),
                 {.batch_size = trainer.training()->options().batch_size, .transform = trainer.training()->options().transform});
  batch_ = *one.begin();
}

void HtmlReport::on_step_end(Trainer&, const StepRecord& record) { steps_.push_back(record); }

void HtmlReport::on_fit_end(Trainer& t, const TrainReport& report) {
  ReportContents c{.title = options_.title,
                   .subtitle = {},
                   .tiles = {},
                   .warnings = report.warnings,
                   .epochs = report.epochs,
                   .steps = steps_,
                   .classes = {},
                   .filters_png = {},
                   .filters_of = {},
                   .layers = {},
                   .times = {},
                   .configuration = configuration_of(t),
                   .environment = environment_of(t)};
  const std::time_t now = std::time(nullptr);
  c.subtitle = fmt::format("{:%Y-%m-%d %H:%M}, {}", fmt::localtime(now),
                           report.stopped.empty() ? fmt::format("{} of {} epochs", report.epochs.size(), t.options().epochs)
                                                  : fmt::format("ended after step {}: {}", report.steps, report.stopped));
  add_tiles(report, t.options().validation_name, c);
  const Autocast mixed(t.options().mixed_precision);
  c.configuration.insert(c.configuration.begin(), options_.notes.begin(), options_.notes.end());
  if (t.validation()) c.classes = classify_all(t.model(), *t.validation(), options_.worst);
  add_filters(t.model(), c);
  const Device device = device_of(t.model());
  const Tensor inputs = batch_->inputs.to(device), targets = batch_->targets.to(device);
  c.layers = summary(t.model(), inputs);
  if (!device.is_cuda())
    c.times = time_layers(t.model(),
                          t.loss() ? t.loss() : [](const Tensor& y, const Tensor& target) { return cross_entropy(y, target); },
                          {inputs, targets});
  const std::string html = to_html(c);
  AtomicFile file(path_);
  file.write(html.data(), html.size());
  file.commit();
}

}  // namespace spool
