// Elementwise loops over tensors of one shape and any strides: dimensions are put in the output's memory order and merged where every operand allows it. What then
// lies side by side is read and written 16 bytes at a time, everything else one element at a time.
#pragma once
#include <initializer_list>
#include <utility>

#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels::cuda {

inline constexpr int kMaxOperands = 4;

struct Loop {
  std::int64_t numel = 0;
  int dims = 0;
  std::int64_t sizes[kMaxDims];                  // innermost first
  std::int64_t strides[kMaxOperands][kMaxDims];  // in elements
  void* data[kMaxOperands];

  // The offsets of every operand's element number i.
  template <int N, class I>
  __device__ void locate(I i, std::int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int d = 0; d < dims; ++d) {
      const I size = static_cast<I>(sizes[d]), place = d + 1 < dims ? i % size : i;
      i /= size;
      for (int k = 0; k < N; ++k) at[k] += static_cast<std::int64_t>(place) * strides[k][d];
    }
  }
};

// The first operand is the output, which decides the order.
Loop make_loop(std::initializer_list<const Tensor*> operands);
// How an operand can be read 16 bytes at a time: element by element, or as one value for all.
bool is_flat(const Loop& loop, int operand);
bool is_single(const Loop& loop, int operand);

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T items[N];
};

template <int V, class T>
__device__ Pack<T, V> load_pack(const T* p, std::int64_t i, bool single) {
  if (!single) return reinterpret_cast<const Pack<T, V>*>(p)[i];
  Pack<T, V> all;
  for (int j = 0; j < V; ++j) all.items[j] = *p;
  return all;
}

// y[i] = f(x[i]...), V elements a thread and turn; `single` has bit k set where input k is one value for all.
template <int V, class F, class Y, class... X, std::size_t... K>
__device__ void map_flat(const F& f, const Loop& loop, unsigned single, std::index_sequence<K...>) {
  const std::int64_t packs = loop.numel / V;
  Y* y = static_cast<Y*>(loop.data[0]);
  for (std::int64_t i = first_index(); i < packs; i += index_step()) {
    Pack<Y, V> out;
    [&](const Pack<X, V>&... in) {
      for (int j = 0; j < V; ++j) out.items[j] = f(in.items[j]...);
    }(load_pack<V>(static_cast<const X*>(loop.data[K + 1]), i, single >> K & 1)...);
    reinterpret_cast<Pack<Y, V>*>(y)[i] = out;
  }
  for (std::int64_t i = packs * V + first_index(); i < loop.numel; i += index_step())
    y[i] = f(static_cast<const X*>(loop.data[K + 1])[single >> K & 1 ? 0 : i]...);
}

template <class I, class F, class Y, class... X, std::size_t... K>
__device__ void map_strided(const F& f, const Loop& loop, std::index_sequence<K...>) {
  for (std::int64_t i = first_index(); i < loop.numel; i += index_step()) {
    std::int64_t at[1 + sizeof...(X)];
    loop.locate(static_cast<I>(i), at);
    static_cast<Y*>(loop.data[0])[at[0]] = f(static_cast<const X*>(loop.data[K + 1])[at[K + 1]]...);
  }
}

enum class Path : int { flat, strided_32, strided_64 };

template <class F, class Y, class... X>
__global__ void __launch_bounds__(kThreads) map_kernel(F f, Loop loop, Path path, unsigned single) {
  constexpr auto inputs = std::index_sequence_for<X...>{};
  constexpr int largest = [] {
    int most = sizeof(Y);
    ((most = static_cast<int>(sizeof(X)) > most ? static_cast<int>(sizeof(X)) : most), ...);
    return most;
  }();
  if (path == Path::flat)
    map_flat<16 / largest, F, Y, X...>(f, loop, single, inputs);
  else if (path == Path::strided_32)
    map_strided<std::uint32_t, F, Y, X...>(f, loop, inputs);
  else
    map_strided<std::uint64_t, F, Y, X...>(f, loop, inputs);
}

// y = f(x...) for every element: map<float, float, float>("add", f, y, a, b), the types being the output's and the inputs'.
template <class Y, class... X, class F, class... In>
void map(const char* op, const F& f, const Tensor& y, const In&... x) {
  static_assert(sizeof...(X) == sizeof...(In));
  if (y.numel() == 0) return;
  const Loop loop = make_loop({&y, &x...});
  bool flat = is_flat(loop, 0);
  unsigned single = 0;
  for (int k = 1; k <= static_cast<int>(sizeof...(X)); ++k) {
    if (is_single(loop, k))
      single |= 1u << (k - 1);
    else
      flat = flat && is_flat(loop, k);
  }
  const Path path = flat ? Path::flat : loop.numel < (std::int64_t{1} << 31) ? Path::strided_32 : Path::strided_64;
  Context& c = begin(op, {&y, &x...});
  constexpr std::int64_t per_thread = 4;
  launch(c, map_kernel<F, Y, X...>, grid_for(c, loop.numel, kThreads * per_thread), kThreads, f, loop, path, single);
}

}  // namespace spool::kernels::cuda
