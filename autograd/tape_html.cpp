#include "spool/autograd/tape_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "spool/autograd/explain.h"
#include "spool/autograd/node.h"
#include "spool/autograd/tape.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--page:#f9f9f7;--card:#fff;--ink:#0b0b0b;--ink2:#52514e;--grid:#e6e5df;--edge:rgba(11,11,11,.1);--bar:#2a78d6;--link:#1d5fb0}
@media(prefers-color-scheme:dark){:root{--page:#0d0d0d;--card:#1a1a19;--ink:#fff;--ink2:#c3c2b7;--grid:#2c2c2a;--edge:rgba(255,255,255,.12);--bar:#3987e5;--link:#7db3f0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;line-height:1.2;margin:0}
.sub{color:var(--ink2);margin:6px 0 24px}
details{background:var(--card);border:1px solid var(--edge);border-radius:8px;margin-top:6px}
details:target{border-color:var(--bar)}
summary,.head{display:grid;grid-template-columns:48px minmax(0,1.3fr) minmax(0,1fr) minmax(0,1fr) 120px 76px;gap:2px 12px;align-items:center;padding:7px 14px}
summary{cursor:pointer}summary:hover b{text-decoration:underline}
summary>*{overflow-wrap:anywhere}.head,.number,.layer{color:var(--ink2)}.head{font-size:13px}
.bytes{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.track{height:8px;background:var(--grid);border-radius:4px;overflow:hidden}.track i{display:block;height:100%;background:var(--bar)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:4px 16px;margin:0;padding:8px 14px 12px 74px;border-top:1px solid var(--grid);font-size:14px}
dt{color:var(--ink2)}dd{margin:0;overflow-wrap:anywhere}dd.formula{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:13px;line-height:1.6}
a{color:var(--link)}
@media(max-width:700px){
.head{display:none}summary{grid-template-columns:40px minmax(0,1fr) max-content}
.shape{grid-area:2/2}.layer{grid-area:3/2}.track{grid-area:2/3;width:76px}.bytes{grid-area:1/3}
dl{grid-template-columns:minmax(0,1fr);gap:0;padding-left:14px}dd{margin-bottom:8px}
}
)css";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

// A row of what a click shows; a line each.
std::string row(const char* title, const std::vector<std::string>& lines, const char* attributes = "") {
  return lines.empty() ? "" : fmt::format("<dt>{}</dt><dd{}>{}</dd>\n", title, attributes, fmt::join(lines, "<br>"));
}

// What print_tape calls it; a link to another node.
std::string linked(const std::string& name) {
  if (name[0] != '#') return escaped(name);
  return fmt::format("<a href=\"#n{}\">{}</a>", name.substr(1, name.find('.') - 1), name);
}

std::string input_text(const Tape& tape, const Edge& e) {
  if (e.node) return linked(tape.name(e)) + " " + to_string(e.node->outputs[e.output_nr].shape);
  std::string text = escaped(tape.name(e));
  if (!e.leaf.name().empty()) text += " " + to_string(e.leaf.shape());
  if (e.leaf.grad().defined()) text += ", grad " + gradient_text(e.leaf.grad());
  return text;
}

std::string shapes_text(const Node& n) {
  std::string text;
  for (const Meta& m : n.outputs) text += (text.empty() ? "" : " ") + to_string(m.shape);
  return text;
}

std::string details(const Tape& tape, const Node& n, const BackwardStep* step) {
  std::string html;
  if (const Explanation* e = find_explanation(n.op)) {
    html += row("forward", {escaped(e->forward)}, " class=formula") + row("backward", {escaped(e->backward)}, " class=formula") +
            row("needs", {escaped(e->saved)});
  } else {
    html += row("formula", {"an operation of your own"});
  }
  std::vector<std::string> inputs, saved, in, out;
  for (const Edge& e : n.inputs)
    if (e.needed()) inputs.push_back(input_text(tape, e));
  for (const Saved* s : n.saved) {
    if (!s->defined()) continue;
    const Tensor& t = s->peek();
    saved.push_back(
        fmt::format("{} {} {} {}", escaped(s->name()), name_of(t.dtype()), to_string(t.shape()), bytes_text(bytes_of(t))));
  }
  if (saved.empty() && n.ran && !n.saved.empty()) saved.push_back("freed: backward() has run");
  if (step) {
    for (const Tensor& g : step->grads_out) in.push_back(gradient_text(g));
    for (const BackwardStep::Sent& s : step->sent)
      out.push_back(fmt::format("{} to {}{}", gradient_text(s.grad), linked(s.to), s.accumulated ? ", added to its grad" : ""));
  }
  return html + row("from", inputs) + row("saved", saved) + row("gradient in", in) + row("gradient out", out);
}

}  // namespace

std::string tape_html(const Tensor& output, std::span<const BackwardStep> steps) {
  const Tape tape = Tape::of("tape_html", output);
  const auto nodes = tape.nodes();
  std::unordered_map<std::size_t, const BackwardStep*> step_of;
  for (const BackwardStep& s : steps) {
    if (s.number < 1 || s.number > nodes.size() || nodes[nodes.size() - s.number]->op != s.op)
      throw ValueError(
          "tape_html",
          fmt::format("the step #{} {} is not of this tape: give the steps of a Stepper over the same tensor", s.number, s.op));
    step_of[s.number] = &s;
  }
  std::size_t most = 1;
  for (const Node* n : nodes) most = std::max(most, bytes_held(*n));
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<meta name=viewport "
      "content=\"width=device-width,initial-scale=1\">\n"
      "<title>Tape of {0}</title>\n<style>{1}</style>\n<main>\n<h1>Tape of {0} {2}</h1>\n"
      "<p class=sub>{3}, in the order in which backward() runs. A click on a node shows its formulas, what it saved and its "
      "gradients.{4}</p>\n"
      "<div class=head><span>node</span><span>operation</span><span>output</span><span>layer</span><span>held for "
      "backward</span></div>\n",
      escaped(nodes[0]->op), kStyle, to_string(output.shape()), tape.summary(),
      steps.empty() ? " Gradients of nodes are shown where the steps of a Stepper were given." : "");
  for (const Node* n : nodes) {
    const std::size_t number = tape.number(n), held = bytes_held(*n);
    const auto step = step_of.find(number);
    html += fmt::format(
        "<details id=n{0}><summary><span class=number>#{0}</span><b>{1}</b><span class=shape>{2}</span><span "
        "class=layer>{3}</span>"
        "<span class=track><i style=\"width:{4:.1f}%\"></i></span><span "
        "class=bytes>{5}</span></summary>\n<dl>{6}</dl></details>\n",
        number, escaped(n->op), shapes_text(*n), escaped(n->scope ? n->scope->path : ""),
        100 * static_cast<double>(held) / static_cast<double>(most), held ? bytes_text(held) : "",
        details(tape, *n, step == step_of.end() ? nullptr : step->second));
  }
  return html + "</main>\n</html>\n";
}

}  // namespace spool
