#include "spool/kernels/kernel_run.h"

#include <chrono>

namespace spool::kernels {
namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

KernelTimer::KernelTimer(const char* name, std::size_t bytes)
    : run_{name, thread_state.layer, thread_state.phase, bytes, now(), 0} {}

KernelTimer::~KernelTimer() {
  run_.end = now();
  if (thread_state.kernel_runs) thread_state.kernel_runs->push_back(run_);
}

}  // namespace spool::kernels
