// Normalisation, as kernels/norm.h defines it, in two passes and in double.
#pragma once
#include <cmath>

#include "spool/kernels/norm.h"
#include "spool/kernels/ref/view.h"

namespace spool::kernels::ref {

// x [N, C, ...] as [outer, C, inner]: the elements of channel c are those of all (o, i).
template <class T>
struct Channels {
  T* data;
  std::int64_t outer, channels, inner;
  explicit Channels(const Tensor& x)
      : data(static_cast<T*>(x.raw_data())), outer(x.shape()[0]), channels(x.shape()[1]), inner(1) {
    for (int d = 2; d < x.dim(); ++d) (x.dim() == 4 ? outer : inner) *= x.shape()[d];
  }
  T& operator()(std::int64_t o, std::int64_t c, std::int64_t i) const { return data[(o * channels + c) * inner + i]; }
  double count() const { return static_cast<double>(outer * inner); }
  // Calls f for every (o, i).
  template <class F>
  void for_each(const F& f) const {
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i) f(o, i);
  }
};

// Element i of an optional vector.
template <class S>
double item_or(const Tensor& t, std::int64_t i, double otherwise) {
  return t.defined() ? static_cast<double>(static_cast<const S*>(t.raw_data())[i]) : otherwise;
}
template <class S>
void set_item(Tensor& t, std::int64_t i, double value) {
  if (t.defined()) static_cast<S*>(t.raw_data())[i] = static_cast<S>(value);
}

template <class S>
void update_running(Tensor& running, std::int64_t c, double momentum, double value) {
  set_item<S>(running, c, (1 - momentum) * item_or<S>(running, c, 0) + momentum * value);
}

template <class T>
void batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& inv_std, const Tensor& weight, const Tensor& bias,
                      Tensor& y) {
  using S = accumulate_t<T>;
  const Channels<const T> xs(x);
  const Channels<T> ys(y);
  for (std::int64_t c = 0; c < xs.channels; ++c) {
    const double m = item_or<S>(mean, c, 0), scale = item_or<S>(inv_std, c, 1) * item_or<S>(weight, c, 1),
                 shift = item_or<S>(bias, c, 0);
    xs.for_each([&](std::int64_t o, std::int64_t i) {
      ys(o, c, i) = static_cast<T>((static_cast<double>(xs(o, c, i)) - m) * scale + shift);
    });
  }
}

template <class T>
void batch_norm_stats(const Tensor& x, Tensor& running_mean, Tensor& running_var, double momentum, double eps, Tensor& mean,
                      Tensor& inv_std) {
  using S = accumulate_t<T>;
  const Channels<const T> xs(x);
  const double n = xs.count();
  for (std::int64_t c = 0; c < xs.channels; ++c) {
    double m = 0, squares = 0;
    xs.for_each([&](std::int64_t o, std::int64_t i) { m += static_cast<double>(xs(o, c, i)); });
    m /= n;
    xs.for_each([&](std::int64_t o, std::int64_t i) {
      squares += (static_cast<double>(xs(o, c, i)) - m) * (static_cast<double>(xs(o, c, i)) - m);
    });
    set_item<S>(mean, c, m);
    set_item<S>(inv_std, c, 1 / std::sqrt(squares / n + eps));
    update_running<S>(running_mean, c, momentum, m);
    update_running<S>(running_var, c, momentum, squares / (n - 1));
  }
}

template <class T>
void batch_norm_backward(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                         bool training, Tensor& gx, Tensor& gw, Tensor& gb) {
  using S = accumulate_t<T>;
  const Channels<const T> xs(x), gs(gy);
  const double n = xs.count();
  for (std::int64_t c = 0; c < xs.channels; ++c) {
    const double m = item_or<S>(mean, c, 0), s = item_or<S>(inv_std, c, 1), scale = item_or<S>(weight, c, 1) * s;
    const auto normal = [&](std::int64_t o, std::int64_t i) { return (static_cast<double>(xs(o, c, i)) - m) * s; };
    double sum = 0, dot = 0;
    xs.for_each([&](std::int64_t o, std::int64_t i) {
      sum += static_cast<double>(gs(o, c, i));
      dot += static_cast<double>(gs(o, c, i)) * normal(o, i);
    });
    set_item<S>(gb, c, sum);
    set_item<S>(gw, c, dot);
    if (!gx.defined()) continue;
    const Channels<T> out(gx);
    xs.for_each([&](std::int64_t o, std::int64_t i) {
      const double g = static_cast<double>(gs(o, c, i));
      out(o, c, i) = static_cast<T>(scale * (training ? g - sum / n - normal(o, i) * dot / n : g));
    });
  }
}

template <class T>
void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& inv_std) {
  using S = accumulate_t<T>;
  const View<const T> xs(x);
  const View<T> ys(y);
  const std::int64_t d = x.shape()[1];
  for (std::int64_t r = 0; r < x.shape()[0]; ++r) {
    double m = 0, squares = 0;
    for (std::int64_t i = 0; i < d; ++i) m += static_cast<double>(xs(r, i));
    m /= static_cast<double>(d);
    for (std::int64_t i = 0; i < d; ++i) squares += (static_cast<double>(xs(r, i)) - m) * (static_cast<double>(xs(r, i)) - m);
    const double s = 1 / std::sqrt(squares / static_cast<double>(d) + eps);
    set_item<S>(mean, r, m);
    set_item<S>(inv_std, r, s);
    for (std::int64_t i = 0; i < d; ++i)
      ys(r, i) = static_cast<T>((static_cast<double>(xs(r, i)) - m) * s * item_or<S>(weight, i, 1) + item_or<S>(bias, i, 0));
  }
}

template <class T>
void layer_norm_backward(const Tensor& x, const Tensor& gy, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                         Tensor& gx, Tensor& gw, Tensor& gb) {
  using S = accumulate_t<T>;
  const View<const T> xs(x), gs(gy);
  const std::int64_t rows = x.shape()[0], d = x.shape()[1];
  const auto normal = [&](std::int64_t r, std::int64_t i) {
    return (static_cast<double>(xs(r, i)) - item_or<S>(mean, r, 0)) * item_or<S>(inv_std, r, 1);
  };
  for (std::int64_t i = 0; i < d; ++i) {
    double sum = 0, dot = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      sum += static_cast<double>(gs(r, i));
      dot += static_cast<double>(gs(r, i)) * normal(r, i);
    }
    set_item<S>(gb, i, sum);
    set_item<S>(gw, i, dot);
  }
  if (!gx.defined()) return;
  const View<T> out(gx);
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0, dot = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      const double g = static_cast<double>(gs(r, i)) * item_or<S>(weight, i, 1);
      sum += g;
      dot += g * normal(r, i);
    }
    for (std::int64_t i = 0; i < d; ++i) {
      const double g = static_cast<double>(gs(r, i)) * item_or<S>(weight, i, 1);
      out(r, i) = static_cast<T>(item_or<S>(inv_std, r, 1) * (g - (sum + normal(r, i) * dot) / static_cast<double>(d)));
    }
  }
}

}  // namespace spool::kernels::ref
