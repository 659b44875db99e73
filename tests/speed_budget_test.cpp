// What speed rests on, counted instead of timed: instructions of a small operation, kernels and memory of a training step. The budgets leave a
// third and more of room, so that another compiler passes and a lost fast path does not.
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "catch.h"
#include "spool/spool.h"

#include "../examples/cifar10/convnet.h"

using namespace spool;

// Of builds for use on the one processor whose instructions the budgets are for.
#if defined(NDEBUG) && defined(__OPTIMIZE__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

// The instructions of work(), which runs once before to warm up, in a child process that is taken from one to the next. Zero where the system
// does not allow that.
template <class F>
std::uint64_t instructions(const F& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    work();
    raise(SIGSTOP);
    work();
    raise(SIGSTOP);
    _exit(0);
  }
  std::uint64_t count = 0;
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return 0;
  do {
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return 0;
    waitpid(child, &status, 0);
    ++count;
  } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  ptrace(PTRACE_KILL, child, nullptr, nullptr);
  waitpid(child, &status, 0);
  return count;
}

// Of one operation, as the difference between a long and a short chain.
template <class Op>
std::uint64_t per_operation(const Op& op) {
  set_num_threads(1);
  const Tensor c = ones({4}), seed = ones({4});
  Tensor x = ones({4}).set_requires_grad();
  const auto chain = [&](int n) {
    return instructions([&] {
      Tensor y = x;
      for (int i = 0; i < n; ++i) y = op(y, c);
      y.backward(seed);
      x.set_grad({});
    });
  };
  const std::uint64_t few = chain(10), many = chain(40);
  return few && many ? (many - few) / 30 : 0;
}

void check_budget(const char* what, std::uint64_t count, std::uint64_t budget) {
  if (count == 0) {
    WARN(what << " was not counted: this system does not allow ptrace()");
    return;
  }
  INFO(what << " takes " << count << " instructions, the budget is " << budget);
  CHECK(count <= budget);
  CHECK(count > 100);  // less would mean that nothing was counted
}

}  // namespace

TEST_CASE("A small operation takes few instructions, forward, tape and backward") {
  const int threads = get_num_threads();
  check_budget("an addition", per_operation([](const Tensor& a, const Tensor& b) { return a + b; }), 2300);
  check_budget("a product", per_operation([](const Tensor& a, const Tensor& b) { return a * b; }), 3600);
  check_budget("relu", per_operation([](const Tensor& a, const Tensor&) { return relu(a); }), 3600);
  set_num_threads(threads);
}
#endif

TEST_CASE("A training step of the ConvNet runs few kernels and asks the system for no memory") {
  manual_seed(0);
  ConvNet model;
  Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
  const Tensor x = randn({16, 3, 32, 32}).contiguous(MemoryFormat::channels_last), labels = randint(0, 10, {16});
  const auto step = [&] {
    adam.zero_grad();
    cross_entropy(model(x), labels).backward();
    adam.step();
  };
  for (int i = 0; i < 3; ++i) step();
  const MemoryStats before = memory_stats();
  Profiler profiler;
  for (int i = 0; i < 5; ++i) step();
  profiler.stop();
  const MemoryStats after = memory_stats();
  CHECK(after.system_allocations == before.system_allocations);
  CHECK(after.allocated == before.allocated);
  const std::size_t kernels = profiler.runs().size() / 5;
  INFO(profiler.kernel_table());
  CHECK(kernels <= 36);
  std::size_t bytes = 0;
  std::set<std::string> names;
  for (const KernelRun& run : profiler.runs()) {
    bytes += run.bytes;
    names.insert(run.name);
  }
  // Activations of 16 pictures and the optimizer's 5 numbers a parameter, each read or written a few times.
  CHECK(bytes / 5 <= 75'000'000);
  CHECK(names.count("batch_norm_relu_pool") == 1);
  CHECK(names.count("max_pool2d") == 0);
}
