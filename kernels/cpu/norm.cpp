// Batch norm for f32 and bf16 whose channels lie side by side, [rows, C] in memory; the rest runs the reference loops.
//
// Sums run over blocks of rows that fit the first-level cache: within a block in f32 and exact two-pass variances, across blocks in double (Chan, Golub and LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances", 1979). So one pass over memory gives the accuracy of two.
#include "spool/kernels/norm.h"

#include <cmath>
#include <vector>

#include "spool/core/parallel.h"
#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/cpu/pack.h"
#include "spool/kernels/ref/norm.h"

namespace spool::kernels::cpu {
namespace {

using Lanes = Pack<float>;

template <class T>
SPOOL_INLINE Lanes load16(const T* p, std::int64_t n) {
  return load<T>(reinterpret_cast<const std::byte*>(p), sizeof(T), n);
}
template <class T>
SPOOL_INLINE void store16(const Lanes& x, T* p, std::int64_t n) {
  store<T>(x, reinterpret_cast<std::byte*>(p), sizeof(T), n);
}

struct Rows {
  std::int64_t rows, c;
  explicit Rows(const Tensor& x) : rows(x.numel() / std::max<std::int64_t>(1, x.shape()[1])), c(x.shape()[1]) {}
  std::int64_t block() const { return std::max<std::int64_t>(16, 4096 / std::max<std::int64_t>(1, c)); }
  std::int64_t blocks() const { return (rows + block() - 1) / block(); }
  std::int64_t grain() const { return std::max<std::int64_t>(1, 16384 / (block() * std::max<std::int64_t>(1, c))); }
};

// Whether the channels of x are its innermost dimension.
bool channels_innermost(const Tensor& x) {
  std::int64_t inner = 1;
  if (x.dim() != 4)
    for (int d = 2; d < x.dim(); ++d) inner *= x.shape()[d];
  return inner == 1;
}

// Runs f(first block, last block, sums) on pieces of the blocks, each with its own `width` numbers of zeros, and merges these, in order, with merge(total, piece).
template <class F, class Merge>
std::vector<double> sum_blocks(const Rows& r, std::int64_t width, const F& f, const Merge& merge) {
  const std::int64_t blocks = r.blocks(),
                     pieces = std::min<std::int64_t>(get_num_threads(), std::max<std::int64_t>(1, blocks / r.grain()));
  std::vector<double> sums(static_cast<std::size_t>(pieces * width));
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) f(blocks * p / pieces, blocks * (p + 1) / pieces, sums.data() + p * width);
  });
  for (std::int64_t p = 1; p < pieces; ++p) merge(sums.data(), sums.data() + p * width);
  sums.resize(static_cast<std::size_t>(width));
  return sums;
}

// Count, mean and sum of squared deviations of a set, merged with those of another.
SPOOL_INLINE void merge_moments(double n, double& mean, double& squares, double other_n, double other_mean,
                                double other_squares) {
  const double delta = other_mean - mean, total = n + other_n;
  mean += delta * (other_n / total);
  squares += other_squares + delta * delta * (n * other_n / total);
}

// Mean and sum of squared deviations of each channel: [2 * C].
template <class T>
std::vector<double> channel_moments(const T* x, const Rows& r) {
  const std::int64_t width = 2 * r.c + 1;  // means, squares, and how many rows
  const auto piece = [&](std::int64_t first, std::int64_t last, double* sums) {
    double& seen = sums[2 * r.c];
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t begin = b * r.block(), n = std::min(r.block(), r.rows - begin);
      for (std::int64_t c = 0; c < r.c; c += 16) {
        const std::int64_t lanes = std::min<std::int64_t>(16, r.c - c);
        const T* p = x + begin * r.c + c;
        Lanes s[4] = {};
        std::int64_t i = 0;
        for (; i + 4 <= n; i += 4)
          for (int k = 0; k < 4; ++k) s[k] = s[k] + load16(p + (i + k) * r.c, lanes);
        for (; i < n; ++i) s[0] = s[0] + load16(p + i * r.c, lanes);
        Lanes mean = (s[0] + s[1]) + (s[2] + s[3]);
        mean.v /= static_cast<float>(n);
        Lanes q[4] = {}, rest[4] = {};
        for (i = 0; i + 4 <= n; i += 4)
          for (int k = 0; k < 4; ++k) {
            const Lanes d = load16(p + (i + k) * r.c, lanes) - mean;
            q[k] = q[k] + d * d;
            rest[k] = rest[k] + d;
          }
        for (; i < n; ++i) {
          const Lanes d = load16(p + i * r.c, lanes) - mean;
          q[0] = q[0] + d * d;
          rest[0] = rest[0] + d;
        }
        const Lanes squares = (q[0] + q[1]) + (q[2] + q[3]), left = (rest[0] + rest[1]) + (rest[2] + rest[3]);
        const double count = static_cast<double>(n);
        for (std::int64_t k = 0; k < lanes; ++k) {
          // The f32 mean is rounded: the deviations' own mean says by how much.
          const double error = static_cast<double>(left.v[k]) / count;
          merge_moments(seen, sums[c + k], sums[r.c + c + k], count, static_cast<double>(mean.v[k]) + error,
                        static_cast<double>(squares.v[k]) - error * error * count);
        }
      }
      seen += static_cast<double>(n);
    }
  };
  return sum_blocks(r, width, piece, [&](double* total, const double* part) {
    if (part[2 * r.c] == 0) return;
    for (std::int64_t c = 0; c < r.c; ++c)
      merge_moments(total[2 * r.c], total[c], total[r.c + c], part[2 * r.c], part[c], part[r.c + c]);
    total[2 * r.c] += part[2 * r.c];
  });
}

// Sums of g and of g * (x - mean) for each channel: [2 * C].
template <class T>
std::vector<double> channel_dots(const T* x, const T* g, const float* mean, const Rows& r) {
  const auto piece = [&](std::int64_t first, std::int64_t last, double* sums) {
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t begin = b * r.block(), n = std::min(r.block(), r.rows - begin);
      for (std::int64_t c = 0; c < r.c; c += 16) {
        const std::int64_t lanes = std::min<std::int64_t>(16, r.c - c), at = begin * r.c + c;
        const Lanes m = load16(mean + c, lanes);
        Lanes s[4] = {}, d[4] = {};
        const auto add = [&](std::int64_t i, int k) {
          const Lanes gi = load16(g + at + i * r.c, lanes);
          s[k] = s[k] + gi;
          d[k] = d[k] + gi * (load16(x + at + i * r.c, lanes) - m);
        };
        std::int64_t i = 0;
        for (; i + 4 <= n; i += 4)
          for (int k = 0; k < 4; ++k) add(i + k, k);
        for (; i < n; ++i) add(i, 0);
        const Lanes sum = (s[0] + s[1]) + (s[2] + s[3]), dot = (d[0] + d[1]) + (d[2] + d[3]);
        for (std::int64_t k = 0; k < lanes; ++k) {
          sums[c + k] += static_cast<double>(sum.v[k]);
          sums[r.c + c + k] += static_cast<double>(dot.v[k]);
        }
      }
    }
  };
  return sum_blocks(r, 2 * r.c, piece, [&](double* total, const double* part) {
    for (std::int64_t k = 0; k < 2 * r.c; ++k) total[k] += part[k];
  });
}

// Calls f(offset of 16 channels of a row, channel, how many) for all rows of a piece, channel block by channel block.
template <class F>
void for_each_lanes(const Rows& r, const F& make) {
  parallel_for(r.blocks(), r.grain(), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t begin = b * r.block(), end = std::min(begin + r.block(), r.rows);
      for (std::int64_t c = 0; c < r.c; c += 16) {
        const std::int64_t lanes = std::min<std::int64_t>(16, r.c - c);
        const auto f = make(c, lanes);
        for (std::int64_t i = begin; i < end; ++i) f(i * r.c + c);
      }
    }
  });
}

template <class T>
void apply(const T* x, const float* mean, const float* inv_std, const Tensor& weight, const Tensor& bias, T* y, const Rows& r) {
  const auto* w = weight.defined() ? static_cast<const float*>(weight.raw_data()) : nullptr;
  const auto* shift = bias.defined() ? static_cast<const float*>(bias.raw_data()) : nullptr;
  for_each_lanes(r, [=](std::int64_t c, std::int64_t n) {
    const Lanes m = load16(mean + c, n), scale = w ? load16(inv_std + c, n) * load16(w + c, n) : load16(inv_std + c, n),
                b = shift ? load16(shift + c, n) : Lanes{};
    return [=](std::int64_t at) { store16((load16(x + at, n) - m) * scale + b, y + at, n); };
  });
}

template <class T>
const T* data(const Tensor& t) {
  return static_cast<const T*>(t.raw_data());
}
template <class T>
T* mutable_data(const Tensor& t) {
  return static_cast<T*>(t.raw_data());
}

template <class T>
void train_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var,
                double momentum, double eps, Tensor& y, Tensor& mean, Tensor& inv_std) {
  const Rows r(x);
  const std::vector<double> moments = channel_moments(data<T>(x), r);
  const auto n = static_cast<double>(r.rows);
  for (std::int64_t c = 0; c < r.c; ++c) {
    const double m = moments[static_cast<std::size_t>(c)], found = moments[static_cast<std::size_t>(r.c + c)];
    const double squares = found < 0 ? 0 : found;  // by rounding, of a constant channel; NaN stays
    ref::set_item<float>(mean, c, m);
    ref::set_item<float>(inv_std, c, 1 / std::sqrt(squares / n + eps));
    ref::update_running<float>(running_mean, c, momentum, m);
    ref::update_running<float>(running_var, c, momentum, squares / (n - 1));
  }
  apply(data<T>(x), data<float>(mean), data<float>(inv_std), weight, bias, mutable_data<T>(y), r);
}

template <class T>
void backward_rows(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                   bool training, Tensor& gx, Tensor& gw, Tensor& gb) {
  const Rows r(x);
  std::vector<double> sums;
  if (training || gw.defined() || gb.defined()) sums = channel_dots(data<T>(x), data<T>(gy), data<float>(mean), r);
  // gx = a * gy + b * (x - mean) + d
  std::vector<float> a(static_cast<std::size_t>(r.c)), b(a), d(a);
  const auto n = static_cast<double>(r.rows);
  for (std::int64_t c = 0; c < r.c; ++c) {
    const auto k = static_cast<std::size_t>(c);
    const double s = ref::item_or<float>(inv_std, c, 1), scale = s * ref::item_or<float>(weight, c, 1);
    a[k] = static_cast<float>(scale);
    if (sums.empty()) continue;
    const double sum = sums[k], dot = sums[static_cast<std::size_t>(r.c) + k] * s;
    ref::set_item<float>(gb, c, sum);
    ref::set_item<float>(gw, c, dot);
    if (!training) continue;
    b[k] = static_cast<float>(-scale * s * dot / n);
    d[k] = static_cast<float>(-scale * sum / n);
  }
  if (!gx.defined()) return;
  const T *xs = data<T>(x), *g = data<T>(gy);
  T* out = mutable_data<T>(gx);
  const float *m = data<float>(mean), *pa = a.data(), *pb = b.data(), *pd = d.data();
  for_each_lanes(r, [=](std::int64_t c, std::int64_t lanes) {
    const Lanes va = load16(pa + c, lanes), vb = load16(pb + c, lanes), vd = load16(pd + c, lanes), vm = load16(m + c, lanes);
    return [=](std::int64_t at) {
      store16(va * load16(g + at, lanes) + (vb * (load16(xs + at, lanes) - vm) + vd), out + at, lanes);
    };
  });
}

bool runs_in_lanes(const Tensor& x) { return x.dtype() != DType::f64 && channels_innermost(x); }

// f with the type of x, which is f32 or bf16.
template <class F>
void visit_single(const Tensor& x, const F& f) {
  x.dtype() == DType::bf16 ? f(TypeTag<bfloat16>{}) : f(TypeTag<float>{});
}

}  // namespace

void batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var,
                      double momentum, double eps, Tensor& y, Tensor& mean, Tensor& inv_std) {
  if (runs_in_lanes(x))
    visit_single(x, [&]<class T>(TypeTag<T>) {
      train_rows<T>(x, weight, bias, running_mean, running_var, momentum, eps, y, mean, inv_std);
    });
  else
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
      ref::batch_norm_train<T>(x, weight, bias, running_mean, running_var, momentum, eps, y, mean, inv_std);
    });
}

void batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias,
                      Tensor& y) {
  if (runs_in_lanes(x))
    visit_single(x, [&]<class T>(TypeTag<T>) {
      apply(data<T>(x), data<float>(mean), data<float>(inv_std), weight, bias, mutable_data<T>(y), Rows(x));
    });
  else
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) { ref::batch_norm_apply<T>(x, mean, inv_std, weight, bias, y); });
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
