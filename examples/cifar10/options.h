#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spool/core/device.h"

struct Options {
  int epochs = 5;
  std::int64_t batch_size = 128;
  double lr = 1e-3;
  double clip_norm = 1.0;  // 0: no clipping
  std::uint64_t seed = 0;
  std::string device = "auto";
  std::string precision = "fp32";
  bool capture = false;
  std::string schedule = "cosine";
  int threads = 0;  // 0: every core
  std::optional<std::filesystem::path> data;
  bool synthetic = false;
  bool augment = false;
  std::string optimizer = "adam";
  std::int64_t limit = 0;                // 0: all pictures
  std::string save, load;                // weights; empty: not asked for
  std::string checkpoint, resume, best;  // whole runs
  std::string report;
  std::vector<std::string> logs;
  bool summary = false;
  std::vector<std::string> pictures;  // of `cifar10 predict`, which does nothing else
};

// Reads the command line; ends the process after --help or a mistake in it (exit code 0 or 2).
Options parse_options(int argc, char** argv);
// The device that the options ask for. Throws DeviceError where there is none.
spool::Device device_of(const Options& options);
// Throws IoError, naming the option, when a file could not be written at `path`: better known before the training than after it. An empty path is no file.
void check_output(const char* option, const std::string& path);
