// Softmax and the losses over classes, as kernels/softmax.h defines them, in double.
#pragma once
#include <cmath>

#include "spool/kernels/softmax.h"

namespace spool::kernels::ref {

// A dense tensor of any order as [outer, n, inner] around one dimension.
struct Lines {
  std::int64_t outer, n, inner;
  Lines(const Tensor& x, int dim) : outer(0), n(x.dim() ? x.shape()[dim] : 1), inner(n > 1 ? x.strides()[dim] : 1) {
    if (x.numel()) outer = x.numel() / (n * inner);
  }
  // Calls f(first element) for each line; its elements lie `inner` apart.
  template <class F>
  void for_each(const F& f) const {
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i) f(o * n * inner + i);
  }
};

// The maximum and the logarithm of the sum of exp(x - maximum) of a line.
struct LogSum {
  double maximum, log_sum;
  template <class T>
  LogSum(const T* x, std::int64_t n, std::int64_t step) : maximum(n ? static_cast<double>(x[0]) : 0), log_sum(0) {
    for (std::int64_t k = 1; k < n; ++k)
      maximum = static_cast<double>(x[k * step]) > maximum ? static_cast<double>(x[k * step]) : maximum;
    double sum = 0;
    for (std::int64_t k = 0; k < n; ++k) sum += std::exp(static_cast<double>(x[k * step]) - maximum);
    log_sum = std::log(sum);
  }
  // The difference first: at logits beyond 1e16 the two parts together would lose the second.
  double log_probability(double x) const { return x - maximum - log_sum; }
};

template <class T>
void softmax(const Tensor& x, Tensor& y, int dim, bool log) {
  const Lines lines(x, dim);
  lines.for_each([&](std::int64_t at) {
    const T* in = static_cast<const T*>(x.raw_data()) + at;
    T* out = static_cast<T*>(y.raw_data()) + at;
    const LogSum s(in, lines.n, lines.inner);
    for (std::int64_t k = 0; k < lines.n; ++k) {
      const double value = s.log_probability(static_cast<double>(in[k * lines.inner]));
      out[k * lines.inner] = static_cast<T>(log ? value : std::exp(value));
    }
  });
}

template <class T>
void softmax_backward(const Tensor& y, const Tensor& gy, Tensor& gx, int dim, bool log) {
  const Lines lines(y, dim);
  lines.for_each([&](std::int64_t at) {
    const T *ys = static_cast<const T*>(y.raw_data()) + at, *g = static_cast<const T*>(gy.raw_data()) + at;
    T* out = static_cast<T*>(gx.raw_data()) + at;
    double sum = 0;
    for (std::int64_t k = 0; k < lines.n * lines.inner; k += lines.inner)
      sum += static_cast<double>(g[k]) * (log ? 1 : static_cast<double>(ys[k]));
    for (std::int64_t k = 0; k < lines.n * lines.inner; k += lines.inner) {
      const double v = static_cast<double>(ys[k]), d = static_cast<double>(g[k]);
      out[k] = static_cast<T>(log ? d - std::exp(v) * sum : v * (d - sum));
    }
  });
}

// The q of kernels/softmax.h.
template <class S>
struct LabelWeights {
  const S* weight;
  double keep, spread;
  LabelWeights(const Tensor& w, std::int64_t classes, double smoothing)
      : weight(w.defined() ? static_cast<const S*>(w.raw_data()) : nullptr),
        keep(1 - smoothing),
        spread(smoothing / static_cast<double>(classes)) {}
  double of_class(std::int64_t c) const { return weight ? static_cast<double>(weight[c]) : 1; }
  double operator()(std::int64_t c, std::int64_t label) const {
    return spread * of_class(c) + (c == label ? keep * of_class(label) : 0);
  }
};

template <class T>
void row_loss(const Tensor& x, const Tensor& target, const Tensor& weight, Tensor& loss, Tensor& divisor,
              const RowLossParams& p) {
  using S = accumulate_t<T>;
  const std::int64_t rows = x.shape()[0], classes = x.shape()[1];
  const auto* labels = static_cast<const std::int64_t*>(target.raw_data());
  const LabelWeights<S> q(weight, classes, p.smoothing);
  T* out = static_cast<T*>(loss.raw_data());
  double total = 0, kept = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t label = labels[r];
    const T* row = static_cast<const T*>(x.raw_data()) + r * classes;
    double sum = 0;
    if (label != p.ignore_index) {
      kept += q.of_class(label);
      const LogSum s(row, p.from_logits ? classes : 0, 1);
      for (std::int64_t c = p.smoothing > 0 ? 0 : label; c < (p.smoothing > 0 ? classes : label + 1); ++c) {
        const double share = q(c, label), value = static_cast<double>(row[c]);
        if (share != 0) sum -= share * (p.from_logits ? s.log_probability(value) : value);  // 0 * infinity does not count
      }
    }
    total += sum;
    if (!p.reduced) out[r] = static_cast<T>(sum);
  }
  if (!p.mean) kept = 1;
  *static_cast<S*>(divisor.raw_data()) = static_cast<S>(kept);
  if (p.reduced) *out = static_cast<T>(total / kept);
}

template <class T>
void row_loss_backward(const Tensor& x, const Tensor& target, const Tensor& weight, const Tensor& g, const Tensor& divisor,
                       Tensor& gx, const RowLossParams& p) {
  using S = accumulate_t<T>;
  const std::int64_t rows = gx.shape()[0], classes = gx.shape()[1];
  const auto* labels = static_cast<const std::int64_t*>(target.raw_data());
  const LabelWeights<S> q(weight, classes, p.smoothing);
  const double divided = static_cast<double>(*static_cast<const S*>(divisor.raw_data()));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t label = labels[r];
    T* out = static_cast<T*>(gx.raw_data()) + r * classes;
    if (label == p.ignore_index || divided == 0) {
      for (std::int64_t c = 0; c < classes; ++c) out[c] = T{};
      continue;
    }
    const double scale = static_cast<double>(static_cast<const T*>(g.raw_data())[p.reduced ? 0 : r]) / divided;
    if (!p.from_logits) {
      for (std::int64_t c = 0; c < classes; ++c) out[c] = static_cast<T>(-q(c, label) * scale);
      continue;
    }
    const T* row = static_cast<const T*>(x.raw_data()) + r * classes;
    const LogSum s(row, classes, 1);
    double all = 0;
    for (std::int64_t c = 0; c < classes; ++c) all += q(c, label);
    for (std::int64_t c = 0; c < classes; ++c)
      out[c] = static_cast<T>((std::exp(s.log_probability(static_cast<double>(row[c]))) * all - q(c, label)) * scale);
  }
}

}  // namespace spool::kernels::ref
