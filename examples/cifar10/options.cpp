#include "options.h"

#include <fmt/format.h>
#include <spool/core/errors.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace {

// A finite number that is at least `least`, or above it. CLI11's own checks print bounds nobody asked for, and let NaN and "-1" for an unsigned number pass.
CLI::Validator number(double least, bool or_equal, bool whole = false) {
  return CLI::Validator(
      [=](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool fine = end && *end == 0 && !text.empty() && std::isfinite(value) &&
                          (or_equal ? value >= least : value > least) &&
                          (!whole || (value == std::floor(value) && value < 0x1p53));
        return fine ? std::string()
                    : fmt::format("must be a {}number {} {}, not '{}'", whole ? "whole " : "", or_equal ? "from" : "above", least,
                                  text);
      },
      "");
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options o;
  CLI::App app{
      "Trains a convolutional network on CIFAR-10 and reports its accuracy. With `predict`, says what is in pictures.\n"
      "The data come from --data, $SPOOL_DATA, the cache (~/.cache/spool), or the official archive, which is downloaded once "
      "(170 MB); without\n"
      "a network, a built-in synthetic set is used. Ctrl-C ends after the current step, and still reports and saves.\n"};
  CLI::App* predict = app.add_subcommand("predict", "Say what is in pictures: cifar10 predict --load FILE IMAGE...");
  predict->set_help_flag("-h,--help", "Print this and exit");
  app.set_help_flag("-h,--help", "Print this and exit");
  app.get_formatter()->column_width(34);
  // An option's text shows what it takes and, in brackets, what it is when left out.
  const auto add = [&app](const char* name, auto& value, const char* takes, const char* description) {
    std::string text = takes;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) text += fmt::format(" [{}]", value);
    return app.add_option(name, value, description)->option_text(text);
  };
  add("--epochs", o.epochs, "N", "Passes over the training pictures; 0 only tests")->check(CLI::Range(0, 100000));
  add("--batch-size", o.batch_size, "N", "Pictures in a step")->check(CLI::Range(2, 50000));
  add("--lr", o.lr, "RATE", "Learning rate")->check(number(0, false));
  add("--schedule", o.schedule, "cosine|constant [cosine]", "Whether the rate falls to 0 along a cosine until the last epoch")
      ->check(CLI::IsMember({"cosine", "constant"}));
  add("--clip-norm", o.clip_norm, "NORM", "Largest norm of all gradients together; 0 does not clip")->check(number(0, true));
  add("--optimizer", o.optimizer, "adam|adamw|sgd [adam]", "The rule by which weights are updated")
      ->check(CLI::IsMember({"adam", "adamw", "sgd"}));
  add("--seed", o.seed, "N", "Of the weights, the order of pictures and their augmentation")->check(number(0, true, true));
  app.add_flag("--augment", o.augment, "Shift and mirror the training pictures at random");
  add("--device", o.device, "auto|cpu|cuda [auto]", "auto takes a GPU when there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  add("--precision", o.precision, "fp32|tf32|bf16 [fp32]",
      "bf16 computes and keeps activations in 16 bits, weights in 32; tf32, on a GPU, rounds the factors of products")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}));
  app.add_flag("--capture", o.capture, "On a GPU, record the training step as a CUDA graph and launch that");
  add("--threads", o.threads, "N", "CPU threads; 0 means one for each core")->check(CLI::Range(0, 1024));
  auto* data = add("--data", o.data, "DIR", "Folder that holds data_batch_1.bin ... or cifar-10-batches-bin/");
  app.add_flag("--synthetic", o.synthetic, "Use the built-in synthetic pictures instead of CIFAR-10")->excludes(data);
  add("--limit", o.limit, "N", "Use only the first N training pictures and N / 5 test pictures; 0 means all")
      ->check(number(0, true, true));
  add("--checkpoint", o.checkpoint, "FILE", "Save the whole run here after each epoch and when it is interrupted");
  add("--resume", o.resume, "FILE",
      "Go on with the run saved there (and save to it, without --checkpoint); another --epochs bends the cosine from there");
  add("--best", o.best, "FILE", "Save the run here whenever its test loss is the lowest so far");
  add("--report", o.report, "FILE.html", "Write a page with curves, confusion matrix, wrong pictures, times of layers");
  add("--log", o.logs, "PATH", "Write what happens to FILE.csv, FILE.jsonl, or a folder for TensorBoard; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--summary", o.summary, "Print the layers with their shapes, parameters and arithmetic first");
  add("--save", o.save, "FILE", "Write the weights here when training ends (safetensors)");
  add("--load", o.load, "FILE", "Start from these weights");
  predict->add_option("IMAGE", o.pictures, "JPEG, PNG or BMP files of any size")->option_text(" ")->required();
  predict->add_option("--load", o.load, "Weights, or a checkpoint of a run")->option_text("FILE")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    std::exit(status == 0 ? 0 : 2);
  }
  if (o.checkpoint.empty()) o.checkpoint = o.resume;
  return o;
}

spool::Device device_of(const Options& options) {
  if (options.device == "cpu") return spool::Device::cpu();
  if (options.device == "auto") return spool::default_device();
  spool::check_usable(spool::Device::cuda());
  return spool::Device::cuda();
}

void check_output(const char* option, const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (std::filesystem::is_directory(path))
    throw spool::IoError(option, fmt::format("{} is a folder: give the name of a file in it", path));
  // Only trying tells: root may write anywhere, but not everywhere are there files.
  std::string probe = (folder / ".spool-XXXXXX").string();
  const int file = mkstemp(probe.data());
  if (file < 0)
    throw spool::IoError(option, fmt::format("no file can be written in {}: {}", folder.string(), std::strerror(errno)));
  close(file);
  unlink(probe.c_str());
}
