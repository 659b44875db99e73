#include "spool/train/interrupt.h"

#include <atomic>
#include <csignal>

namespace spool {
namespace {

std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free, "signal handlers may not lock");
int guards = 0;

extern "C" void on_signal(int number) {
  int none = 0;
  if (received.compare_exchange_strong(none, number)) return;
  // Delivered as soon as this handler returns, with the effect it has on a process without handlers.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(number, &usual, nullptr);
  raise(number);
}

}  // namespace

struct Interrupt::Before {
  struct sigaction interrupt, terminate;
};

Interrupt::Interrupt() : before_(new Before) {
  if (guards++ == 0) received = 0;
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGINT, &ours, &before_->interrupt);
  sigaction(SIGTERM, &ours, &before_->terminate);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &before_->interrupt, nullptr);
  sigaction(SIGTERM, &before_->terminate, nullptr);
  --guards;
  delete before_;
}

int Interrupt::signal() const { return received; }

}  // namespace spool
