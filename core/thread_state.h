// What a thread carries: whether operations are recorded, which layer is running, what for, and who wants to know.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

// What every operation looks at lies where a thread finds it without a call, in a shared library too.
#if defined(__GNUC__) && !defined(__CUDACC__)  // nvcc does not know the attribute, and may do without
#define SPOOL_FAST_TLS __attribute__((tls_model("initial-exec")))
#else
#define SPOOL_FAST_TLS
#endif

namespace spool {

// Where in a model a layer sits: "block1.conv2", and what it is: "Conv2d(3, 32, kernel_size=(3, 3))". Modules own theirs
// and never move, nodes of the tape share it.
struct LayerPath {
  std::string path;
  std::string description;
};

// The part of a training step that a thread is in.
enum class Phase : std::uint8_t { forward, backward, update };

struct KernelRun;

struct ThreadState {
  bool grad_enabled = true;
  bool autocast = false;
  Phase phase = Phase::forward;
  const LayerPath* layer = nullptr;
  std::vector<KernelRun>* kernel_runs = nullptr;  // of a running Profiler
};

SPOOL_FAST_TLS inline constinit thread_local ThreadState thread_state;

// Says for the length of a scope which part of a step runs.
class PhaseGuard {
 public:
  explicit PhaseGuard(Phase phase) : before_(thread_state.phase) { thread_state.phase = phase; }
  ~PhaseGuard() { thread_state.phase = before_; }
  PhaseGuard(const PhaseGuard&) = delete;
  PhaseGuard& operator=(const PhaseGuard&) = delete;

 private:
  Phase before_;
};

}  // namespace spool
