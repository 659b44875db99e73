// Sorting by merging: runs of 1, 2, 4 ... elements are merged in pairs, each element finding its place by a binary search in the other run. Equal elements keep
// their order, as the one from the first run goes first.
#include "spool/kernels/cuda/lines.cuh"
#include "spool/kernels/index.h"

namespace spool::kernels::cuda {
namespace {

// Whether a goes before b, where a stands before b in the input.
template <class T>
__device__ bool goes_first(T a, T b, bool descending) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan == b_nan || (descending ? a_nan : b_nan);
  return descending ? !(b > a) : !(b < a);
}

// The lines of x, which is operand 2, one after the other.
template <class T>
__global__ void __launch_bounds__(kThreads) load_lines_kernel(Lines lines, std::int64_t length, T* keys, std::int64_t* places) {
  const std::int64_t all = lines.starts.numel * length;
  for (std::int64_t i = first_index(); i < all; i += index_step()) {
    std::int64_t at[3];
    const std::int64_t line = i / length, k = i % length;
    lines.starts.locate(static_cast<std::uint64_t>(line), at);
    keys[i] = static_cast<const T*>(lines.starts.data[2])[at[2] + k * lines.steps[2]];
    places[i] = k;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const T* keys, const std::int64_t* places, T* to_keys, std::int64_t* to_places, std::int64_t all,
                 std::int64_t length, std::int64_t run, bool descending) {
  for (std::int64_t i = first_index(); i < all; i += index_step()) {
    const std::int64_t line = i / length * length, k = i % length;
    const std::int64_t pair = k / (2 * run) * (2 * run), middle = pair + run < length ? pair + run : length;
    const std::int64_t end = middle + run < length ? middle + run : length;
    const bool in_first = k < middle;
    const T key = keys[i];
    // How many of the other run go before this element.
    std::int64_t low = in_first ? middle : pair, high = in_first ? end : middle;
    const std::int64_t begin = low;
    while (low < high) {
      const std::int64_t probe = (low + high) / 2;
      const T other = keys[line + probe];
      const bool before = in_first ? !goes_first(key, other, descending) : goes_first(other, key, descending);
      if (before)
        low = probe + 1;
      else
        high = probe;
    }
    const std::int64_t to = line + pair + (k - (in_first ? pair : middle)) + (low - begin);
    to_keys[to] = key;
    to_places[to] = places[i];
  }
}

// The first elements of each line into operands 0 and 1.
template <class T>
__global__ void __launch_bounds__(kThreads)
    store_lines_kernel(Lines lines, std::int64_t length, const T* keys, const std::int64_t* places) {
  const std::int64_t all = lines.starts.numel * lines.length;
  for (std::int64_t i = first_index(); i < all; i += index_step()) {
    std::int64_t at[3];
    const std::int64_t line = i / lines.length, k = i % lines.length;
    lines.starts.locate(static_cast<std::uint64_t>(line), at);
    static_cast<T*>(lines.starts.data[0])[at[0] + k * lines.steps[0]] = keys[line * length + k];
    static_cast<std::int64_t*>(lines.starts.data[1])[at[1] + k * lines.steps[1]] = places[line * length + k];
  }
}

}  // namespace

void sort(const Tensor& x, int dim, bool descending, Tensor& values, Tensor& indices) {
  if (x.numel() == 0 || values.numel() == 0) return;
  const Lines lines = make_lines(dim, {&values, &indices, &x});
  const std::int64_t length = x.dim() ? x.shape()[dim] : 1, all = x.numel();
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    Context* c = &begin("sort", {&x, &x});
    const auto n = static_cast<std::size_t>(all);
    const Scratch keys(*c, 2 * n * sizeof(T)), places(*c, 2 * n * sizeof(std::int64_t));
    int side = 0;  // which half of the scratch holds the runs
    const auto key_at = [&](int s) { return keys.as<T>() + s * all; };
    const auto place_at = [&](int s) { return places.as<std::int64_t>() + s * all; };
    launch(*c, load_lines_kernel<T>, grid_for(*c, all), kThreads, lines, length, key_at(0), place_at(0));
    for (std::int64_t run = 1; run < length; run *= 2, side ^= 1) {
      c = &begin("sort", {&x, &x});
      launch(*c, merge_kernel<T>, grid_for(*c, all), kThreads, key_at(side), place_at(side), key_at(side ^ 1), place_at(side ^ 1),
             all, length, run, descending);
    }
    c = &begin("sort", {&values, &indices});
    launch(*c, store_lines_kernel<T>, grid_for(*c, values.numel()), kThreads, lines, length, key_at(side), place_at(side));
  });
}

}  // namespace spool::kernels::cuda
