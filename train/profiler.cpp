#include "spool/train/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "spool/core/errors.h"
#include "spool/train/atomic_file.h"

namespace spool {
namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* name_of(Phase phase) {
  return phase == Phase::forward ? "forward" : phase == Phase::backward ? "backward" : "update";
}

std::string layer_name(const KernelRun& run) {
  if (!run.layer) return "(no layer)";
  return run.layer->path.empty() ? "(model)" : run.layer->path;
}

struct Line {
  std::string name;
  Phase phase;
  std::int64_t calls = 0, time = 0;
  std::size_t bytes = 0;
};

template <class Name>
std::string table(const char* title, const std::vector<KernelRun>& runs, std::int64_t elapsed, const Name& name) {
  std::vector<Line> lines;
  std::size_t width = std::string_view(title).size();
  std::int64_t in_kernels = 0;
  for (const KernelRun& run : runs) {
    const std::string key = name(run);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.phase == run.phase && l.name == key; });
    if (line == lines.end()) line = lines.insert(line, {key, run.phase});
    ++line->calls;
    line->time += run.end - run.start;
    line->bytes += run.bytes;
    in_kernels += run.end - run.start;
    width = std::max(width, key.size());
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.time > b.time; });
  lines.push_back({"between kernels", Phase::forward, 0, elapsed - in_kernels, 0});
  width = std::max(width, lines.back().name.size());
  std::string text =
      fmt::format("{:{}}  {:8}  {:>7}  {:>10}  {:>6}  {:>10}  {:>7}\n", title, width, "phase", "calls", "ms", "%", "MB", "GB/s");
  for (const Line& l : lines) {
    const double ms = static_cast<double>(l.time) / 1e6,
                 share = elapsed ? 100.0 * static_cast<double>(l.time) / static_cast<double>(elapsed) : 0;
    const auto mb = static_cast<double>(l.bytes) / 1e6;
    if (l.calls)
      text += fmt::format("{:{}}  {:8}  {:7}  {:10.3f}  {:6.1f}  {:10.2f}  {:7.1f}\n", l.name, width, name_of(l.phase), l.calls,
                          ms, share, mb, l.time ? mb / ms : 0);
    else
      text += fmt::format("{:{}}  {:8}  {:>7}  {:10.3f}  {:6.1f}\n", l.name, width, "", "", ms, share);
  }
  return text;
}

}  // namespace

Profiler::Profiler() : start_(now()) {
  if (thread_state.kernel_runs) throw Error("Profiler", "another Profiler records on this thread: stop() it first");
  thread_state.kernel_runs = &runs_;
}

Profiler::~Profiler() { stop(); }

void Profiler::stop() {
  if (end_) return;
  end_ = now();
  if (thread_state.kernel_runs == &runs_) thread_state.kernel_runs = nullptr;
}

std::int64_t Profiler::elapsed() const { return (end_ ? end_ : now()) - start_; }

std::string Profiler::kernel_table() const {
  return table("kernel", runs_, elapsed(), [](const KernelRun& run) { return std::string(run.name); });
}

std::string Profiler::layer_table() const { return table("layer", runs_, elapsed(), layer_name); }

void Profiler::write_chrome_trace(const std::string& path) const {
  nlohmann::json events = nlohmann::json::array();
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::update})
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 1},
                      {"tid", static_cast<int>(phase)},
                      {"args", {{"name", name_of(phase)}}}});
  for (const KernelRun& run : runs_)
    events.push_back({{"ph", "X"},
                      {"name", run.name},
                      {"cat", name_of(run.phase)},
                      {"pid", 1},
                      {"tid", static_cast<int>(run.phase)},
                      {"ts", static_cast<double>(run.start - start_) / 1e3},
                      {"dur", static_cast<double>(run.end - run.start) / 1e3},
                      {"args", {{"layer", layer_name(run)}, {"bytes", run.bytes}}}});
  const std::string text = nlohmann::json({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}).dump();
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace spool
