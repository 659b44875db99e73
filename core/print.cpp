// Printing tensors the way PyTorch does: one number format for the whole tensor, chosen by its largest and smallest values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "spool/core/tensor.h"

namespace spool {
namespace {

constexpr std::int64_t kSummarizeAbove = 1000;  // elements; longer tensors show only the edges of each dimension
constexpr std::int64_t kEdge = 3;
constexpr std::size_t kLineWidth = 80;

struct Printer {
  const Tensor& t;
  bool summarize = false;
  bool floating = false;
  bool scientific = false;
  bool integral = true;  // every finite value is a whole number
  std::size_t width = 1;
  std::string out = {};

  double value(std::int64_t offset) const {
    return visit(t.dtype(),
                 [&]<class T>(TypeTag<T>) { return static_cast<double>(static_cast<const T*>(t.raw_data())[offset]); });
  }

  std::string number(std::int64_t offset) const {
    if (t.dtype() == DType::boolean) return static_cast<const bool*>(t.raw_data())[offset] ? "true" : "false";
    if (t.dtype() == DType::i64) return fmt::format("{}", static_cast<const std::int64_t*>(t.raw_data())[offset]);
    const double v = value(offset);
    if (!floating) return fmt::format("{:.0f}", v);
    if (!std::isfinite(v)) return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
    if (scientific) return fmt::format("{:.4e}", v);
    return integral ? fmt::format("{:.0f}.", v) : fmt::format("{:.4f}", v);
  }

  // Calls f(offset) for every element shown.
  template <class F>
  void visit_shown(int dim, std::int64_t offset, const F& f) const {
    if (dim == t.dim()) return f(offset);
    const std::int64_t n = t.shape()[dim];
    for (std::int64_t i = 0; i < n; ++i) {
      if (summarize && n > 2 * kEdge && i == kEdge) i = n - kEdge;
      visit_shown(dim + 1, offset + i * t.strides()[dim], f);
    }
  }

  void choose_format() {
    double largest = 0, smallest = HUGE_VAL;
    visit_shown(0, 0, [&](std::int64_t at) {
      const double v = std::abs(value(at));
      if (!std::isfinite(v)) return;
      integral = integral && v == std::floor(v);
      largest = std::max(largest, v);
      if (v > 0) smallest = std::min(smallest, v);
    });
    scientific =
        floating && largest > 0 && (integral ? largest >= 1e8 : largest / smallest > 1000 || largest >= 1e8 || smallest < 1e-4);
    // Like PyTorch, columns are as wide as their finite numbers; nan and inf may stick out.
    visit_shown(0, 0, [&](std::int64_t at) {
      if (!floating || (std::isfinite(value(at)) && value(at) != 0)) width = std::max(width, number(at).size());
    });
  }

  void print(int dim, std::int64_t offset) {
    if (dim == t.dim()) {
      out += fmt::format("{:>{}}", number(offset), t.dim() ? width : 0);
      return;
    }
    const std::int64_t n = t.shape()[dim];
    const bool last = dim == t.dim() - 1;
    const std::string indent(static_cast<std::size_t>(dim) + 8, ' ');  // under "tensor([["
    const std::size_t per_line = std::max<std::size_t>(1, (kLineWidth - indent.size()) / (width + 2));
    out += '[';
    std::size_t shown = 0;
    for (std::int64_t i = 0; i < n; ++i, ++shown) {
      if (i > 0) {
        out += ',';
        if (!last)
          out += std::string(static_cast<std::size_t>(std::max(1, t.dim() - dim - 1)), '\n') + indent;
        else if (shown % per_line == 0)
          out += '\n' + indent;
        else
          out += ' ';
      }
      if (summarize && n > 2 * kEdge && i == kEdge) {
        out += last ? "..., " : "...,\n" + indent;
        i = n - kEdge;
      }
      print(dim + 1, offset + i * t.strides()[dim]);
    }
    out += ']';
  }
};

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "tensor(undefined)";
  const Tensor host = t.detach().to(Device::cpu());
  Printer p{host, host.numel() > kSummarizeAbove};
  p.floating = is_floating(host.dtype());
  p.out = "tensor(";
  if (host.numel() == 0) {
    p.out += "[]";
  } else {
    p.choose_format();
    p.print(0, 0);
  }
  if (host.numel() == 0 && host.dim() != 1) p.out += fmt::format(", size={}", to_string(host.shape()));
  if (t.dtype() != DType::f32 && t.dtype() != DType::i64 && t.dtype() != DType::boolean)
    p.out += fmt::format(", dtype={}", name_of(t.dtype()));
  if (t.is_cuda()) p.out += fmt::format(", device='{}'", to_string(t.device()));
  if (t.requires_grad()) p.out += t.is_leaf() ? ", requires_grad=true" : ", has grad_fn";
  return p.out + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace spool
