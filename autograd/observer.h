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
  // The backward of an operation has run; these are the gradients of its outputs and inputs, undefined where none arrived or is needed.
  virtual void ran(Node&, std::span<const Tensor> /*grad_out*/, std::span<const Tensor> /*grad_in*/) {}
  // The elements of a tensor were overwritten in place, by an operation ("add_") or an optimizer ("SGD").
  virtual void overwritten(const char* /*op*/, const Tensor&) {}

 protected:
  // The one that was told until now, or null.
  const TapeObserver* before() const { return before_; }

 private:
  TapeObserver* before_;
};

namespace detail {
inline constinit thread_local TapeObserver* tape_observer = nullptr;
}

inline TapeObserver::TapeObserver() : before_(detail::tape_observer) { detail::tape_observer = this; }
inline TapeObserver::~TapeObserver() { detail::tape_observer = before_; }

// What writes in place says so when it is done: nodes that saved the old elements notice, and so does who watches.
inline void mark_overwritten(const char* op, const Tensor& tensor) {
  tensor.storage()->bump_version();
  if (detail::tape_observer) detail::tape_observer->overwritten(op, tensor);
}

}  // namespace spool
