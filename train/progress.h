// What a person sees while a model trains: a bar on a terminal, a line an epoch elsewhere.
#pragma once
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace spool {

// One state of a bar.
struct Progress {
  std::string label;  // "epoch 2/5"
  std::int64_t done = 0, total = 0;
  double seconds = 0;  // since the start of this bar
  std::optional<double> loss = {}, accuracy = {};
  std::string unit = "images";
};
// "epoch 2/5 [=====>    ]  52%  loss 1.2345  acc 0.5678  12,345 images/s  0:07 left", at most `width` columns: the bar shrinks first, then what
// stands at the end is left out.
std::string format_progress(const Progress& progress, int width);

struct ProgressOptions {
  std::FILE* out = stdout;
  std::optional<bool> terminal = {};  // whether `out` is one; found out where not given
  double interval = 0.1;              // seconds between two drawings
  const char* unit = "images";        // what is counted
};

// Draws progress in place on a terminal, at most every `interval` seconds; elsewhere prints nothing but what finish() is given.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::int64_t total, ProgressOptions options = {});
  // Leaves the cursor on a clean line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Whether update() would draw now. Reading a loss may have to wait for a device, so ask before.
  bool due() const;
  // `done` of the total are finished. Draws where that is due, and always the last one.
  void update(std::int64_t done, std::optional<double> loss = {}, std::optional<double> accuracy = {});
  // Replaces the bar by a line of text (ending with a newline).
  void finish(const std::string& line);
  double seconds() const;
  // How many times the bar was drawn.
  std::int64_t drawings() const { return drawings_; }

 private:
  void clear();

  Progress progress_;
  ProgressOptions options_;
  bool terminal_, drawn_ = false;
  double start_, last_ = -1;
  std::int64_t drawings_ = 0;
};

}  // namespace spool
