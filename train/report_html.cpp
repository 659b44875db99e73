// The page of a report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "spool/train/png.h"
#include "spool/train/report.h"
#include "spool/train/svg_chart.h"

namespace spool {
namespace {

using detail::escaped;
using detail::short_number;

// Colours: two series that stay apart for colour-blind eyes, on light and on dark.
constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--page:#f9f9f7;--card:#fff;--ink:#0b0b0b;--ink2:#52514e;--muted:#75736d;--grid:#e6e5df;--axis:#c3c2b7;--edge:rgba(11,11,11,.1);--s1:#2a78d6;--s2:#d9541f;--warn:#fff4d6}
@media(prefers-color-scheme:dark){:root{--page:#0d0d0d;--card:#1a1a19;--ink:#fff;--ink2:#c3c2b7;--muted:#94928b;--grid:#2c2c2a;--axis:#45453f;--edge:rgba(255,255,255,.12);--s1:#3987e5;--s2:#e0703f;--warn:#3a3016}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;line-height:1.2;margin:0}
h2{font-size:18px;margin:40px 0 12px}
.sub{color:var(--ink2);margin:6px 0 24px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:12px}
.tile,.card{background:var(--card);border:1px solid var(--edge);border-radius:10px}
.tile{padding:12px 14px}.tile b{display:block;font-size:22px;font-weight:600;line-height:1.25}.tile span{color:var(--ink2);font-size:13px}
.warning{background:var(--warn);border:1px solid var(--edge);border-radius:10px;padding:10px 14px;margin:12px 0 0}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:16px;align-items:start}
figure{margin:0}.card{padding:14px 16px;min-width:0}
figcaption{font-weight:600;margin-bottom:8px;display:flex;flex-wrap:wrap;gap:2px 14px;align-items:baseline}
.legend{font-weight:400;font-size:13px;color:var(--ink2);display:flex;flex-wrap:wrap;gap:2px 14px}
.key i{display:inline-block;width:14px;height:3px;border-radius:2px;vertical-align:middle;margin-right:6px}.key b{color:var(--ink);font-weight:600}
svg{display:block;width:100%;height:auto}svg text{fill:var(--muted);font-size:12px}
.grid line,line.grid{stroke:var(--grid)}line.axis{stroke:var(--axis)}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.faint{stroke-width:1;opacity:.4}
.hit{fill:transparent}.mark:hover .hit{fill:var(--ink);fill-opacity:.15}
.scroll{overflow-x:auto}.matrix{min-width:480px}.cell{fill:var(--s1)}
.matrix .on{fill:#fff}.matrix .off{fill:var(--ink)}.matrix .zero{fill:var(--muted);opacity:.6}
.bars{display:grid;grid-template-columns:max-content 1fr max-content;gap:7px 12px;align-items:center;font-size:14px}
.bars b{font-weight:500;font-variant-numeric:tabular-nums;text-align:right}.track{height:14px;background:var(--grid);border-radius:4px;overflow:hidden}.track i{display:block;height:100%;background:var(--s1);border-radius:4px}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(118px,1fr));gap:12px}
.pictures figure{padding:8px;font-size:13px;line-height:1.35}.pictures img{width:100%;aspect-ratio:1;object-fit:contain;image-rendering:pixelated;border-radius:5px;display:block;margin-bottom:6px}
.pictures span{color:var(--ink2)}
.filters img{width:100%;image-rendering:pixelated;display:block}
table{border-collapse:collapse;width:100%;font-size:14px}th{text-align:left;font-weight:500;color:var(--ink2)}td,th{padding:5px 10px 5px 0;border-bottom:1px solid var(--grid);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.what{color:var(--ink2);min-width:180px}.time{min-width:120px}.time .track{height:8px;margin-top:7px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;margin:0;font-size:14px}dt{color:var(--ink2)}dd{margin:0;overflow-wrap:anywhere;white-space:pre-line}
details{margin-top:16px}summary{cursor:pointer;color:var(--ink2)}
)css";

using Points = std::vector<std::pair<double, double>>;

Points by_epoch(const std::vector<EpochRecord>& epochs, const std::string& name) {
  Points points;
  for (const EpochRecord& e : epochs)
    if (const auto value = e.find(name)) points.emplace_back(static_cast<double>(e.epoch), *value);
  return points;
}

std::string capitalised(std::string name) {
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string epoch_charts(const ReportContents& c) {
  std::vector<std::string> names;
  for (const EpochRecord& e : c.epochs)
    for (const auto* list : {&e.train, &e.validation})
      for (const auto& [name, value] : *list)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::string html;
  for (const std::string& name : names) {
    detail::LineChart chart{capitalised(name), "epoch", {}};
    if (Points p = by_epoch(c.epochs, name); !p.empty()) chart.series.push_back({"training", "var(--s1)", std::move(p)});
    if (Points p = by_epoch(c.epochs, "val_" + name); !p.empty())
      chart.series.push_back({"validation", "var(--s2)", std::move(p)});
    html += line_chart(chart);
  }
  return html;
}

std::string step_charts(const ReportContents& c) {
  constexpr std::size_t most = 400;
  const auto curve = [&](auto member) {
    Points points;
    for (const StepRecord& s : c.steps) points.emplace_back(static_cast<double>(s.step), std::invoke(member, s));
    return detail::thinned(points, most);
  };
  const auto with_average = [&](const char* title, double (StepRecord::*member)() const) {
    const Points raw = curve(member);
    detail::LineChart chart{title, "step", {}};
    chart.series.push_back({"each", "var(--s1)", raw, true});
    chart.series.push_back({"smoothed", "var(--s1)", detail::smoothed(raw, 0.08)});
    double low = INFINITY, high = 0;
    for (const auto& [x, y] : raw)
      if (y > 0) low = std::min(low, y), high = std::max(high, y);
    chart.log_scale = high > 50 * low;
    return line_chart(chart);
  };
  detail::LineChart rate{"Learning rate", "step", {}};
  rate.series.push_back({"rate", "var(--s1)", curve(&StepRecord::lr)});
  return with_average("Loss of each step", &StepRecord::loss) + with_average("Gradient norm", &StepRecord::grad_norm) +
         line_chart(rate);
}

std::string class_section(const ClassReport& classes) {
  const std::size_t n = classes.names.size();
  std::vector<detail::Bar> bars;
  for (std::size_t label = 0; label < n; ++label) {
    std::int64_t row = 0;
    for (std::size_t guess = 0; guess < n; ++guess) row += classes.confusion[label * n + guess];
    const double part = row > 0 ? static_cast<double>(classes.confusion[label * n + label]) / static_cast<double>(row) : NAN;
    bars.push_back({classes.names[label], part, row > 0 ? fmt::format("{:.1f} %", 100 * part) : "–"});
  }
  return fmt::format(
      "<h2>Classes</h2><div class=grid>{}<figure class=card><figcaption>Accuracy of each class</figcaption>{}</figure></div>\n",
      detail::confusion_chart(classes.confusion, classes.names), detail::bar_chart(bars));
}

std::string picture_section(const ClassReport& classes) {
  std::string html;
  const auto name = [&](std::int64_t label) { return escaped(classes.names[static_cast<std::size_t>(label)]); };
  for (const WrongPicture& w : classes.worst) {
    if (w.png.empty()) continue;
    html += fmt::format(
        "<figure class=card><img src=\"{}\" alt=\"{}\"><b>{}</b> {:.0f}&nbsp;%<br><span>is {}, {:.1f}&nbsp;%<br>number "
        "{}</span></figure>",
        detail::data_uri(w.png), name(w.label), name(w.guess), 100 * w.guess_probability, name(w.label),
        100 * w.label_probability, w.index);
  }
  if (html.empty()) return {};
  return fmt::format(
      "<h2>Most wrong pictures</h2><p class=sub>What the model took them for, how sure it was, and what they are.</p><div "
      "class=pictures>{}</div>\n",
      html);
}

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); }

std::string layer_section(const ReportContents& c) {
  if (!c.layers) return {};
  double total = 0;
  for (const LayerTime& t : c.times) total += t.forward + t.backward;
  const bool timed = total > 0;
  std::string rows;
  const auto row = [&](const std::string& name, const std::string& what, const LayerSummary* layer, const LayerTime* time) {
    rows += fmt::format("<tr><td>{}</td><td class=what>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{}</td>",
                        escaped(name), escaped(what), layer ? escaped(to_string(layer->output)) : "",
                        layer && layer->parameters ? fmt::format("{}", layer->parameters) : "",
                        layer ? short_number(layer->flops / 1e6) : "");
    if (timed && time)
      rows += fmt::format(
          "<td class=n>{}</td><td class=n>{}</td><td class=time><span class=track style=\"display:block\"><i "
          "style=\"width:{:.1f}%\"></i></span></td>",
          milliseconds(time->forward), milliseconds(time->backward), 100 * (time->forward + time->backward) / total);
    else if (timed)
      rows += "<td></td><td></td><td></td>";
    rows += "</tr>\n";
  };
  for (std::size_t i = 0; i < std::max(c.layers->layers.size(), c.times.size()); ++i) {
    const LayerSummary* layer = i < c.layers->layers.size() ? &c.layers->layers[i] : nullptr;
    const LayerTime* time = i < c.times.size() ? &c.times[i] : nullptr;
    row(layer ? layer->name : time->name, layer ? layer->what : time->what, layer,
        time && (!layer || time->name == layer->name) ? time : nullptr);
  }
  const std::string head = timed ? "<th class=n>forward ms</th><th class=n>backward ms</th><th>share</th>" : "";
  return fmt::format(
      "<h2>Layers</h2><div class=\"card scroll\"><table><tr><th>layer</th><th></th><th class=n>output</th><th "
      "class=n>parameters</th><th class=n>MFLOPs</th>{}</tr>{}</table></div>\n",
      head, rows);
}

std::string epoch_table(const std::vector<EpochRecord>& epochs) {
  if (epochs.empty()) return {};
  std::string head, body;
  const NamedValues names = epochs.back().values();
  for (const auto& [name, value] : names) head += fmt::format("<th class=n>{}</th>", escaped(name));
  for (const EpochRecord& e : epochs) {
    body += fmt::format("<tr><td class=n>{}</td><td class=n>{}</td>", e.epoch, e.step);
    for (const auto& [name, ignored] : names) {
      const auto value = e.find(name);
      body += fmt::format("<td class=n>{}</td>", value ? short_number(*value) : "");
    }
    body += fmt::format("<td class=n>{}</td><td class=n>{}</td><td class=n>{:.1f}</td></tr>\n", short_number(e.lr),
                        short_number(e.grad_norm), e.seconds);
  }
  return fmt::format(
      "<details><summary>All numbers by epoch</summary><div class=\"card scroll\"><table><tr><th class=n>epoch</th><th "
      "class=n>step</th>{}<th class=n>lr</th><th class=n>grad norm</th><th class=n>seconds</th></tr>{}</table></div></details>\n",
      head, body);
}

std::string list_of(const char* title, const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string html;
  for (const auto& [name, value] : entries) html += fmt::format("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
  return fmt::format("<figure class=card><figcaption>{}</figcaption><dl>{}</dl></figure>", title, html);
}

}  // namespace

std::string to_html(const ReportContents& c) {
  std::string tiles, warnings;
  for (const auto& [value, what] : c.tiles)
    tiles += fmt::format("<div class=tile><b>{}</b><span>{}</span></div>", escaped(value), escaped(what));
  for (const std::string& w : c.warnings) warnings += fmt::format("<p class=warning>{}</p>", escaped(w));
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\">"
      "<title>{}</title><style>{}</style></head><body><main>\n<h1>{}</h1><p class=sub>{}</p>\n<div class=tiles>{}</div>{}\n",
      escaped(c.title), kStyle, escaped(c.title), escaped(c.subtitle), tiles, warnings);
  const std::string curves = epoch_charts(c) + step_charts(c);
  if (!curves.empty()) html += fmt::format("<h2>Curves</h2><div class=grid>{}</div>{}\n", curves, epoch_table(c.epochs));
  if (c.classes) html += class_section(*c.classes) + picture_section(*c.classes);
  if (!c.filters_png.empty())
    html += fmt::format(
        "<h2>First layer</h2><figure class=\"card filters\"><figcaption>Filters of {}<span class=legend>each scaled to its own "
        "range</span></figcaption><img src=\"{}\" alt=filters style=\"max-width:{}px\"></figure>\n",
        escaped(c.filters_of), detail::data_uri(c.filters_png), 12 * c.filters_width);
  html += layer_section(c);
  html += fmt::format("<h2>Run</h2><div class=grid>{}{}</div>\n", list_of("Configuration", c.configuration),
                      list_of("Environment", c.environment));
  return html + "</main></body></html>\n";
}

}  // namespace spool
