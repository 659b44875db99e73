#include "spool/kernels/index.h"

#include "spool/kernels/cuda/lines.cuh"

namespace spool::kernels::cuda {
namespace {

// x with `shape`, standing still along `dim`: what an index then moves in.
Tensor fixed(const Tensor& x, const Shape& shape, int dim) {
  Strides strides = x.strides();
  strides[dim] = 0;
  return alias(x, shape, strides, x.offset());
}

template <class T>
__global__ void __launch_bounds__(kThreads) gather_kernel(Loop loop, std::int64_t jump) {
  for (std::int64_t i = first_index(); i < loop.numel; i += index_step()) {
    std::int64_t at[3];
    loop.locate(static_cast<std::uint64_t>(i), at);
    const std::int64_t index = static_cast<const std::int64_t*>(loop.data[1])[at[1]];
    static_cast<T*>(loop.data[0])[at[0]] = static_cast<const T*>(loop.data[2])[at[2] + index * jump];
  }
}

// A thread for each line along the index: so repeated indices add up in their order.
template <class T>
__global__ void __launch_bounds__(kThreads) scatter_add_kernel(Lines lines, std::int64_t jump) {
  for (std::int64_t line = first_index(); line < lines.starts.numel; line += index_step()) {
    std::int64_t at[3];
    lines.starts.locate(static_cast<std::uint64_t>(line), at);
    const T* x = static_cast<const T*>(lines.starts.data[0]) + at[0];
    const auto* index = static_cast<const std::int64_t*>(lines.starts.data[1]) + at[1];
    T* y = static_cast<T*>(lines.starts.data[2]) + at[2];
    for (std::int64_t i = 0; i < lines.length; ++i) {
      T& target = y[index[i * lines.steps[1]] * jump];
      const T value = x[i * lines.steps[0]];
      if constexpr (std::is_same_v<T, bool>)
        target = target || value;
      else
        target = static_cast<T>(target + value);
    }
  }
}

// A tensor's elements in row-major order, whatever its strides.
struct RowMajor {
  int dims;
  std::int64_t sizes[kMaxDims], strides[kMaxDims];
  explicit RowMajor(const Tensor& t) : dims(t.dim()) {
    for (int d = 0; d < dims; ++d) {
      sizes[d] = t.shape()[d];
      strides[d] = t.strides()[d];
    }
  }
};

__global__ void __launch_bounds__(kThreads) out_of_range_kernel(const std::int64_t* index, RowMajor order, std::int64_t n,
                                                                std::int64_t size, unsigned long long* position) {
  for (std::int64_t i = first_index(); i < n; i += index_step()) {
    std::int64_t at = 0, rest = i;
    for (int d = order.dims - 1; d >= 0; --d) {
      at += rest % order.sizes[d] * order.strides[d];
      rest /= order.sizes[d];
    }
    if (index[at] < 0 || index[at] >= size) atomicMin(position, static_cast<unsigned long long>(i));
  }
}

// Moving is the same for all types of one size.
template <class F>
void visit_size(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f(TypeTag<std::uint8_t>{});
    case 2: return f(TypeTag<std::uint16_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    default: return f(TypeTag<std::uint64_t>{});
  }
}

}  // namespace

void gather(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor from = fixed(x, y.shape(), dim);
  const Loop loop = make_loop({&y, &index, &from});
  Context& c = begin("gather", {&y, &index, &y});  // it reads as much of x as it writes
  visit_size(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, gather_kernel<T>, grid_for(c, loop.numel), kThreads, loop, x.strides()[dim]);
  });
}

void scatter_add(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  if (x.numel() == 0) return;
  const Tensor to = fixed(y, x.shape(), dim);
  const Lines lines = make_lines(dim, {&x, &index, &to});
  Context& c = begin("scatter_add", {&x, &index, &x, &x});
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch(c, scatter_add_kernel<T>, grid_for(c, lines.starts.numel), kThreads, lines, y.strides()[dim]);
  });
}

void find_out_of_range(const Tensor& index, std::int64_t size, Tensor& position) {
  Context& c = begin("check of indices", {&index});
  // All ones: -1, and the largest of all unsigned numbers.
  SPOOL_CUDA(cudaMemsetAsync(position.raw_data(), 0xFF, sizeof(std::int64_t), c.stream));
  if (index.numel() == 0) return;
  launch(c, out_of_range_kernel, grid_for(c, index.numel()), kThreads, data<const std::int64_t>(index), RowMajor(index),
         index.numel(), size, data<unsigned long long>(position));
}

}  // namespace spool::kernels::cuda
