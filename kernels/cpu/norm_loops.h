// Loops over [rows, channels] in memory with 16 channels in a vector, which the batch norm kernels are made of.
//
// Sums run over blocks of rows that fit the first-level cache: within a block in f32 and exact two-pass variances, across blocks in double (Chan, Golub and LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances", 1979). So one pass over memory gives the accuracy of two.
#pragma once
#include <algorithm>
#include <vector>

#include "spool/core/parallel.h"
#include "spool/core/tensor.h"
#include "spool/kernels/cpu/pack.h"

namespace spool::kernels::cpu {

using Lanes = Pack<float>;

template <class T>
SPOOL_INLINE Lanes load16(const T* p, std::int64_t n) {
  return load<T>(reinterpret_cast<const std::byte*>(p), sizeof(T), n);
}
template <class T>
SPOOL_INLINE void store16(const Lanes& x, T* p, std::int64_t n) {
  store<T>(x, reinterpret_cast<std::byte*>(p), sizeof(T), n);
}

template <class T>
const T* data(const Tensor& t) {
  return static_cast<const T*>(t.raw_data());
}
template <class T>
T* mutable_data(const Tensor& t) {
  return static_cast<T*>(t.raw_data());
}
// The vector of an optional operand, or null.
inline const float* optional_data(const Tensor& t) { return t.defined() ? data<float>(t) : nullptr; }

// x [N, C, ...] with the channels innermost.
struct Rows {
  std::int64_t rows, c;
  explicit Rows(const Tensor& x) : rows(x.numel() / std::max<std::int64_t>(1, x.shape()[1])), c(x.shape()[1]) {}
  // Rows of a block: few enough for the cache, and for a sum in f32 to keep its digits.
  std::int64_t block() const { return std::clamp<std::int64_t>(4096 / std::max<std::int64_t>(1, c), 16, 128); }
  std::int64_t blocks() const { return (rows + block() - 1) / block(); }
  std::int64_t grain() const { return std::max<std::int64_t>(1, 16384 / (block() * std::max<std::int64_t>(1, c))); }
};

// Whether the loops below take x: f32 or bf16, its channels the innermost dimension.
inline bool runs_in_lanes(const Tensor& x) {
  std::int64_t inner = 1;
  if (x.dim() != 4)
    for (int d = 2; d < x.dim(); ++d) inner *= x.shape()[d];
  return inner == 1 && x.dtype() != DType::f64;
}

// f with the type of x, which is f32 or bf16.
template <class F>
void visit_single(const Tensor& x, const F& f) {
  x.dtype() == DType::bf16 ? f(TypeTag<bfloat16>{}) : f(TypeTag<float>{});
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

// The number of lanes of a vector of channels, 16 where the compiler may know it.
using AllLanes = std::integral_constant<std::int64_t, 16>;

// Calls f(channel, lanes) for every vector of channels.
template <class F>
SPOOL_INLINE void for_each_vector(std::int64_t channels, const F& f) {
  std::int64_t c = 0;
  for (; c + 16 <= channels; c += 16) f(c, AllLanes{});
  if (c < channels) f(c, channels - c);
}

// Two sums for each channel, [2 * C]: f(place, channel, lanes) returns what is added to each for the vector at that offset.
template <class F>
std::vector<double> channel_sums(const Rows& r, const F& f) {
  constexpr std::int64_t kWide = 128;  // channels whose sums are kept close by
  const auto piece = [&](std::int64_t first, std::int64_t last, double* sums) {
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t begin = b * r.block(), end = std::min(begin + r.block(), r.rows);
      for (std::int64_t from = 0; from < r.c; from += kWide) {
        const std::int64_t wide = std::min(kWide, r.c - from);
        Lanes x[kWide / 16] = {}, y[kWide / 16] = {};
        for (std::int64_t i = begin; i < end; ++i)
          for_each_vector(wide, [&](std::int64_t c, auto n) {
            const std::pair<Lanes, Lanes> values = f(i * r.c + from + c, from + c, n);
            x[c / 16] = x[c / 16] + values.first;
            y[c / 16] = y[c / 16] + values.second;
          });
        for (std::int64_t c = 0; c < wide; ++c) {
          sums[from + c] += static_cast<double>(x[c / 16].v[c % 16]);
          sums[r.c + from + c] += static_cast<double>(y[c / 16].v[c % 16]);
        }
      }
    }
  };
  return sum_blocks(r, 2 * r.c, piece, [&](double* total, const double* part) {
    for (std::int64_t k = 0; k < 2 * r.c; ++k) total[k] += part[k];
  });
}

// Calls f(place, channel, lanes) for the offset of every vector of channels.
template <class F>
void for_each_lanes(const Rows& r, const F& f) {
  parallel_for(r.blocks(), r.grain(), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first * r.block(), end = std::min(last * r.block(), r.rows); i < end; ++i)
      for_each_vector(r.c, [&](std::int64_t c, auto n) { f(i * r.c + c, c, n); });
  });
}

// Batch norm of a vector of channels, in numbers ready to load: (x - mean) * scale + shift.
class Norm {
 public:
  Norm(const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias);
  template <class N>
  SPOOL_INLINE Lanes operator()(const Lanes& x, std::int64_t c, N n) const {
    return (x - load16(mean_ + c, n)) * load16(scale_.data() + c, n) + load16(shift_.data() + c, n);
  }

 private:
  const float* mean_;
  std::vector<float> scale_, shift_;
};

// The gradient of x for each channel: direct * g + slope * (x - mean) + constant, where g is the gradient of what was normalised. `sums` are those of
// g and of g times the normalised x, [2 * C], or empty when not training and nobody wants them; writes gw and gb, where defined.
class InputGradient {
 public:
  InputGradient(const std::vector<double>& sums, std::int64_t rows, const Tensor& weight, const Tensor& mean,
                const Tensor& inv_std, bool training, Tensor& gw, Tensor& gb);
  template <class N>
  SPOOL_INLINE Lanes direct(const Lanes& g, std::int64_t c, N n) const {
    return load16(direct_.data() + c, n) * g;
  }
  // What depends on x alone.
  template <class N>
  SPOOL_INLINE Lanes indirect(const Lanes& x, std::int64_t c, N n) const {
    return load16(slope_.data() + c, n) * (x - load16(mean_ + c, n)) + load16(constant_.data() + c, n);
  }

 private:
  const float* mean_;
  std::vector<float> direct_, slope_, constant_;
};

}  // namespace spool::kernels::cpu
