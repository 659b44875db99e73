// Charts as inline SVG, drawn in the colours of the page they stand in; what train/report*.cpp share, not for users.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace spool::detail {

// For text in HTML and in attributes.
std::string escaped(const std::string& text);
// Four significant digits, no needless zeros: "0.6463", "12.3", "1e-05".
std::string short_number(double value);

struct Series {
  std::string name;
  std::string color;  // a CSS value: "var(--s1)"
  std::vector<std::pair<double, double>> points;
  bool faint = false;  // drawn thin, behind another that smooths it
};
struct LineChart {
  std::string title, x_label;
  std::vector<Series> series;
  bool log_scale = false;  // for positive values over several powers of ten
};
// A card with title, legend and chart. Points that are not finite leave gaps. Empty where there is nothing to draw.
std::string line_chart(const LineChart& chart);

// counts: rows are labels. Cells are shaded by their part of the row.
std::string confusion_chart(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names);

struct Bar {
  std::string name;
  double part;  // of the full length, in [0, 1]
  std::string value;
};
std::string bar_chart(const std::vector<Bar>& bars);

// At most `most` points, each the mean of its neighbours.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points, std::size_t most);
// An exponential average, each point weighing `part`, corrected for its start.
std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points, double part);

}  // namespace spool::detail
