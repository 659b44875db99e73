#include "spool/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace spool {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string clock_time(double seconds) {
  const auto s = static_cast<std::int64_t>(std::ceil(seconds));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60) : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

std::string format_progress(const Progress& p, int width) {
  const double part = p.total > 0 ? std::clamp(static_cast<double>(p.done) / static_cast<double>(p.total), 0.0, 1.0) : 0;
  std::vector<std::string> fields{fmt::format("{:3.0f}%", std::floor(100 * part))};
  if (p.loss) fields.push_back(fmt::format("loss {:.4f}", *p.loss));
  if (p.accuracy) fields.push_back(fmt::format("acc {:.4f}", *p.accuracy));
  if (p.done > 0 && p.seconds > 0) {
    const double rate = static_cast<double>(p.done) / p.seconds;
    fields.push_back(grouped(rate) + ' ' + p.unit + "/s");
    fields.push_back(clock_time(static_cast<double>(std::max<std::int64_t>(p.total - p.done, 0)) / rate) + " left");
  }
  constexpr int shortest = 10, longest = 40;
  const auto length = [&] {
    std::size_t n = p.label.size() + 3;  // " [" and "]"
    for (const std::string& f : fields) n += f.size() + 2;
    return static_cast<int>(n);
  };
  while (fields.size() > 1 && length() + shortest > width) fields.pop_back();
  std::string line = p.label;
  if (const int bar = std::min(width - length(), longest); bar >= shortest) {
    const int filled = static_cast<int>(part * bar);
    std::string drawn(static_cast<std::size_t>(filled), '=');
    if (filled < bar && p.done > 0) drawn += '>';
    drawn.resize(static_cast<std::size_t>(bar), ' ');
    line += " [" + drawn + ']';
  }
  for (const std::string& f : fields) line += "  " + f;
  if (static_cast<int>(line.size()) > width) line.resize(static_cast<std::size_t>(std::max(width, 0)));
  return line;
}

ProgressBar::ProgressBar(std::string label, std::int64_t total, ProgressOptions options)
    : progress_{.label = std::move(label), .total = total, .unit = options.unit},
      options_(options),
      terminal_(options.terminal.value_or(::isatty(::fileno(options.out)) != 0)),
      start_(now()) {}

ProgressBar::~ProgressBar() { clear(); }

double ProgressBar::seconds() const { return now() - start_; }

bool ProgressBar::due() const { return terminal_ && (last_ < 0 || now() - last_ >= options_.interval); }

void ProgressBar::update(std::int64_t done, std::optional<double> loss, std::optional<double> accuracy) {
  progress_.done = done;
  if (loss) progress_.loss = loss;
  if (accuracy) progress_.accuracy = accuracy;
  if (!terminal_ || (!due() && done < progress_.total)) return;
  last_ = now();
  progress_.seconds = seconds();
  // One column is left free: a full last column makes some terminals go on to the next line.
  const std::string text = "\r" + format_progress(progress_, columns(options_.out) - 1) + "\x1b[K";
  std::fwrite(text.data(), 1, text.size(), options_.out);
  std::fflush(options_.out);
  drawn_ = true;
  ++drawings_;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", options_.out);
  std::fflush(options_.out);
  drawn_ = false;
}

void ProgressBar::finish(const std::string& line) {
  clear();
  std::fputs((line + '\n').c_str(), options_.out);
  std::fflush(options_.out);
}

}  // namespace spool
