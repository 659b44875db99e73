// Batch norm with ReLU and max-pooling: f32 and bf16 with their channels side by side; the rest runs the reference loops.
#include "spool/kernels/norm_relu.h"

#include <cmath>
#include <cstring>

#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/cpu/norm_loops.h"
#include "spool/kernels/ref/norm_relu.h"

namespace spool::kernels::cpu {
namespace {

using Places = Pack<float>::Mask;  // 16 numbers of 32 bits

// A NaN passes.
SPOOL_INLINE Lanes relu(const Lanes& x) { return select(x <= Lanes{}, Lanes{}, x); }
// g where something passed the ReLU, else 0.
SPOOL_INLINE Lanes passed(const Lanes& y, const Lanes& g) { return select(y <= Lanes{}, Lanes{}, g); }
SPOOL_INLINE Places places(std::int32_t value) { return {Places{}.m + value}; }

typedef std::uint8_t Bytes16 __attribute__((vector_size(16)));
SPOOL_INLINE Places load_places(const std::uint8_t* p, std::int64_t n) {
  Bytes16 bytes{};
  if (n == 16)
    std::memcpy(&bytes, p, 16);
  else
    std::memcpy(&bytes, p, static_cast<std::size_t>(n));
  return {__builtin_convertvector(bytes, decltype(Places::m))};
}
SPOOL_INLINE void store_places(const Places& x, std::uint8_t* p, std::int64_t n) {
  const Bytes16 bytes = __builtin_convertvector(x.m, Bytes16);
  if (n == 16)
    std::memcpy(p, &bytes, 16);
  else
    std::memcpy(p, &bytes, static_cast<std::size_t>(n));
}

// Whether y = normal * weight + bias can be solved for `normal` without losing digits, in every channel.
template <class T>
bool solvable(const Tensor& weight, const Tensor& bias) {
  constexpr float most = sizeof(T) == 2 ? 1 : 16;
  if (!weight.defined()) return !bias.defined();
  for (std::int64_t c = 0; c < weight.numel(); ++c) {
    const float w = std::abs(data<float>(weight)[c]), b = bias.defined() ? std::abs(data<float>(bias)[c]) : 0.0f;
    if (!(w > 0 && b <= most * w)) return false;
  }
  return true;
}

// The kernel of a pool, its size known to the compiler where Side is not 0.
template <int Side>
struct Window {
  Size2 size;
  std::int64_t h() const { return Side ? Side : size.h; }
  std::int64_t w() const { return Side ? Side : size.w; }
};
template <class F>
void visit_window(Size2 kernel, const F& f) {
  kernel == Size2(2) ? f(Window<2>{kernel}) : f(Window<0>{kernel});
}

// The rows of an image and of the pooled one.
struct PoolSizes {
  std::int64_t n, c, h, w, oh, ow;
  PoolSizes(const Tensor& x, const Tensor& y)
      : n(x.shape()[0]), c(x.shape()[1]), h(x.shape()[2]), w(x.shape()[3]), oh(y.shape()[2]), ow(y.shape()[3]) {}
  std::int64_t grain(std::int64_t kernel_rows) const {
    return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, kernel_rows * w * c));
  }
};

template <class T, class W>
void pool_forward(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias, W window,
                  Tensor& y, Tensor& index) {
  const PoolSizes s(x, y);
  const T* from = data<T>(x);
  T* to = mutable_data<T>(y);
  auto* at = mutable_data<std::uint8_t>(index);
  const Norm norm(mean, inv_std, weight, bias);
  parallel_for(s.n * s.oh, s.grain(window.h()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* first = from + (row / s.oh * s.h + row % s.oh * window.h()) * s.w * s.c;
      for (std::int64_t j = 0; j < s.ow; ++j)
        for_each_vector(s.c, [&](std::int64_t c, auto n) {
          Lanes best{};  // what the ReLU makes of a window without anything above 0
          Places place = places(kNoMaximum);
          for (std::int64_t u = 0; u < window.h(); ++u)
            for (std::int64_t v = 0; v < window.w(); ++v) {
              const Lanes value = norm(load16(first + (u * s.w + j * window.w() + v) * s.c + c, n), c, n);
              // A NaN is not <= anything, and nothing displaces it.
              const auto wins = ~(value.v <= best.v) & (best.v == best.v);
              best.v = wins ? value.v : best.v;
              place.m = wins ? places(static_cast<std::int32_t>(u * window.w() + v)).m : place.m;
            }
          const std::int64_t out = (row * s.ow + j) * s.c + c;
          store16(best, to + out, n);
          store_places(place, at + out, n);
        });
    }
  });
}

// x at the places of the maxima, for the sums of the gradient: the pixel of window `out` (an offset in y) that won, anything where none did.
template <class T>
struct Winners {
  const T* x;
  const std::uint8_t* index;
  PoolSizes s;
  Size2 kernel;
  Lanes operator()(std::int64_t out, std::int64_t n) const {
    const std::int64_t c = out % s.c, j = out / s.c % s.ow, row = out / (s.c * s.ow);
    const T* first = x + ((row / s.oh * s.h + row % s.oh * kernel.h) * s.w + j * kernel.w) * s.c + c;
    const Places place = load_places(index + out, n);
    Lanes found{};
    for (std::int64_t u = 0; u < kernel.h; ++u)
      for (std::int64_t v = 0; v < kernel.w; ++v) {
        const Places here = places(static_cast<std::int32_t>(u * kernel.w + v));
        found = select({place.m == here.m}, load16(first + (u * s.w + v) * s.c, n), found);
      }
    return found;
  }
};

// Sums of the passed gradient, and of it times the normalised x, over the elements of y. read_x(at, n) is x there; where `from_y` allows, y alone tells.
template <class T, class ReadX>
std::vector<double> gradient_sums(const Tensor& y, const Tensor& gy, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                  const Tensor& inv_std, bool from_y, const ReadX& read_x) {
  const T *values = data<T>(y), *grads = data<T>(gy);
  if (from_y && solvable<T>(weight, bias)) {
    // normal = (y - bias) / weight
    std::vector<float> shift(static_cast<std::size_t>(mean.numel())), inverse(shift.size(), 1.0f);
    for (std::size_t c = 0; c < shift.size(); ++c) {
      if (bias.defined()) shift[c] = data<float>(bias)[c];
      if (weight.defined()) inverse[c] = 1 / data<float>(weight)[c];
    }
    return channel_sums(Rows(y), [&](std::int64_t at, std::int64_t c, auto n) {
      const Lanes value = load16(values + at, n), g = passed(value, load16(grads + at, n));
      return std::pair(g, g * ((value - load16(shift.data() + c, n)) * load16(inverse.data() + c, n)));
    });
  }
  return channel_sums(Rows(y), [&, m = data<float>(mean), s = data<float>(inv_std)](std::int64_t at, std::int64_t c, auto n) {
    const Lanes g = passed(load16(values + at, n), load16(grads + at, n));
    return std::pair(g, g * ((read_x(at, n) - load16(m + c, n)) * load16(s + c, n)));
  });
}

template <class T, class W>
void pool_input_gradient(const Tensor& x, const Tensor& index, const Tensor& gy, const InputGradient& gradient, W window,
                         Tensor& gx) {
  const PoolSizes s(x, gy);
  const T *from = data<T>(x), *grads = data<T>(gy);
  const auto* winners = data<std::uint8_t>(index);
  T* to = mutable_data<T>(gx);
  // A row of windows, or what is left of the image below the last one.
  const std::int64_t rows = s.oh + (s.oh * window.h() < s.h), covered = s.ow * window.w();
  parallel_for(s.n * rows, s.grain(window.h()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t i = row % rows, top = (row / rows * s.h + i * window.h()) * s.w * s.c;
      for (std::int64_t j = 0; i < s.oh && j < s.ow; ++j)
        for_each_vector(s.c, [&](std::int64_t c, auto n) {
          const std::int64_t out = ((row / rows * s.oh + i) * s.ow + j) * s.c + c;
          const Lanes g = gradient.direct(load16(grads + out, n), c, n);
          const Places winner = load_places(winners + out, n);
          for (std::int64_t u = 0; u < window.h(); ++u)
            for (std::int64_t v = 0; v < window.w(); ++v) {
              const std::int64_t at = top + (u * s.w + j * window.w() + v) * s.c + c;
              const Places here = places(static_cast<std::int32_t>(u * window.w() + v));
              store16(gradient.indirect(load16(from + at, n), c, n) + select({winner.m == here.m}, g, Lanes{}), to + at, n);
            }
        });
      // Pixels that no window covers.
      const std::int64_t height = i < s.oh ? window.h() : s.h - s.oh * window.h();
      for (std::int64_t u = 0; u < height; ++u)
        for (std::int64_t w = i < s.oh ? covered : 0; w < s.w; ++w)
          for_each_vector(s.c, [&](std::int64_t c, auto n) {
            const std::int64_t at = top + (u * s.w + w) * s.c + c;
            store16(gradient.indirect(load16(from + at, n), c, n), to + at, n);
          });
    }
  });
}

}  // namespace

void batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& mean, const Tensor& inv_std, const Tensor& weight,
                     const Tensor& bias, Tensor& y) {
  if (!runs_in_lanes(x)) {
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) { ref::batch_norm_relu<T>(x, residual, mean, inv_std, weight, bias, y); });
    return;
  }
  visit_single(x, [&]<class T>(TypeTag<T>) {
    const T *from = data<T>(x), *more = residual.defined() ? data<T>(residual) : nullptr;
    T* to = mutable_data<T>(y);
    const Norm norm(mean, inv_std, weight, bias);
    for_each_lanes(Rows(x), [&](std::int64_t at, std::int64_t c, auto n) {
      Lanes value = norm(load16(from + at, n), c, n);
      if (more) value = value + load16(more + at, n);
      store16(relu(value), to + at, n);
    });
  });
}

void batch_norm_relu_backward(const Tensor& x, const Tensor& y, const Tensor& gy, const Tensor& weight, const Tensor& bias,
                              const Tensor& mean, const Tensor& inv_std, bool training, bool plain, Tensor& gx, Tensor& gw,
                              Tensor& gb, Tensor& gresidual) {
  if (!runs_in_lanes(x)) {
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
      ref::batch_norm_relu_backward<T>(x, y, gy, weight, mean, inv_std, training, gx, gw, gb, gresidual);
    });
    return;
  }
  visit_single(x, [&]<class T>(TypeTag<T>) {
    const T *xs = data<T>(x), *values = data<T>(y), *grads = data<T>(gy);
    std::vector<double> sums;
    if (training || gw.defined() || gb.defined())
      sums = gradient_sums<T>(y, gy, weight, bias, mean, inv_std, plain,
                              [xs](std::int64_t at, std::int64_t n) { return load16(xs + at, n); });
    const InputGradient gradient(sums, Rows(x).rows, weight, mean, inv_std, training, gw, gb);
    if (!gx.defined() && !gresidual.defined()) return;
    T *to = gx.defined() ? mutable_data<T>(gx) : nullptr, *rest = gresidual.defined() ? mutable_data<T>(gresidual) : nullptr;
    for_each_lanes(Rows(x), [&](std::int64_t at, std::int64_t c, auto n) {
      const Lanes g = passed(load16(values + at, n), load16(grads + at, n));
      if (rest) store16(g, rest + at, n);
      if (to) store16(gradient.direct(g, c, n) + gradient.indirect(load16(xs + at, n), c, n), to + at, n);
    });
  });
}

void batch_norm_relu_pool(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias,
                          Size2 kernel, Tensor& y, Tensor& index) {
  if (!runs_in_lanes(x)) {
    visit_floating(x.dtype(),
                   [&]<class T>(TypeTag<T>) { ref::batch_norm_relu_pool<T>(x, mean, inv_std, weight, bias, kernel, y, index); });
    return;
  }
  visit_single(x, [&]<class T>(TypeTag<T>) {
    visit_window(kernel, [&](auto window) { pool_forward<T>(x, mean, inv_std, weight, bias, window, y, index); });
  });
}

void batch_norm_relu_pool_backward(const Tensor& x, const Tensor& y, const Tensor& index, const Tensor& gy, const Tensor& weight,
                                   const Tensor& bias, const Tensor& mean, const Tensor& inv_std, bool training, Size2 kernel,
                                   Tensor& gx, Tensor& gw, Tensor& gb) {
  if (!runs_in_lanes(x)) {
    visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
      ref::batch_norm_relu_pool_backward<T>(x, index, gy, weight, mean, inv_std, training, kernel, gx, gw, gb);
    });
    return;
  }
  visit_single(x, [&]<class T>(TypeTag<T>) {
    std::vector<double> sums;
    if (training || gw.defined() || gb.defined())
      sums = gradient_sums<T>(y, gy, weight, bias, mean, inv_std, true,
                              Winners<T>{data<T>(x), data<std::uint8_t>(index), PoolSizes(x, y), kernel});
    const InputGradient gradient(sums, Rows(x).rows, weight, mean, inv_std, training, gw, gb);
    if (gx.defined()) visit_window(kernel, [&](auto window) { pool_input_gradient<T>(x, index, gy, gradient, window, gx); });
  });
}

}  // namespace spool::kernels::cpu
