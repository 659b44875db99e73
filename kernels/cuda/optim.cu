// Optimizers over every parameter at once. The kernels get a table of all arrays as an argument, cut into pieces that blocks take: one launch for the norm, one for the update, and
// more only beyond kRows parameters.
#include "spool/kernels/optim.h"

#include "spool/core/errors.h"
#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels::cuda {
namespace {

constexpr int kRows = 384;  // so that the table fits the 32 KiB of a kernel's arguments
constexpr std::int64_t kPiece = 4096;
constexpr int kArrays = 5;

struct Row {
  void* arrays[kArrays];
  std::int64_t numel, step;
  unsigned first_piece;
  DType dtype;
};
struct Table {
  int rows = 0;
  unsigned pieces = 0;
  Row row[kRows];

  void add(DType dtype, std::int64_t numel, std::int64_t step, std::initializer_list<const Tensor*> arrays) {
    Row& r = row[rows++];
    int i = 0;
    for (const Tensor* t : arrays) r.arrays[i++] = t->defined() ? t->raw_data() : nullptr;
    r.numel = numel;
    r.step = step;
    r.first_piece = pieces;
    r.dtype = dtype;
    pieces += static_cast<unsigned>((numel + kPiece - 1) / kPiece);
  }
};
static_assert(sizeof(Table) < 32000);

// The row of this block's piece.
__device__ inline const Row& row_of_block(const Table& t) {
  int low = 0, high = t.rows - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (t.row[middle].first_piece <= blockIdx.x)
      low = middle;
    else
      high = middle - 1;
  }
  return t.row[low];
}

// Calls f(tag of the row's type, element) for the elements of this block's piece.
template <class F>
__device__ void for_each_element(const Row& row, const F& f) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - row.first_piece) * kPiece;
  const std::int64_t end = begin + kPiece < row.numel ? begin + kPiece : row.numel;
  const auto loop = [&](auto type) {
    for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) f(type, i);
  };
  switch (row.dtype) {
    case DType::bf16: return loop(TypeTag<bfloat16>{});
    case DType::f64: return loop(TypeTag<double>{});
    default: return loop(TypeTag<float>{});
  }
}
template <class T>
__device__ T* array(const Row& row, int i) {
  return static_cast<T*>(row.arrays[i]);
}

struct Plus2 {
  bool largest;
  // NaN is kept: nothing is larger than it, and it is larger than nothing.
  __device__ double operator()(double a, double b) const { return largest ? (a != a || a > b ? a : b) : a + b; }
};

// partial[first + block]: the sum of |g|^p over the block's piece, or the largest |g|. The last block of the last table turns them all into the norm.
__global__ void __launch_bounds__(kThreads) grad_norm_kernel(Table table, double p, double scale, double* partial, unsigned first,
                                                             bool is_last, double* norm, unsigned* ticket) {
  const Plus2 combine{isinf(p) != 0};
  double sum = 0;
  if (blockIdx.x < table.pieces) {
    const Row& row = row_of_block(table);
    for_each_element(row, [&]<class T>(TypeTag<T>, std::int64_t i) {
      const double g = ::fabs(static_cast<double>(static_cast<accumulate_t<T>>(array<const T>(row, 0)[i])));
      sum = combine(sum, combine.largest || p == 1 ? g : p == 2 ? g * g : ::pow(g, p));
    });
  }
  sum = block_combine(sum, combine);
  if (threadIdx.x == 0) partial[first + blockIdx.x] = sum;
  if (!is_last || !last_block(ticket, gridDim.x)) return;
  double total = 0;
  for (unsigned i = threadIdx.x; i < first + gridDim.x; i += blockDim.x) total = combine(total, partial[i]);
  total = block_combine(total, combine);
  if (threadIdx.x != 0) return;
  if (!combine.largest) total = p == 2 ? ::sqrt(total) : ::pow(total, 1 / p);
  *norm = ::fabs(scale) * total;
}

__device__ inline double norm_value(const double* norm) { return norm ? *norm : 0; }

// Whether nothing may be changed: there is something to report, or now there is.
__device__ inline bool refused(const GradTransform& transform, const double* norm, spool::cuda::Report* report) {
  if (!transform.refuse_nonfinite || isfinite(*norm)) return report->code != 0;
  if (blockIdx.x == 0 && threadIdx.x == 0 && atomicCAS(&report->code, 0u, spool::cuda::Report::kNonfiniteNorm) == 0)
    report->number = *norm;
  return true;
}

__global__ void __launch_bounds__(kThreads) transform_kernel(Table table, GradTransform transform, const double* norm) {
  const Row& row = row_of_block(table);
  for_each_element(row, [&]<class T>(TypeTag<T>, std::int64_t i) {
    using A = accumulate_t<T>;
    const ClipGradient<A> clip(transform, norm_value(norm));
    T* g = array<T>(row, 0);
    g[i] = static_cast<T>(clip(static_cast<A>(g[i])));
  });
}

__global__ void __launch_bounds__(kThreads) sgd_kernel(Table table, SgdStep step, GradTransform transform, const double* norm,
                                                       spool::cuda::Report* report, const Live* live, int group) {
  if (refused(transform, norm, report)) return;
  if (live) {
    const Live::Group& now = live->groups[group];
    step.lr = now.lr, step.momentum = now.momentum, step.weight_decay = now.weight_decay;
  }
  const Row& row = row_of_block(table);
  const std::int64_t number = row.step + (live ? live->steps : 0);
  const SgdUpdate<double> update64(step, number);
  const SgdUpdate<float> update32(step, number);
  for_each_element(row, [&]<class T>(TypeTag<T>, std::int64_t i) {
    using A = accumulate_t<T>;
    const ClipGradient<A> clip(transform, norm_value(norm));
    T *p = array<T>(row, 0), *buffer = array<T>(row, 2);
    A x = static_cast<A>(p[i]);
    const A g = clip(static_cast<A>(array<const T>(row, 1)[i]));
    const auto apply = [&](const auto& update) {
      if (!buffer) return update(x, g);
      A b = static_cast<A>(buffer[i]);
      update(x, g, b);
      buffer[i] = static_cast<T>(b);
    };
    if constexpr (std::is_same_v<A, double>)
      apply(update64);
    else
      apply(update32);
    p[i] = static_cast<T>(x);
  });
}

__global__ void __launch_bounds__(kThreads) adam_kernel(Table table, AdamStep step, GradTransform transform, const double* norm,
                                                        spool::cuda::Report* report, const Live* live, int group) {
  if (refused(transform, norm, report)) return;
  if (live) {
    const Live::Group& now = live->groups[group];
    step.lr = now.lr, step.beta1 = now.momentum, step.weight_decay = now.weight_decay;
  }
  const Row& row = row_of_block(table);
  const std::int64_t number = row.step + (live ? live->steps : 0);
  const AdamUpdate<double> update64(step, number);
  const AdamUpdate<float> update32(step, number);
  for_each_element(row, [&]<class T>(TypeTag<T>, std::int64_t i) {
    using A = accumulate_t<T>;
    const ClipGradient<A> clip(transform, norm_value(norm));
    T *p = array<T>(row, 0), *m = array<T>(row, 2), *v = array<T>(row, 3), *v_max = array<T>(row, 4);
    A x = static_cast<A>(p[i]), mean = static_cast<A>(m[i]), square = static_cast<A>(v[i]);
    const A g = clip(static_cast<A>(array<const T>(row, 1)[i]));
    const auto apply = [&](const auto& update) {
      if (!v_max) return update(x, g, mean, square);
      A largest = static_cast<A>(v_max[i]);
      update(x, g, mean, square, largest);
      v_max[i] = static_cast<T>(largest);
    };
    if constexpr (std::is_same_v<A, double>)
      apply(update64);
    else
      apply(update32);
    p[i] = static_cast<T>(x);
    m[i] = static_cast<T>(mean);
    v[i] = static_cast<T>(square);
  });
}

// Which of the live groups this update is of.
int next_group() {
  spool::cuda::Capture* capture = spool::cuda::capture();
  if (!capture) return 0;
  if (capture->groups == Live::kGroups)
    throw CudaError("step", "a captured step updates at most 32 parameter groups; run without capture, or join groups");
  return capture->groups++;
}

// The number read by ClipGradient, where it is read at all.
const double* norm_data(const GradTransform& t, const Tensor& norm) {
  return std::isinf(t.max_norm) && !t.refuse_nonfinite ? nullptr : data<const double>(norm);
}

std::size_t bytes_of_row(const Row& r) {
  std::size_t n = 0;
  for (const void* a : r.arrays) n += a != nullptr;
  return n * static_cast<std::size_t>(r.numel) * size_of(r.dtype);
}

// Fills tables with add(table, i) for i < n, which adds a row or none, and runs f(context, table, whether it is the last) on each.
template <class Add, class F>
void for_each_table(const char* op, const Tensor& on, std::size_t n, const Add& add, const F& f) {
  for (std::size_t i = 0; i < n || n == 0;) {
    Table table{};
    for (; i < n && table.rows < kRows; ++i) add(table, i);
    std::size_t bytes = 0;
    for (int r = 0; r < table.rows; ++r) bytes += bytes_of_row(table.row[r]);
    f(begin(op, on.device().index, bytes), table, i == n);
    if (n == 0) break;
  }
}

}  // namespace

void grad_norm(std::span<const Tensor> grads, double p, double scale, Tensor& norm) {
  std::int64_t pieces = 1;
  for (const Tensor& g : grads)
    if (g.defined()) pieces += (g.numel() + kPiece - 1) / kPiece + 1;
  const Scratch partial(spool::cuda::context(norm), static_cast<std::size_t>(pieces) * sizeof(double));
  unsigned first = 0;
  for_each_table(
      "grad_norm", norm, grads.size(),
      [&](Table& t, std::size_t i) {
        if (grads[i].defined()) t.add(grads[i].dtype(), grads[i].numel(), 0, {&grads[i]});
      },
      [&](Context& c, const Table& t, bool is_last) {
        const unsigned blocks = t.pieces ? t.pieces : 1;  // without elements too, one block writes the norm
        launch(c, grad_norm_kernel, blocks, kThreads, t, p, scale, partial.as<double>(), first, is_last, data<double>(norm),
               c.tickets);
        first += blocks;
      });
}

void transform_gradients(std::span<const Tensor> grads, const GradTransform& transform, const Tensor& norm) {
  for_each_table(
      "clip_grad", grads[0], grads.size(),
      [&](Table& t, std::size_t i) {
        if (grads[i].defined()) t.add(grads[i].dtype(), grads[i].numel(), 0, {&grads[i]});
      },
      [&](Context& c, const Table& t, bool) {
        launch(c, transform_kernel, t.pieces, kThreads, t, transform, norm_data(transform, norm));
      });
}

void sgd(std::span<const SgdEntry> entries, const SgdStep& step, const GradTransform& transform, const Tensor& norm) {
  const int group = next_group();
  for_each_table(
      "SGD", entries[0].param, entries.size(),
      [&](Table& t, std::size_t i) {
        const SgdEntry& e = entries[i];
        if (e.grad.defined()) t.add(e.param.dtype(), e.param.numel(), e.step, {&e.param, &e.grad, &e.momentum_buffer});
      },
      [&](Context& c, const Table& t, bool) {
        launch(c, sgd_kernel, t.pieces, kThreads, t, step, transform, norm_data(transform, norm), c.report, live(), group);
      });
}

void adam(std::span<const AdamEntry> entries, const AdamStep& step, const GradTransform& transform, const Tensor& norm) {
  const int group = next_group();
  for_each_table(
      "Adam", entries[0].param, entries.size(),
      [&](Table& t, std::size_t i) {
        const AdamEntry& e = entries[i];
        if (e.grad.defined())
          t.add(e.param.dtype(), e.param.numel(), e.step, {&e.param, &e.grad, &e.exp_avg, &e.exp_avg_sq, &e.max_exp_avg_sq});
      },
      [&](Context& c, const Table& t, bool) {
        launch(c, adam_kernel, t.pieces, kThreads, t, step, transform, norm_data(transform, norm), c.report, live(), group);
      });
}

}  // namespace spool::kernels::cuda
