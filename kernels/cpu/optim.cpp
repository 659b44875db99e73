#include "spool/kernels/optim.h"

#include <algorithm>
#include <type_traits>

#include "spool/core/inline_vector.h"
#include "spool/core/parallel.h"
#include "spool/kernels/cpu/loops.h"

namespace spool::kernels::cpu {
namespace {

constexpr std::int64_t kBlock = 4096;

// All entries' elements cut into blocks, which are shared among threads. `count(i)` is the number of elements of entry i; f(i, begin, end,
// number of the block) is called for every block.
template <class Count, class F>
void for_each_block(std::size_t entries, const Count& count, const F& f) {
  Inline<std::int64_t, 32> first;  // the number of each entry's first block
  std::int64_t blocks = 0, elements = 0;
  for (std::size_t i = 0; i < entries; ++i) {
    first.emplace_back(blocks);
    blocks += (count(i) + kBlock - 1) / kBlock;
    elements += count(i);
  }
  if (elements == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain * blocks / elements);
  parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    auto entry = static_cast<std::size_t>(std::upper_bound(first.begin(), first.end(), begin) - first.begin()) - 1;
    for (std::int64_t b = begin; b < end; ++b) {
      while (entry + 1 < entries && first[entry + 1] <= b) ++entry;
      const std::int64_t from = (b - first[entry]) * kBlock;
      f(entry, from, std::min(from + kBlock, count(entry)), b);
    }
  });
}

template <class Entry>
std::int64_t count_of(const Entry& e) {
  return e.grad.defined() ? e.param.numel() : 0;
}
std::int64_t count_of(const Tensor& grad) { return grad.defined() ? grad.numel() : 0; }

template <class T>
T* data_of(const Tensor& t, std::int64_t begin) {
  return t.defined() ? static_cast<T*>(t.raw_data()) + begin : nullptr;
}

// Several partial sums, so that the loop fills vector registers in an order that is fixed all the same.
template <class T, class F>
double sum_of(const T* g, std::int64_t n, const F& f) {
  constexpr int lanes = 16;
  double partial[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) partial[k] += f(static_cast<double>(static_cast<accumulate_t<T>>(g[i + k])));
  double total = 0;
  for (const double p : partial) total += p;
  for (; i < n; ++i) total += f(static_cast<double>(static_cast<accumulate_t<T>>(g[i])));
  return total;
}

template <class T>
double power_sum(const T* g, std::int64_t n, double p) {
  if (p == 2) return sum_of(g, n, [](double x) { return x * x; });
  if (p == 1) return sum_of(g, n, [](double x) { return std::abs(x); });
  if (!std::isinf(p)) return sum_of(g, n, [p](double x) { return std::pow(std::abs(x), p); });
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = std::abs(static_cast<double>(static_cast<accumulate_t<T>>(g[i])));
    largest = x <= largest ? largest : x;  // NaN is kept: nothing compares with it
    if (largest != largest) break;
  }
  return largest;
}

double norm_value(const GradTransform& t, const Tensor& norm) {
  return std::isinf(t.max_norm) ? 0 : *static_cast<const double*>(norm.raw_data());
}

// Calls update(p, clipped g, state...) for n elements of type T, computing in A. Distinct arrays, which is what `restrict` promises.
template <class T, class A, class Update, class... S>
void run(const Update& update, const ClipGradient<A>& clip, std::int64_t n, T* __restrict p, const T* __restrict g,
         S* __restrict... state) {
  for (std::int64_t i = 0; i < n; ++i) {
    A x = static_cast<A>(p[i]);
    [&](auto... s) {
      update(x, clip(static_cast<A>(g[i])), s...);
      ((state[i] = static_cast<T>(s)), ...);
    }(static_cast<A>(state[i])...);
    p[i] = static_cast<T>(x);
  }
}

}  // namespace

void grad_norm(std::span<const Tensor> grads, double p, double scale, Tensor& norm) {
  std::int64_t blocks = 0;
  for (const Tensor& g : grads) blocks += (count_of(g) + kBlock - 1) / kBlock;
  Inline<double, 64> partial;
  partial.resize(static_cast<std::size_t>(blocks));
  for_each_block(
      grads.size(), [&](std::size_t i) { return count_of(grads[i]); },
      [&](std::size_t i, std::int64_t begin, std::int64_t end, std::int64_t block) {
        partial[static_cast<std::size_t>(block)] = visit_floating(
            grads[i].dtype(), [&]<class T>(TypeTag<T>) { return power_sum(data_of<T>(grads[i], begin), end - begin, p); });
      });
  double total = 0;
  for (const double x : partial) total = std::isinf(p) ? (x <= total ? total : x) : total + x;
  if (std::isinf(p)) {
    for (const double x : partial)
      if (x != x) total = x;
  } else {
    total = p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
  }
  *static_cast<double*>(norm.raw_data()) = std::abs(scale) * total;
}

void transform_gradients(std::span<const Tensor> grads, const GradTransform& transform, const Tensor& norm) {
  const double norm_now = norm_value(transform, norm);
  for_each_block(
      grads.size(), [&](std::size_t i) { return count_of(grads[i]); },
      [&](std::size_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
        visit_floating(grads[i].dtype(), [&]<class T>(TypeTag<T>) {
          const ClipGradient<accumulate_t<T>> clip(transform, norm_now);
          T* g = data_of<T>(grads[i], begin);
          for (std::int64_t k = 0; k < end - begin; ++k) g[k] = static_cast<T>(clip(static_cast<accumulate_t<T>>(g[k])));
        });
      });
}

void sgd(std::span<const SgdEntry> entries, const SgdStep& step, const GradTransform& transform, const Tensor& norm) {
  const double norm_now = norm_value(transform, norm);
  for_each_block(
      entries.size(), [&](std::size_t i) { return count_of(entries[i]); },
      [&](std::size_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
        const SgdEntry& e = entries[i];
        visit_floating(e.param.dtype(), [&]<class T>(TypeTag<T>) {
          using A = accumulate_t<T>;
          const ClipGradient<A> clip(transform, norm_now);
          const SgdUpdate<A> update(step, e.step);
          T* p = data_of<T>(e.param, begin);
          const T* g = data_of<T>(e.grad, begin);
          if (e.momentum_buffer.defined())
            run<T, A>(update, clip, end - begin, p, g, data_of<T>(e.momentum_buffer, begin));
          else
            run<T, A>(update, clip, end - begin, p, g);
        });
      });
}

void adam(std::span<const AdamEntry> entries, const AdamStep& step, const GradTransform& transform, const Tensor& norm) {
  const double norm_now = norm_value(transform, norm);
  for_each_block(
      entries.size(), [&](std::size_t i) { return count_of(entries[i]); },
      [&](std::size_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
        const AdamEntry& e = entries[i];
        visit_floating(e.param.dtype(), [&]<class T>(TypeTag<T>) {
          using A = accumulate_t<T>;
          const ClipGradient<A> clip(transform, norm_now);
          const AdamUpdate<A> update(step, e.step);
          T* p = data_of<T>(e.param, begin);
          const T* g = data_of<T>(e.grad, begin);
          T *m = data_of<T>(e.exp_avg, begin), *v = data_of<T>(e.exp_avg_sq, begin);
          if (e.max_exp_avg_sq.defined())
            run<T, A>(update, clip, end - begin, p, g, m, v, data_of<T>(e.max_exp_avg_sq, begin));
          else
            run<T, A>(update, clip, end - begin, p, g, m, v);
        });
      });
}

}  // namespace spool::kernels::cpu
