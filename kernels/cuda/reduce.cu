#include "spool/kernels/cuda/reduce.cuh"

#include <limits>

namespace spool::kernels::cuda {

ReduceShape reduce_shape(const Tensor& x, DimMask dims, const Tensor& y, const Tensor& z) {
  ReduceShape s;
  const bool kept_dims = y.dim() == x.dim();
  int order[kMaxDims], place_in_y[kMaxDims], n = 0, at = 0;
  for (int d = 0; d < x.dim(); ++d) {
    const bool reduced = dims >> d & 1;
    place_in_y[d] = kept_dims ? d : at;
    at += !reduced;
    if (x.shape()[d] != 1) order[n++] = d;
  }
  sort_dims(order, n, [&](int a, int b) { return x.strides()[a] < x.strides()[b]; });
  // Reduced dimensions must be walked in row-major order, as the index of an element counts.
  int row_major[kMaxDims], m = 0;
  for (int d = x.dim() - 1; d >= 0; --d)
    if (x.shape()[d] != 1 && dims >> d & 1) row_major[m++] = d;
  for (int i = 0; i < m; ++i) {
    const int d = row_major[i];
    s.inputs *= x.shape()[d];
    const int last = s.in_dims - 1;
    if (last >= 0 && x.strides()[d] == s.in_x[last] * s.in_sizes[last]) {
      s.in_sizes[last] *= x.shape()[d];
      continue;
    }
    s.in_sizes[s.in_dims] = x.shape()[d];
    s.in_x[s.in_dims++] = x.strides()[d];
  }
  for (int i = 0; i < n; ++i) {
    const int d = order[i];
    if (dims >> d & 1) continue;
    s.outputs *= x.shape()[d];
    const std::int64_t sx = x.strides()[d], sy = y.strides()[place_in_y[d]], sz = z.defined() ? z.strides()[place_in_y[d]] : 0;
    const int last = s.out_dims - 1;
    if (last >= 0 && sx == s.out_x[last] * s.out_sizes[last] && sy == s.out_y[last] * s.out_sizes[last] &&
        sz == s.out_z[last] * s.out_sizes[last]) {
      s.out_sizes[last] *= x.shape()[d];
      continue;
    }
    s.out_sizes[s.out_dims] = x.shape()[d];
    s.out_x[s.out_dims] = sx;
    s.out_y[s.out_dims] = sy;
    s.out_z[s.out_dims++] = sz;
  }
  return s;
}

ReducePlan plan_reduce(const Context& c, const ReduceShape& s) {
  // Threads side by side should read side by side: along the outputs where these are innermost in memory, else along the elements of one.
  const bool outputs_inside = s.outputs > 1 && (s.in_dims == 0 || s.out_x[0] < s.in_x[0] || s.inputs < 8);
  unsigned width = 1;
  if (outputs_inside) {
    const unsigned most = s.inputs < 8 ? kThreads : 32;
    while (width < most && width < s.outputs) width *= 2;
  }
  unsigned height = kThreads / width;
  while (height > 1 && height / 2 >= s.inputs) height /= 2;
  ReducePlan plan;
  plan.block = dim3(width, height);
  const std::int64_t columns = (s.outputs + width - 1) / width;
  const std::int64_t wanted = std::int64_t{c.multiprocessors} * 4 / columns, useful = s.inputs / (std::int64_t{height} * 8);
  if (columns <= Context::kTickets && wanted > 1 && useful > 1)
    plan.parts = static_cast<unsigned>(wanted < useful ? (wanted < 1024 ? wanted : 1024) : (useful < 1024 ? useful : 1024));
  plan.grid = dim3(static_cast<unsigned>(columns), plan.parts);
  return plan;
}

namespace {

// Floating sums and products run in double, those of integers in i64; other combinations in the elements' own type.
template <class T>
using wide_t = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
// bf16 compares as float.
template <class T>
using narrow_t = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

template <class T, class Y>
struct Sum {
  using Part = wide_t<T>;
  using Out = Y*;
  double divisor;  // 1 for integers
  __device__ Part start() const { return 0; }
  __device__ Part add(Part p, T v, std::int64_t) const { return p + static_cast<Part>(v); }
  __device__ Part merge(Part a, Part b) const { return a + b; }
  __device__ void finish(Part p, Out y, std::int64_t at, std::int64_t) const {
    if constexpr (std::is_integral_v<Part>)
      y[at] = static_cast<Y>(p);
    else
      y[at] = static_cast<Y>(p / divisor);
  }
};

template <class T>
struct Product {
  using Part = wide_t<T>;
  using Out = T*;
  __device__ Part start() const { return 1; }
  __device__ Part add(Part p, T v, std::int64_t) const { return p * static_cast<Part>(v); }
  __device__ Part merge(Part a, Part b) const { return a * b; }
  __device__ void finish(Part p, Out y, std::int64_t at, std::int64_t) const { y[at] = static_cast<T>(p); }
};

template <class T>
struct Extreme {
  using Part = narrow_t<T>;
  using Out = T*;
  bool largest;
  Part lowest, highest;
  __device__ Part start() const { return largest ? lowest : highest; }
  __device__ Part merge(Part a, Part b) const { return a == a && (b != b || (largest ? b > a : b < a)) ? b : a; }
  __device__ Part add(Part p, T v, std::int64_t) const { return merge(p, static_cast<Part>(v)); }
  __device__ void finish(Part p, Out y, std::int64_t at, std::int64_t) const { y[at] = static_cast<T>(p); }
};

struct Logical {
  using Part = bool;
  using Out = bool*;
  bool all;
  __device__ bool start() const { return all; }
  __device__ bool merge(bool a, bool b) const { return all ? a && b : a || b; }
  __device__ bool add(bool p, bool v, std::int64_t) const { return merge(p, v); }
  __device__ void finish(bool p, Out y, std::int64_t at, std::int64_t) const { y[at] = p; }
};

template <class T>
struct Place {
  narrow_t<T> value;
  std::int64_t index;  // -1: none yet
};
template <class T>
struct PlaceOut {
  T* values;
  std::int64_t* indices;
};
// The largest or smallest element and its first index; NaN wins.
template <class T>
struct ExtremePlace {
  using Part = Place<T>;
  using Out = PlaceOut<T>;
  bool largest;
  __device__ Part start() const { return {narrow_t<T>{}, -1}; }
  __device__ Part merge(Part a, Part b) const {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (a_nan || a.value == b.value) return a.index < b.index ? a : b;
    return (largest ? a.value > b.value : a.value < b.value) ? a : b;
  }
  __device__ Part add(Part p, T v, std::int64_t i) const { return merge(p, {static_cast<narrow_t<T>>(v), i}); }
  __device__ void finish(Part p, Out out, std::int64_t y, std::int64_t z) const {
    out.values[y] = static_cast<T>(p.value);
    out.indices[z] = p.index;
  }
};

template <class T>
Extreme<T> extreme_of(bool largest) {
  using P = narrow_t<T>;
  using Limits = std::numeric_limits<P>;
  return {largest, Limits::has_infinity ? -Limits::infinity() : Limits::lowest(),
          Limits::has_infinity ? Limits::infinity() : Limits::max()};
}

}  // namespace

void reduce(Reduce op, const Tensor& x, DimMask dims, Tensor& y) {
  if (op == Reduce::any || op == Reduce::all)
    return reduce_with<bool>(op == Reduce::any ? "any" : "all", Logical{op == Reduce::all}, x, dims, data<bool>(y), y);
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    using Y = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    if (op == Reduce::sum) return reduce_with<T>("sum", Sum<T, Y>{1}, x, dims, data<Y>(y), y);
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, std::int64_t>) {
      if (op == Reduce::prod) return reduce_with<T>("prod", Product<T>{}, x, dims, data<T>(y), y);
      reduce_with<T>(op == Reduce::max ? "max" : "min", extreme_of<T>(op == Reduce::max), x, dims, data<T>(y), y);
    }
  });
}

void mean(const Tensor& x, DimMask dims, double divisor, Tensor& y) {
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) { reduce_with<T>("mean", Sum<T, T>{divisor}, x, dims, data<T>(y), y); });
}

void extreme(bool largest, const Tensor& x, int dim, Tensor& values, Tensor& indices) {
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    reduce_with<T>(largest ? "max" : "min", ExtremePlace<T>{largest}, x, x.dim() ? DimMask{1} << dim : 0,
                   PlaceOut<T>{data<T>(values), data<std::int64_t>(indices)}, values, indices);
  });
}

}  // namespace spool::kernels::cuda
