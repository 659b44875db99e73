// What a Profiler (spool/train/profiler.h) learns about a kernel. With none running a kernel pays one test of a thread's own pointer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "spool/core/tensor.h"
#include "spool/core/thread_state.h"

namespace spool {

struct KernelRun {
  const char* name;
  const LayerPath* layer;  // that called it, or null
  Phase phase;
  std::size_t bytes;        // of its operands, each counted once
  std::int64_t start, end;  // nanoseconds of a steady clock
};

namespace kernels {

template <class T>
std::size_t operand_bytes(const T&) {
  return 0;
}
inline std::size_t operand_bytes(const Tensor& t) {
  return t.defined() ? std::min(static_cast<std::size_t>(t.numel()) * size_of(t.dtype()), t.storage()->bytes()) : 0;
}
template <class T>
requires requires(const T& entry) { entry.bytes(); }
std::size_t operand_bytes(const T& entry) { return entry.bytes(); }
template <class T>
std::size_t operand_bytes(std::span<const T> list) {
  std::size_t total = 0;
  for (const T& item : list) total += operand_bytes(item);
  return total;
}
template <class... T>
std::size_t total_bytes(const T&... operands) {
  return (std::size_t{0} + ... + operand_bytes(operands));
}

// Adds a run, from its construction to its destruction, to the thread's list. Kernels do not call kernels, so scopes do not nest.
class KernelTimer {
 public:
  KernelTimer(const char* name, std::size_t bytes);
  ~KernelTimer();
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

 private:
  KernelRun run_;
};

}  // namespace kernels
}  // namespace spool
