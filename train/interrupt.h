#pragma once

namespace spool {

// While one is alive, the first SIGINT (Ctrl-C) or SIGTERM only sets a flag, for a training loop to look at after each step; the second one ends the
// process at once, as it would have without. The handlers from before come back at the end of the scope. Guards may be nested; they see one flag, which the outermost
// resets. Make and destroy them from one thread.
//
//   Interrupt interrupt;
//   for (...) { ...; adam.step(); if (interrupt.requested()) break; }
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const { return signal() != 0; }
  // The number of the signal that came, or 0. A program that stops for it conventionally exits with 128 + this.
  int signal() const;

 private:
  struct Before;
  Before* before_;
};

}  // namespace spool
