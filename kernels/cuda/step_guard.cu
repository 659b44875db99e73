#include "spool/kernels/step_guard.h"

#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels {
namespace {

using namespace spool::kernels::cuda;
using spool::cuda::Report;

constexpr std::size_t kRows = 256;  // tensors in a launch

struct Copies {
  struct Row {
    const char* from;
    char* to;
    std::size_t bytes;
  } row[kRows];
};

// A block for each tensor.
__global__ void save_kernel(Copies copies, int rows, long long* saves, bool is_last, const Report* report) {
  if (report->code != 0) return;
  if (static_cast<int>(blockIdx.x) < rows) {
    const Copies::Row& r = copies.row[blockIdx.x];
    for (std::size_t i = threadIdx.x; i < r.bytes; i += blockDim.x) r.to[i] = r.from[i];
  }
  if (is_last && blockIdx.x == 0 && threadIdx.x == 0) ++*saves;
}

template <class T>
__global__ void loss_kernel(const T* loss, Report* report) {
  const auto value = static_cast<accumulate_t<T>>(*loss);
  if (!isfinite(value) && atomicCAS(&report->code, 0u, Report::kNonfiniteLoss) == 0) report->number = static_cast<double>(value);
}

}  // namespace

void save_unless_reported(std::span<const Tensor> from, std::span<const Tensor> to, const Tensor& saves) {
  std::size_t first = 0;
  do {
    Copies copies{};
    const std::size_t n = std::min(kRows, from.size() - first);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Tensor &a = from[first + i], &b = to[first + i];
      copies.row[i] = {data<const char>(a), data<char>(b), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())};
      bytes += copies.row[i].bytes;
    }
    Context& c = begin("save", saves.device().index, 2 * bytes);
    first += n;
    launch(c, save_kernel, n ? static_cast<unsigned>(n) : 1u, kThreads, copies, static_cast<int>(n), data<long long>(saves),
           first == from.size(), c.report);
  } while (first < from.size());
}

void report_nonfinite(const Tensor& loss) {
  Context& c = begin("loss", {&loss});
  visit_floating(loss.dtype(), [&]<class T>(TypeTag<T>) { launch(c, loss_kernel<T>, 1u, 1u, data<const T>(loss), c.report); });
}

}  // namespace spool::kernels
