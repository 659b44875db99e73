// Watching the tape while it is made and run: how one finds out where a number first went wrong, what each layer computed, and how long it took.
#pragma once
#include <span>

#include "spool/autograd/node.h"

namespace spool {

// While one is alive, it sees every operation that its thread records and every one whose backward runs there. The newest one alone is
// told. Make and destroy it on one thread.
class TapeObserver {
 public:
  TapeObserver();
  virtual ~TapeObserver();
  TapeObserver(const TapeObserver&) = delete;
  TapeObserver& operator=(const TapeObserver&) = delete;

  // An operation has been computed and recorded; this is one of its outputs. What the node saves may not be complete yet.
  virtual void recorded(Node&, const Tensor& /*output*/) {}
  // The backward of an operation has run; these are the gradients of its inputs, undefined where none is needed.
  virtual void ran(Node&, std::span<const Tensor> /*grad_in*/) {}

 private:
  TapeObserver* before_;
};

namespace detail {
inline constinit thread_local TapeObserver* tape_observer = nullptr;
}

inline TapeObserver::TapeObserver() : before_(detail::tape_observer) { detail::tape_observer = this; }
inline TapeObserver::~TapeObserver() { detail::tape_observer = before_; }

}  // namespace spool
