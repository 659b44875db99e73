#include "spool/core/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "spool/core/errors.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace spool {
namespace {

int initial_threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

std::atomic<int>& threads() {
  static std::atomic<int> n{initial_threads()};
  return n;
}

constinit thread_local bool single_threaded = false;

}  // namespace

SingleThreaded::SingleThreaded() : before_(single_threaded), openmp_before_(1) {
  single_threaded = true;
#if defined(_OPENMP)
  openmp_before_ = omp_get_max_threads();
  omp_set_num_threads(1);  // of this thread only; what oneDNN goes by
#endif
}

SingleThreaded::~SingleThreaded() {
  single_threaded = before_;
#if defined(_OPENMP)
  omp_set_num_threads(openmp_before_);
#endif
}

void set_num_threads(int n) {
  if (n < 1) throw ValueError("set_num_threads", fmt::format("the number of threads must be at least 1, not {}", n));
  threads().store(n);
#if defined(_OPENMP)
  omp_set_num_threads(n);  // what oneDNN goes by
#endif
}

int get_num_threads() { return threads().load(std::memory_order_relaxed); }

void detail::parallel_for(std::int64_t n, std::int64_t grain, RangeBody body, const void* context) {
  const std::int64_t pieces = std::min<std::int64_t>(get_num_threads(), n / std::max<std::int64_t>(grain, 1));
#if defined(_OPENMP)
  if (pieces > 1 && !single_threaded && !omp_in_parallel()) {
    std::exception_ptr error;
#pragma omp parallel for num_threads(static_cast <int>(pieces)) schedule(static, 1)
    for (std::int64_t p = 0; p < pieces; ++p) {
      try {
        body(context, n * p / pieces, n * (p + 1) / pieces);
      } catch (...) {
#pragma omp critical
        error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
    return;
  }
#endif
  (void)pieces;
  body(context, 0, n);
}

}  // namespace spool
