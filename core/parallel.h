// Splitting loops over the threads of the CPU backend.
#pragma once
#include <cstdint>
#include <type_traits>

namespace spool {

// How many threads CPU kernels use; starts as OMP_NUM_THREADS or the number of cores. Throws ValueError below 1.
void set_num_threads(int n);
int get_num_threads();

// While one lives, parallel_for and OpenMP loops started by the calling thread stay on it: what helper threads hold (those of a data
// loader, say), so that they do not compete with the threads of the computation.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  bool before_;
  int openmp_before_;
};

namespace detail {
using RangeBody = void (*)(const void* context, std::int64_t begin, std::int64_t end);
void parallel_for(std::int64_t n, std::int64_t grain, RangeBody body, const void* context);
}  // namespace detail

// Calls body(begin, end) on pieces that together cover [0, n); pieces are at least `grain` long, and a loop shorter than two of
// them stays on the calling thread. The pieces depend on n, grain and the number of threads alone, so sums per piece are reproducible.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, const F& body) {
  if (n <= 0) return;
  if (n < 2 * grain) return body(std::int64_t{0}, n);
  detail::parallel_for(
      n, grain, [](const void* f, std::int64_t b, std::int64_t e) { (*static_cast<const F*>(f))(b, e); }, &body);
}

}  // namespace spool
