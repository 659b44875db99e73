#include "spool/train/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"
#include "spool/train/keep_gradients.h"
#include "spool/train/layer_trace.h"
#include "spool/train/nonfinite.h"

namespace spool {
namespace {

std::size_t bytes_of(const std::vector<NamedTensor>& tensors) {
  std::size_t bytes = 0;
  for (const NamedTensor& t : tensors) bytes += static_cast<std::size_t>(t.tensor.numel()) * size_of(t.tensor.dtype());
  return bytes;
}

std::string scaled(double value, double base, const char* const (&units)[5]) {
  std::size_t unit = 0;
  for (; value >= base && unit < 4; ++unit) value /= base;
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0]) : fmt::format("{:.1f}{}", value, units[unit]);
}
std::string bytes_text(std::size_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}
std::string flops_text(double flops) { return scaled(flops, 1000, {"", " k", " M", " G", " T"}); }

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

// A leaf that asks for a gradient, so that operations on the inputs themselves are on the tape.
Tensor recorded_input(const Tensor& input) {
  Tensor x = input.detach();
  if (is_floating(x.dtype())) x.set_requires_grad(true);
  return x;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

ModelSummary summary(Module& model, const Tensor& input) {
  ModelSummary s{.model = model.type_name(), .input = input.shape()};
  const ForwardState before(model);
  const EnableGrad record;
  {
    detail::LayerTrace trace(model);
    try {
      const Tensor output = model(recorded_input(input));
      for (const auto& row : trace.rows()) {
        s.layers.push_back({row.name, row.what, row.output, row.parameters, row.flops, trace.saved_bytes(row)});
        s.flops += row.flops;
        s.saved_bytes += s.layers.back().saved_bytes;
      }
    } catch (...) {
      before.restore();
      throw;
    }
  }
  before.restore();
  for (const auto& [name, p] : model.named_parameters()) {
    s.parameters += p.numel();
    if (p.requires_grad()) s.trainable += p.numel();
  }
  s.parameter_bytes = bytes_of(model.named_parameters());
  s.buffer_bytes = bytes_of(model.named_buffers());
  return s;
}

std::string to_string(const ModelSummary& s) {
  std::vector<std::array<std::string, 6>> rows{{"layer", "what", "output", "parameters", "FLOPs", "saved"}};
  for (const LayerSummary& l : s.layers) {
    std::string what = l.what;
    constexpr std::size_t longest = 44;
    if (what.size() > longest) what = what.substr(0, longest - 3) + "...";
    rows.push_back({l.name, what, to_string(l.output), l.parameters ? grouped(l.parameters) : "-", flops_text(l.flops),
                    bytes_text(l.saved_bytes)});
  }
  std::array<std::size_t, 6> width{};
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text = fmt::format("{} on {}\n", s.model, to_string(s.input));
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      text += c < 3 ? fmt::format("{:<{}}  ", row[c], width[c]) : fmt::format("{:>{}}{}", row[c], width[c], c == 5 ? "\n" : "  ");
  }
  const std::size_t training = 2 * s.parameter_bytes + s.buffer_bytes + s.saved_bytes;
  text += fmt::format("{} parameters, {} of them trainable; {}FLOPs forward\n", grouped(s.parameters), grouped(s.trainable),
                      flops_text(s.flops));
  text +=
      fmt::format("memory: parameters {}, buffers {}, saved for backward {}; with gradients {}, before the optimizer's state\n",
                  bytes_text(s.parameter_bytes), bytes_text(s.buffer_bytes), bytes_text(s.saved_bytes), bytes_text(training));
  return text;
}

std::ostream& operator<<(std::ostream& out, const ModelSummary& s) { return out << to_string(s); }

std::vector<LayerTime> time_layers(Module& model, const LossFunction& loss, const Batch& batch, int repeats) {
  if (repeats < 1) throw ValueError("time_layers", fmt::format("repeats must be at least 1, not {}", repeats));
  if (batch.inputs.is_cuda()) throw DeviceError("time_layers", "only layers on the CPU can be timed", {{"inputs", batch.inputs}});
  const ForwardState before(model);
  const detail::KeepGradients keep(model);
  const EnableGrad record;
  std::vector<LayerTime> times;
  std::vector<std::vector<double>> forward, backward;
  try {
    for (int i = 0; i <= repeats; ++i) {
      before.restore();  // so that each run is the same
      model.zero_grad();
      const Tensor x = recorded_input(batch.inputs);
      detail::LayerTrace trace(model);
      trace.start();
      const Tensor value = loss(model(x), batch.targets);
      trace.start();
      value.backward();
      if (i == 0) {
        for (const auto& row : trace.rows()) times.push_back({row.name, row.what, 0, 0});
        forward.resize(times.size());
        backward.resize(times.size());
        continue;
      }
      for (std::size_t r = 0; r < std::min(times.size(), trace.rows().size()); ++r) {
        forward[r].push_back(trace.rows()[r].forward);
        backward[r].push_back(trace.rows()[r].backward);
      }
    }
  } catch (...) {
    before.restore();
    throw;
  }
  before.restore();
  for (std::size_t r = 0; r < times.size(); ++r) {
    if (forward[r].empty()) continue;
    times[r].forward = median(forward[r]);
    times[r].backward = median(backward[r]);
  }
  return times;
}

}  // namespace spool
