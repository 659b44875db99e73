#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support.h"

using namespace spool;

namespace {

int other_calls = 0;
extern "C" void other_handler(int) { ++other_calls; }

// How a child that runs `f` ends.
template <class F>
int status_of_child(F f) {
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("The first signal sets a flag, and the handlers from before come back") {
  const auto before = std::signal(SIGINT, other_handler);
  {
    const Interrupt interrupt;
    CHECK_FALSE(interrupt.requested());
    std::raise(SIGINT);
    CHECK(interrupt.requested());
    CHECK(interrupt.signal() == SIGINT);
    {
      const Interrupt nested;
      CHECK(nested.requested());
    }
    CHECK(interrupt.requested());
  }
  CHECK(other_calls == 0);
  std::raise(SIGINT);
  CHECK(other_calls == 1);
  {
    const Interrupt again;
    CHECK_FALSE(again.requested());
    std::raise(SIGTERM);
    CHECK(again.signal() == SIGTERM);
  }
  std::signal(SIGINT, before);
}

TEST_CASE("The second signal ends the process as if there were no handler") {
  for (const int second : {SIGINT, SIGTERM}) {
    const int status = status_of_child([second] {
      const Interrupt interrupt;
      std::raise(SIGINT);
      std::raise(second);
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == second);
  }
  const int status = status_of_child([] {
    const Interrupt interrupt;
    std::raise(SIGTERM);
    ::_exit(interrupt.requested() ? 0 : 1);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
