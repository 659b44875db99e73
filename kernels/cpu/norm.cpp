// Batch norm for f32 and bf16 whose channels lie side by side, [rows, C] in memory; the rest runs the reference loops.
#include "spool/kernels/norm.h"

#include <cmath>

#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/cpu/norm_loops.h"
#include "spool/kernels/ref/norm.h"

namespace spool::kernels::cpu {
namespace {

// For n channels, the moments of a set of `count` rows, merged with those of `other_count` more.
SPOOL_INLINE void merge_moments(std::int64_t n, double count, double* mean, double* squares, double other_count,
                                const double* other_mean, const double* other_squares) {
  const double share = other_count / (count + other_count), spread = count * share;
  for (std::int64_t k = 0; k < n; ++k) {
    const double delta = other_mean[k] - mean[k];
    mean[k] += delta * share;
    squares[k] += other_squares[k] + delta * delta * spread;
  }
}

// Mean and sum of squared deviations of each channel: [2 * C].
template <class T>
std::vector<double> channel_moments(const T* x, const Rows& r) {
  constexpr std::int64_t kWide = 128;      // channels whose sums are kept close by
  const std::int64_t width = 2 * r.c + 1;  // means, squares, and how many rows
  const auto piece = [&](std::int64_t first, std::int64_t last, double* sums) {
    double& seen = sums[2 * r.c];
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t begin = b * r.block(), n = std::min(r.block(), r.rows - begin);
      const double count = static_cast<double>(n), share = 1 / count;
      for (std::int64_t from = 0; from < r.c; from += kWide) {
        const std::int64_t wide = std::min(kWide, r.c - from);
        const T* p = x + begin * r.c + from;
        Lanes mean[kWide / 16] = {}, squares[kWide / 16] = {}, left[kWide / 16] = {};
        for (std::int64_t i = 0; i < n; ++i)
          for_each_vector(wide,
                          [&](std::int64_t c, auto lanes) { mean[c / 16] = mean[c / 16] + load16(p + i * r.c + c, lanes); });
        for (Lanes& m : mean) m.v *= static_cast<float>(share);
        for (std::int64_t i = 0; i < n; ++i)
          for_each_vector(wide, [&](std::int64_t c, auto lanes) {
            const Lanes d = load16(p + i * r.c + c, lanes) - mean[c / 16];
            squares[c / 16] = squares[c / 16] + d * d;
            left[c / 16] = left[c / 16] + d;
          });
        for_each_vector(wide, [&](std::int64_t c, std::int64_t lanes) {
          double block_mean[16], block_squares[16];
          for (int k = 0; k < 16; ++k) {
            // The f32 mean is rounded: the deviations' own mean says by how much.
            const double error = static_cast<double>(left[c / 16].v[k]) * share;
            block_mean[k] = static_cast<double>(mean[c / 16].v[k]) + error;
            block_squares[k] = static_cast<double>(squares[c / 16].v[k]) - error * error * count;
          }
          merge_moments(lanes, seen, sums + from + c, sums + r.c + from + c, count, block_mean, block_squares);
        });
      }
      seen += count;
    }
  };
  return sum_blocks(r, width, piece, [&](double* total, const double* part) {
    if (part[2 * r.c] == 0) return;
    merge_moments(r.c, total[2 * r.c], total, total + r.c, part[2 * r.c], part, part + r.c);
    total[2 * r.c] += part[2 * r.c];
  });
}

template <class T>
void backward_rows(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                   bool training, Tensor& gx, Tensor& gw, Tensor& gb) {
  const Rows r(x);
  const T *xs = data<T>(x), *gs = data<T>(gy);
  std::vector<double> sums;
  if (training || gw.defined() || gb.defined())
    sums = channel_sums(r, [=, m = data<float>(mean), s = data<float>(inv_std)](std::int64_t at, std::int64_t c, auto n) {
      const Lanes g = load16(gs + at, n);
      return std::pair(g, g * ((load16(xs + at, n) - load16(m + c, n)) * load16(s + c, n)));
    });
  const InputGradient gradient(sums, r.rows, weight, mean, inv_std, training, gw, gb);
  if (!gx.defined()) return;
  T* out = mutable_data<T>(gx);
  for_each_lanes(r, [&](std::int64_t at, std::int64_t c, auto n) {
    store16(gradient.direct(load16(gs + at, n), c, n) + gradient.indirect(load16(xs + at, n), c, n), out + at, n);
  });
}

}  // namespace

Norm::Norm(const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias)
    : mean_(data<float>(mean)), scale_(static_cast<std::size_t>(mean.numel())), shift_(scale_.size()) {
  for (std::size_t c = 0; c < scale_.size(); ++c) {
    const auto at = static_cast<std::int64_t>(c);
    scale_[c] = data<float>(inv_std)[c] * (weight.defined() ? data<float>(weight)[c] : 1.0f);
    shift_[c] = static_cast<float>(ref::item_or<float>(bias, at, 0));
  }
}

InputGradient::InputGradient(const std::vector<double>& sums, std::int64_t rows, const Tensor& weight, const Tensor& mean,
                             const Tensor& inv_std, bool training, Tensor& gw, Tensor& gb)
    : mean_(data<float>(mean)), direct_(static_cast<std::size_t>(mean.numel())), slope_(direct_), constant_(direct_) {
  const auto n = static_cast<double>(rows);
  for (std::size_t c = 0; c < direct_.size(); ++c) {
    const auto at = static_cast<std::int64_t>(c);
    const double s = ref::item_or<float>(inv_std, at, 1), scale = s * ref::item_or<float>(weight, at, 1);
    direct_[c] = static_cast<float>(scale);
    if (sums.empty()) continue;
    const double sum = sums[c], dot = sums[direct_.size() + c];
    ref::set_item<float>(gb, at, sum);
    ref::set_item<float>(gw, at, dot);
    if (!training) continue;
    slope_[c] = static_cast<float>(-scale * s * dot / n);
    constant_[c] = static_cast<float>(-scale * sum / n);
  }
}

void batch_norm_stats(const Tensor& x, Tensor& running_mean, Tensor& running_var, double momentum, double eps, Tensor& mean,
                      Tensor& inv_std) {
  if (!runs_in_lanes(x)) {
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
      ref::batch_norm_stats<T>(x, running_mean, running_var, momentum, eps, mean, inv_std);
    });
    return;
  }
  const Rows r(x);
  std::vector<double> moments;
  visit_single(x, [&]<class T>(TypeTag<T>) { moments = channel_moments(data<T>(x), r); });
  const auto n = static_cast<double>(r.rows);
  for (std::int64_t c = 0; c < r.c; ++c) {
    const double m = moments[static_cast<std::size_t>(c)], found = moments[static_cast<std::size_t>(r.c + c)];
    const double squares = found < 0 ? 0 : found;  // by rounding, of a constant channel; NaN stays
    ref::set_item<float>(mean, c, m);
    ref::set_item<float>(inv_std, c, 1 / std::sqrt(squares / n + eps));
    ref::update_running<float>(running_mean, c, momentum, m);
    ref::update_running<float>(running_var, c, momentum, squares / (n - 1));
  }
}

void batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var,
                      double momentum, double eps, Tensor& y, Tensor& mean, Tensor& inv_std) {
  batch_norm_stats(x, running_mean, running_var, momentum, eps, mean, inv_std);
  batch_norm_apply(x, mean, inv_std, weight, bias, y);
}

void batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias,
                      Tensor& y) {
  if (!runs_in_lanes(x)) {
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) { ref::batch_norm_apply<T>(x, mean, inv_std, weight, bias, y); });
    return;
  }
  const Norm norm(mean, inv_std, weight, bias);
  visit_single(x, [&]<class T>(TypeTag<T>) {
    for_each_lanes(Rows(x), [&, from = data<T>(x), to = mutable_data<T>(y)](std::int64_t at, std::int64_t c, auto n) {
      store16(norm(load16(from + at, n), c, n), to + at, n);
    });
  });
}

void batch_norm_backward(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                         bool training, Tensor& gx, Tensor& gw, Tensor& gb) {
  if (runs_in_lanes(x))
    visit_single(x, [&]<class T>(TypeTag<T>) { backward_rows<T>(x, gy, weight, mean, inv_std, training, gx, gw, gb); });
  else
    visit_floating(x.dtype(),
                   [&]<class T>(TypeTag<T>) { ref::batch_norm_backward<T>(x, gy, weight, mean, inv_std, training, gx, gw, gb); });
}

}  // namespace spool::kernels::cpu
