#include "spool/train/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace spool::detail {
namespace {

constexpr double kWidth = 480, kHeight = 240, kLeft = 52, kRight = 14, kTop = 10, kBottom = 34;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

// Round numbers that cover a range: steps of 1, 2 or 5 times a power of ten.
std::vector<double> ticks(const Range& r, int about) {
  const double span = r.high - r.low;
  const double raw = span / about, power = std::pow(10, std::floor(std::log10(raw)));
  const double step = (raw / power <= 1 ? 1 : raw / power <= 2 ? 2 : raw / power <= 5 ? 5 : 10) * power;
  std::vector<double> list;
  for (double k = std::floor(r.low / step + 1e-9); k * step <= r.high + 1e-9 * span || list.size() < 2; ++k)
    list.push_back(k * step);
  if (list.back() < r.high - 1e-9 * span) list.push_back(list.back() + step);
  return list;
}

// Axes, and where a point lies on them.
class Plot {
 public:
  Plot(const LineChart& chart) : log_(chart.log_scale) {
    Range x, y;
    for (const Series& s : chart.series)
      for (const auto& [px, py] : s.points)
        if (std::isfinite(py) && (!log_ || py > 0)) x.add(px), y.add(scaled(py)), any_ = true;
    if (!any_) return;
    if (x.low == x.high) x.low -= 1, x.high += 1;
    // A constant is seen best as a part of the way from zero.
    if (y.low == y.high) y = {std::min(y.low, 0.0), y.low == 0 ? 1.0 : std::max(y.high, 0.0)};
    if (log_) {
      for (double p = std::floor(y.low); p <= std::ceil(y.high) || y_ticks_.size() < 2; ++p) y_ticks_.push_back(p);
    } else {
      y_ticks_ = ticks(y, 4);
    }
    x_ = x;
    y_ = {y_ticks_.front(), y_ticks_.back()};
    for (const double t : ticks(x, 6))
      if (t >= x.low - 1e-9 && t <= x.high + 1e-9 && std::floor(t) == t) x_ticks_.push_back(t);
  }
  bool any() const { return any_; }
  bool shows(double v) const { return std::isfinite(v) && (!log_ || v > 0); }
  double x(double v) const { return kLeft + (v - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double y(double v) const { return at(scaled(v)); }

  std::string axes(const std::string& x_label) const {
    std::string svg;
    for (const double t : y_ticks_)
      svg += fmt::format("<line class=grid x1={} x2={} y1={:.1f} y2={:.1f} /><text x={} y={:.1f} text-anchor=end>{}</text>",
                         kLeft, kWidth - kRight, at(t), at(t), kLeft - 8, at(t) + 4, short_number(log_ ? std::pow(10, t) : t));
    for (const double t : x_ticks_)
      svg += fmt::format("<text x={:.1f} y={} text-anchor=middle>{}</text>", x(t), kHeight - kBottom + 17, short_number(t));
    svg +=
        fmt::format("<line class=axis x1={} x2={} y1={} y2={} />", kLeft, kWidth - kRight, kHeight - kBottom, kHeight - kBottom);
    return svg + fmt::format("<text x={} y={} text-anchor=end>{}</text>", kWidth - kRight, kHeight - 3, escaped(x_label));
  }

 private:
  double scaled(double v) const { return log_ ? std::log10(v) : v; }
  double at(double v) const { return kHeight - kBottom - (v - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom); }
  bool log_, any_ = false;
  Range x_, y_;
  std::vector<double> x_ticks_, y_ticks_;
};

std::string line_of(const Series& s, const Plot& plot) {
  std::string path;
  bool pen = false;
  for (const auto& [x, y] : s.points) {
    if (plot.shows(y)) path += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", plot.x(x), plot.y(y));
    pen = plot.shows(y);
  }
  return fmt::format("<path class=\"line{}\" style=\"stroke:{}\" d=\"{}\" />", s.faint ? " faint" : "", s.color, path);
}

// Marks that say their value when pointed at.
std::string marks_of(const Series& s, const Plot& plot, const std::string& x_label) {
  if (s.faint) return {};
  std::string svg;
  const bool dots = s.points.size() <= 40;
  for (const auto& [x, y] : s.points)
    if (plot.shows(y))
      svg += fmt::format(
          "<g class=mark>{}<circle class=hit cx={:.1f} cy={:.1f} r=8 /><title>{} {}: {} {}</title></g>",
          dots ? fmt::format("<circle cx={:.1f} cy={:.1f} r=3 style=\"fill:{}\" />", plot.x(x), plot.y(y), s.color) : "",
          plot.x(x), plot.y(y), escaped(x_label), short_number(x), escaped(s.name), short_number(y));
  return svg;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string short_number(double value) {
  if (std::isnan(value)) return "–";
  if (std::abs(value) >= 1e4 && std::abs(value) < 1e9 && std::floor(value) == value) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

std::string line_chart(const LineChart& chart) {
  const Plot plot(chart);
  if (!plot.any()) return {};
  std::string legend, lines, marks;
  for (const Series& s : chart.series) {
    lines += line_of(s, plot);
    marks += marks_of(s, plot, chart.x_label);
    if (!s.faint && !s.points.empty())
      legend += fmt::format("<span class=key><i style=\"background:{}\"></i>{} <b>{}</b></span>", s.color, escaped(s.name),
                            short_number(s.points.back().second));
  }
  return fmt::format(
      "<figure class=card><figcaption>{}<span class=legend>{}</span></figcaption><svg viewBox=\"0 0 {} {}\" role=img "
      "aria-label=\"{}\">{}{}{}</svg></figure>\n",
      escaped(chart.title), legend, kWidth, kHeight, escaped(chart.title), plot.axes(chart.x_label), lines, marks);
}

std::string confusion_chart(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names) {
  const std::size_t n = names.size();
  const double cell = n <= 12 ? 40 : std::max(6.0, 480.0 / static_cast<double>(n)), left = n <= 30 ? 92 : 8,
               top = n <= 30 ? 74 : 8;
  const double side = cell * static_cast<double>(n);
  std::string svg;
  for (std::size_t label = 0; label < n; ++label) {
    std::int64_t row = 0;
    for (std::size_t guess = 0; guess < n; ++guess) row += counts[label * n + guess];
    const double y = top + cell * static_cast<double>(label);
    if (n <= 30)
      svg += fmt::format(
          "<text x={:.1f} y={:.1f} text-anchor=end>{}</text><text text-anchor=start transform=\"translate({:.1f},{:.1f}) "
          "rotate(-45)\">{}</text>",
          left - 8, y + cell / 2 + 4, escaped(names[label]), left + cell * (static_cast<double>(label) + 0.55), top - 8,
          escaped(names[label]));
    for (std::size_t guess = 0; guess < n; ++guess) {
      const std::int64_t count = counts[label * n + guess];
      const double part = row > 0 ? static_cast<double>(count) / static_cast<double>(row) : 0,
                   x = left + cell * static_cast<double>(guess);
      svg += fmt::format("<g><rect class=cell x={:.1f} y={:.1f} width={:.1f} height={:.1f} style=\"fill-opacity:{:.3f}\" />",
                         x + 1, y + 1, cell - 2, cell - 2, 0.04 + 0.96 * part);
      if (n <= 12)
        svg += fmt::format("<text class=\"{}\" x={:.1f} y={:.1f} text-anchor=middle>{}</text>",
                           part > 0.85 ? "on"
                           : count     ? "off"
                                       : "zero",
                           x + cell / 2, y + cell / 2 + 4, count);
      svg += fmt::format("<title>{} taken for {}: {} of {} ({:.1f} %)</title></g>", escaped(names[label]), escaped(names[guess]),
                         count, row, 100 * part);
    }
  }
  return fmt::format(
      "<figure class=card><figcaption>Confusion matrix<span class=legend>rows: what it is; columns: what it was taken "
      "for</span></figcaption><div class=scroll><svg class=matrix viewBox=\"0 0 {:.0f} {:.0f}\" role=img aria-label=\"Confusion "
      "matrix\">{}</svg></div></figure>\n",
      left + side + 34, top + side + 4, svg);
}

std::string bar_chart(const std::vector<Bar>& bars) {
  std::string html = "<div class=bars>";
  for (const Bar& b : bars)
    html += fmt::format("<span>{}</span><span class=track><i style=\"width:{:.2f}%\"></i></span><b>{}</b>", escaped(b.name),
                        100 * std::clamp(std::isnan(b.part) ? 0.0 : b.part, 0.0, 1.0), escaped(b.value));
  return html + "</div>";
}

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<std::pair<double, double>> list;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t from = i * points.size() / most, to = (i + 1) * points.size() / most;
    double sum = 0;
    for (std::size_t j = from; j < to; ++j) sum += points[j].second;
    list.emplace_back(points[to - 1].first, sum / static_cast<double>(to - from));
  }
  return list;
}

std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points, double part) {
  std::vector<std::pair<double, double>> list;
  double average = 0, weight = 0;
  for (const auto& [x, y] : points) {
    if (std::isfinite(y)) {
      average += part * (y - average);
      weight += part * (1 - weight);
    }
    list.emplace_back(x, weight > 0 ? average / weight : y);
  }
  return list;
}

}  // namespace spool::detail
