// Switching the recording of operations on and off for the calling thread, for the length of a scope.
#pragma once
#include "spool/core/thread_state.h"

namespace spool {

class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled) : before_(thread_state.grad_enabled) { thread_state.grad_enabled = enabled; }
  ~GradModeGuard() { thread_state.grad_enabled = before_; }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool before_;
};

// `NoGrad guard;`: operations in this scope are not recorded.
struct NoGrad : GradModeGuard {
  NoGrad() : GradModeGuard(false) {}
};
// `EnableGrad guard;`: operations in this scope are recorded, even inside a NoGrad.
struct EnableGrad : GradModeGuard {
  EnableGrad() : GradModeGuard(true) {}
};

inline bool grad_enabled() { return thread_state.grad_enabled; }

}  // namespace spool
