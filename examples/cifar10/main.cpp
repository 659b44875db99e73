// Trains a convolutional network on CIFAR-10, and says what is in pictures. `cifar10 --help` lists what can be varied.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spool/spool.h>

#include "convnet.h"
#include "data.h"
#include "options.h"
#include "predict.h"

using namespace spool;

namespace {

// Every optimizer clips.
std::unique_ptr<Optimizer> make_optimizer(const Options& o, const Module& model) {
  const auto clip = o.clip_norm > 0 ? std::optional(o.clip_norm) : std::nullopt;
  if (o.optimizer == "sgd")
    return std::make_unique<SGD>(model.parameters(), SGD::Options{.lr = o.lr, .momentum = 0.9, .clip_norm = clip});
  if (o.optimizer == "adamw") return std::make_unique<AdamW>(model.parameters(), AdamW::Options{.lr = o.lr, .clip_norm = clip});
  return std::make_unique<Adam>(model.parameters(), Adam::Options{.lr = o.lr, .clip_norm = clip});
}

// The files that --log and --report ask for.
std::vector<std::unique_ptr<Callback>> make_logs(const Options& o, const std::string& data) {
  std::vector<std::unique_ptr<Callback>> logs;
  for (const std::string& path : o.logs) {
    if (path.ends_with(".csv"))
      logs.push_back(std::make_unique<CsvLog>(path));
    else if (path.ends_with(".jsonl"))
      logs.push_back(std::make_unique<JsonLog>(path));
    else
      logs.push_back(std::make_unique<TensorBoardLog>(path));
  }
  if (!o.report.empty())
    logs.push_back(std::make_unique<HtmlReport>(
        o.report,
        HtmlReport::Options{.title = "ConvNet on CIFAR-10", .notes = {{"data", data}, {"seed", std::to_string(o.seed)}}}));
  return logs;
}

void train(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  manual_seed(options.seed);
  const Device device = device_of(options);
  set_allow_tf32(options.precision == "tf32");
  check_output("--save", options.save);
  check_output("--checkpoint", options.checkpoint);
  check_output("--best", options.best);
  check_output("--report", options.report);
  ConvNet model;
  model.to(device);
  if (!options.load.empty()) load_weights(model, options.load);

  const Data data = load_data(options);
  fmt::print("data   {}\n       {} training and {} test pictures\n", data.description, data.train.size(), data.test.size());
  if (device.is_cuda())
    fmt::print("model  ConvNet, {} parameters, on {} ({}) in {}\n", model.num_parameters(), to_string(device),
               device_name(device), options.precision);
  else
    fmt::print("model  ConvNet, {} parameters, on {} with {} threads\n", model.num_parameters(), to_string(device),
               get_num_threads());
  if (options.summary)
    fmt::print("\n{}\n", to_string(summary(model, zeros({options.batch_size, 3, 32, 32}, {.device = device}))));
  std::fflush(stdout);

  DataLoader training(data.train, {.batch_size = options.batch_size,
                                   .shuffle = true,
                                   .seed = options.seed,
                                   .num_workers = 1,
                                   .transform = transform(options.augment),
                                   .device = device});
  DataLoader testing(data.test,
                     {.batch_size = options.batch_size, .num_workers = 1, .transform = transform(false), .device = device});
  const auto optimizer = make_optimizer(options, model);
  const auto logs = make_logs(options, data.description);
  const Metadata notes{{"classes", fmt::format("{}", fmt::join(data.test.class_names(), " "))}};
  TrainerOptions setup{.epochs = options.epochs,
                       .validation_metrics = {ConfusionMatrix(10)},
                       .mixed_precision = options.precision == "bf16",
                       .capture = options.capture,
                       .schedule_per = Per::step,
                       .checkpoint = options.checkpoint,
                       .best_checkpoint = options.best,
                       .checkpoint_notes = notes,
                       .resume = options.resume,
                       .validation_name = "test"};
  std::optional<CosineAnnealingLR> cosine;
  if (options.schedule == "cosine")
    setup.schedule = &cosine.emplace(
        *optimizer, CosineAnnealingLR::Options{.T_max = std::max<std::int64_t>(1, options.epochs * training.size())});
  for (const auto& log : logs) setup.callbacks.push_back(log.get());

  const Interrupt interrupt;  // the first Ctrl-C ends training after the current step, a second one the program
  Trainer trainer(model, *optimizer, std::move(setup));
  const TrainReport report = trainer.fit(training, testing);
  const Scores score = report.validation && report.stopped.empty() ? *report.validation : trainer.evaluate(testing);
  fmt::print("\ntest accuracy: {:.4f}\n{}", score["accuracy"],
             per_class_table(*score.get<ConfusionMatrix>(), data.test.class_names()));
  if (device.is_cuda())
    fmt::print("GPU memory: {:.1f} MiB at most\n", static_cast<double>(memory_stats(device).peak_allocated) / (1 << 20));
  if (!options.save.empty()) {
    save_weights(model, options.save, notes);
    fmt::print("weights saved to {}\n", options.save);
  }
  if (!options.report.empty()) fmt::print("report written to {}\n", options.report);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  try {
    if (!options.pictures.empty()) return predict(options) ? 0 : 1;
    train(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "cifar10: {}\n", e.what());
    return 1;
  }
}
