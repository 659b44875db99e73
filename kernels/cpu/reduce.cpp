// Sums and the like. How the elements are cut into blocks depends on shape and strides only, so threads do not change the bits of a result.
#include "spool/kernels/reduce.h"

#include <algorithm>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/cpu/reduce_loops.h"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cpu {
namespace {

using namespace reducing;

// Dimensions of one kind, innermost first, neighbours merged where x (and y) allow it.
struct LoopDims {
  int n = 0;
  std::int64_t size[kMaxDims], x[kMaxDims], y[kMaxDims];  // strides in elements

  std::int64_t count(int from) const {
    std::int64_t c = 1;
    for (int d = from; d < n; ++d) c *= size[d];
    return c;
  }
  // Where the index-th combination of the dimensions from `from` on starts.
  std::int64_t offset(const std::int64_t* strides, int from, std::int64_t index) const {
    std::int64_t at = 0;
    for (int d = from; d < n; ++d) {
      at += (d == n - 1 ? index : index % size[d]) * strides[d];
      if (d < n - 1) index /= size[d];
    }
    return at;
  }
  void arrange() {
    int order[kMaxDims];
    std::iota(order, order + n, 0);
    sort_dims(order, n, [&](int a, int b) { return x[a] < x[b]; });
    const LoopDims from = *this;
    n = 0;
    for (int i = 0; i < from.n; ++i) {
      const int d = order[i];
      if (n && from.x[d] == x[n - 1] * size[n - 1] && from.y[d] == y[n - 1] * size[n - 1]) {
        size[n - 1] *= from.size[d];
        continue;
      }
      size[n] = from.size[d];
      x[n] = from.x[d];
      y[n] = from.y[d];
      ++n;
    }
  }
};

struct Plan {
  LoopDims kept, reduced;
  std::int64_t repeat = 1;  // how often each element counts: reduced dimensions of stride 0
};

Plan make_plan(const Tensor& x, DimMask dims, const Tensor& y, bool drop_repeats) {
  Plan plan;
  const bool keepdim = y.dim() == x.dim();
  int out = 0;
  for (int d = 0; d < x.dim(); ++d) {
    const bool reduces = dims >> d & 1;
    const std::int64_t n = x.shape()[d], y_stride = reduces ? 0 : y.strides()[keepdim ? d : out];
    out += !reduces;
    if (n == 1) continue;
    if (reduces && drop_repeats && x.strides()[d] == 0) {
      plan.repeat *= n;
      continue;
    }
    LoopDims& part = reduces ? plan.reduced : plan.kept;
    part.size[part.n] = n;
    part.x[part.n] = x.strides()[d];
    part.y[part.n++] = y_stride;
  }
  plan.kept.arrange();
  plan.reduced.arrange();
  return plan;
}

template <class Op, class T, class R>
struct Run {
  using I = Inner<Op, T>;
  using W = typename I::W;
  const Plan& plan;
  const T* x;
  R* y;
  double divisor;

  void store(R* to, W total) const {
    if constexpr (std::is_same_v<Op, Sum>) {
      if (plan.repeat != 1) total *= static_cast<W>(plan.repeat);
      if constexpr (std::is_same_v<W, double>)
        if (divisor != 1) total /= divisor;
    }
    *to = static_cast<R>(total);
  }

  // Every output from rows of elements that are reduced innermost.
  void rows() const {
    const LoopDims &kept = plan.kept, &reduced = plan.reduced;
    const std::int64_t n = reduced.n ? reduced.size[0] : 1, stride = reduced.n ? reduced.x[0] : 1, outer = reduced.count(1);
    // A unit is a block of a long row, or several short rows.
    const std::int64_t per_row = (n + kBlock - 1) / kBlock, per_unit = per_row > 1 ? 1 : kBlock / n;
    const std::int64_t units = per_row > 1 ? outer * per_row : (outer + per_unit - 1) / per_unit;
    const auto unit = [&](const T* p, std::int64_t u) {
      if (per_row > 1) {
        const std::int64_t begin = u % per_row * kBlock;
        return I::block(p + reduced.offset(reduced.x, 1, u / per_row) + begin * stride, stride, std::min(kBlock, n - begin));
      }
      if (outer == 1) return I::block(p, stride, n);
      W total = Op::template identity<W>();
      for (std::int64_t o = u * per_unit; o < std::min(outer, (u + 1) * per_unit); ++o)
        total = Op::combine(total, I::block(p + reduced.offset(reduced.x, 1, o), stride, n));
      return total;
    };
    const std::int64_t outputs = kept.count(0), work = n * outer;
    if (outputs < get_num_threads() && units >= 8) {
      const Tensor parts = empty({units}, {.dtype = std::is_same_v<W, double> ? DType::f64 : DType::i64});
      W* part = static_cast<W*>(parts.raw_data());
      for (std::int64_t k = 0; k < outputs; ++k) {
        const T* p = x + kept.offset(kept.x, 0, k);
        parallel_for(units, 4, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t u = begin; u < end; ++u) part[u] = unit(p, u);
        });
        W total = Op::template identity<W>();
        for (std::int64_t u = 0; u < units; ++u) total = Op::combine(total, part[u]);
        store(y + kept.offset(kept.y, 0, k), total);
      }
      return;
    }
    parallel_for(outputs, std::max<std::int64_t>(1, kParallelGrain / work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        const T* p = x + kept.offset(kept.x, 0, k);
        W total = unit(p, 0);
        for (std::int64_t u = 1; u < units; ++u) total = Op::combine(total, unit(p, u));
        store(y + kept.offset(kept.y, 0, k), total);
      }
    });
  }

  // Outputs side by side: the innermost kept dimension is that of x.
  void columns() const {
    const LoopDims &kept = plan.kept, &reduced = plan.reduced;
    const std::int64_t n = kept.size[0], rows = reduced.n ? reduced.size[0] : 1, stride = reduced.n ? reduced.x[0] : 0;
    const std::int64_t all_rows = rows * reduced.count(1);
    const std::int64_t segments = (n + kSegment - 1) / kSegment, places = kept.count(1) * segments;
    const std::int64_t work = all_rows * std::min(n, kSegment);
    // Rows are shared among tasks where there are too few columns to keep every thread busy.
    const std::int64_t tasks = places >= 16 ? 1 : std::clamp<std::int64_t>(work / 32768, 1, 32);
    Tensor parts;
    if (tasks > 1)
      parts = empty({places * tasks, std::min(n, kSegment)}, {.dtype = std::is_same_v<W, double> ? DType::f64 : DType::i64});
    const auto output = [&](std::int64_t place) {
      return y + kept.offset(kept.y, 1, place / segments) + place % segments * kSegment * kept.y[0];
    };
    const auto width = [&](std::int64_t place) { return std::min(kSegment, n - place % segments * kSegment); };
    parallel_for(places * tasks, std::max<std::int64_t>(1, kParallelGrain * tasks / work),
                 [&](std::int64_t begin, std::int64_t end) {
                   W buffer[kSegment];
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t place = i / tasks, task = i % tasks, w = width(place);
                     W* total = tasks > 1 ? static_cast<W*>(parts.raw_data()) + i * std::min(n, kSegment) : buffer;
                     std::fill_n(total, w, Op::template identity<W>());
                     const T* p = x + kept.offset(kept.x, 1, place / segments) + place % segments * kSegment;
                     const std::int64_t last = all_rows * (task + 1) / tasks;
                     for (std::int64_t row = all_rows * task / tasks; row < last;) {
                       const std::int64_t outer = row / rows, inside = row % rows, some = std::min(rows - inside, last - row);
                       I::columns(p + reduced.offset(reduced.x, 1, outer) + inside * stride, stride, some, w, total);
                       row += some;
                     }
                     if (tasks > 1) continue;
                     R* to = output(place);
                     for (std::int64_t c = 0; c < w; ++c) store(to + c * kept.y[0], total[c]);
                   }
                 });
    if (tasks == 1) return;
    for (std::int64_t place = 0; place < places; ++place) {
      const W* part = static_cast<const W*>(parts.raw_data()) + place * tasks * std::min(n, kSegment);
      R* to = output(place);
      for (std::int64_t c = 0; c < width(place); ++c) {
        W total = part[c];
        for (std::int64_t t = 1; t < tasks; ++t) total = Op::combine(total, part[t * std::min(n, kSegment) + c]);
        store(to + c * kept.y[0], total);
      }
    }
  }
};

template <class Op, class T>
void run_typed(const Tensor& x, DimMask dims, double divisor, Tensor& y) {
  using R = std::conditional_t<std::is_same_v<Op, Sum> && std::is_integral_v<T>, std::int64_t, T>;
  if (x.numel() <= kBlock && y.numel() == 1 && x.is_contiguous()) {
    // What a small loss is: no loop to plan.
    Plan whole;
    const Run<Op, T, R> loops{whole, nullptr, nullptr, divisor};
    return loops.store(static_cast<R*>(y.raw_data()), Inner<Op, T>::block(static_cast<const T*>(x.raw_data()), 1, x.numel()));
  }
  const Plan plan = make_plan(x, dims, y, !std::is_same_v<Op, Prod>);
  const Run<Op, T, R> loops{plan, static_cast<const T*>(x.raw_data()), static_cast<R*>(y.raw_data()), divisor};
  const bool side_by_side = plan.kept.n && plan.kept.x[0] == 1 && !(plan.reduced.n && plan.reduced.x[0] == 1);
  if (side_by_side)
    loops.columns();
  else
    loops.rows();
}

template <class Op>
void run(const Tensor& x, DimMask dims, double divisor, Tensor& y) {
  if (x.numel() == 0) {
    const double none = Op::template identity<double>();
    return fill(y, std::is_same_v<Op, Sum> ? none / divisor : none);
  }
  if constexpr (std::is_same_v<Op, Sum>) {
    visit(x.dtype(), [&]<class T>(TypeTag<T>) { run_typed<Op, T>(x, dims, divisor, y); });
  } else if constexpr (Op::lanes == Lanes::truth) {
    run_typed<Op, bool>(x, dims, divisor, y);
  } else {
    if (x.dtype() == DType::i64) return run_typed<Op, std::int64_t>(x, dims, divisor, y);
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) { run_typed<Op, T>(x, dims, divisor, y); });
  }
}

}  // namespace

void reduce(Reduce op, const Tensor& x, DimMask dims, Tensor& y) {
  switch (op) {
    case Reduce::sum: return run<Sum>(x, dims, 1, y);
    case Reduce::prod: return run<Prod>(x, dims, 1, y);
    case Reduce::max: return run<Max>(x, dims, 1, y);
    case Reduce::min: return run<Min>(x, dims, 1, y);
    case Reduce::any: return run<Any>(x, dims, 1, y);
    case Reduce::all: return run<All>(x, dims, 1, y);
  }
}

void mean(const Tensor& x, DimMask dims, double divisor, Tensor& y) { run<Sum>(x, dims, divisor, y); }

}  // namespace spool::kernels::cpu
