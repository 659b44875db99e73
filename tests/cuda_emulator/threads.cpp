// Runs a grid on the CPU: blocks one after the other, each thread of a block as a fibre, so that __syncthreads() and warp shuffles mean what they say.
//
// A fibre takes the next thread when its own has ended, and only a thread that waits at a barrier keeps one: kernels without barriers never switch.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "device.h"
#include "internal.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

Position here;

namespace {

constexpr std::size_t kStack = std::size_t{1} << 16, kPage = 4096, kSharedLimit = 48 << 10;
constexpr unsigned kMaxThreads = 1024;

#if defined(__x86_64__)
using Context = void*;  // the stack pointer, below which the registers that a call must keep are stored
extern "C" void spool_emulator_switch(void** from, void* to);
asm(R"(
.text
.type spool_emulator_switch,@function
spool_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size spool_emulator_switch,.-spool_emulator_switch
)");
void switch_context(Context& from, Context& to) { spool_emulator_switch(&from, to); }
void make_context(Context& c, char* stack, void (*entry)()) {
  void** top = reinterpret_cast<void**>(stack + kStack) - 2;  // so that the entry sees the alignment of a call
  *top = reinterpret_cast<void*>(entry);
  c = top - 6;
}
#else
using Context = ucontext_t;
void switch_context(Context& from, Context& to) { swapcontext(&from, &to); }
void make_context(Context& c, char* stack, void (*entry)()) {
  getcontext(&c);
  c.uc_stack.ss_sp = stack;
  c.uc_stack.ss_size = kStack;
  c.uc_link = nullptr;
  makecontext(&c, entry, 0);
}
#endif

enum class State : unsigned char { waits_for_block, waits_for_warp, runs, ended };

struct Fibre {
  Context context{};
  char* stack = nullptr;
  unsigned thread = 0;
};

struct Shared {
  const void* declaration;
  std::size_t offset;
};

// The block that is running.
struct Block {
  const std::function<void()>* body = nullptr;
  unsigned threads = 0, started = 0, ended = 0;
  bool descending = false;
  std::vector<State> state;
  std::vector<Fibre*> fibre_of;          // of threads that wait
  std::vector<std::uint64_t> handed[2];  // what lanes hand to their warp, in turns
  std::vector<unsigned char> turn;       // which of the two a lane uses next
  std::vector<std::unique_ptr<Fibre>> pool;
  std::vector<Fibre*> idle;
  Fibre* running = nullptr;
  Context scheduler{};
  std::vector<Shared> shared;
  std::size_t shared_used = 0;
  alignas(128) char shared_bytes[kSharedLimit];
  std::string failure;
};

Block& block() {
  static Block* b = new Block;
  return *b;
}

std::uint64_t order_seed = 1;

uint3 place(unsigned i, dim3 size) { return {i % size.x, i / size.x % size.y, i / size.x / size.y}; }

void fibre_main() {
  Block& b = block();
  Fibre* self = b.running;
  for (;;) {
    while (b.started < b.threads) {
      const unsigned i = b.started++;
      self->thread = b.descending ? b.threads - 1 - i : i;
      here.thread = place(self->thread, here.block_size);
      b.state[self->thread] = State::runs;
      (*b.body)();
      b.state[self->thread] = State::ended;
      ++b.ended;
    }
    b.idle.push_back(self);
    switch_context(self->context, b.scheduler);
  }
}

void run_fibre(Fibre* f) {
  Block& b = block();
  b.running = f;
  switch_context(b.scheduler, f->context);
}

Fibre* idle_fibre() {
  Block& b = block();
  if (b.idle.empty()) {
    auto f = std::make_unique<Fibre>();
    void* memory = mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(memory, kPage, PROT_NONE);  // an overflow of the stack faults
    f->stack = static_cast<char*>(memory) + kPage;
    make_context(f->context, f->stack, &fibre_main);
    b.idle.push_back(f.get());
    b.pool.push_back(std::move(f));
  }
  Fibre* f = b.idle.back();
  b.idle.pop_back();
  return f;
}

void wait(State state) {
  Block& b = block();
  Fibre* self = b.running;
  b.state[self->thread] = state;
  b.fibre_of[self->thread] = self;
  switch_context(self->context, b.scheduler);
  here.thread = place(self->thread, here.block_size);
}

// Lets the threads go on that wait for nobody any more; false when none can.
bool release() {
  Block& b = block();
  std::vector<unsigned> free;
  unsigned at_barrier = 0;
  for (unsigned t = 0; t < b.threads; ++t) at_barrier += b.state[t] == State::waits_for_block;
  if (at_barrier + b.ended == b.threads) {
    for (unsigned t = 0; t < b.threads; ++t)
      if (b.state[t] == State::waits_for_block) free.push_back(t);
  } else {
    for (unsigned w = 0; w < b.threads; w += 32) {
      unsigned waiting = 0;
      for (unsigned t = w; t < std::min(w + 32, b.threads); ++t) waiting += b.state[t] == State::waits_for_warp;
      if (waiting == 32)
        for (unsigned t = w; t < w + 32; ++t) free.push_back(t);
    }
  }
  if (b.descending) std::reverse(free.begin(), free.end());
  for (const unsigned t : free) {
    b.state[t] = State::runs;
    run_fibre(b.fibre_of[t]);
  }
  return !free.empty();
}

std::string run_block(unsigned threads, const std::function<void()>& body) {
  Block& b = block();
  b.body = &body;
  b.threads = threads;
  b.started = b.ended = 0;
  b.state.assign(threads, State::runs);
  b.fibre_of.assign(threads, nullptr);
  for (auto& slots : b.handed) slots.assign(threads, 0);
  b.turn.assign(threads, 0);
  b.shared.clear();
  b.shared_used = 0;
  b.failure.clear();
  while (b.started < threads) run_fibre(idle_fibre());
  while (b.ended < threads) {
    if (release()) continue;
    unsigned at_barrier = 0, in_warp = 0;
    for (const State s : b.state) {
      at_barrier += s == State::waits_for_block;
      in_warp += s == State::waits_for_warp;
    }
    b.idle.clear();  // their threads never end: the fibres are lost
    return "the threads of a block wait for each other: " + std::to_string(at_barrier) + " at __syncthreads(), " +
           std::to_string(in_warp) + " in a warp shuffle, " + std::to_string(b.ended) + " have ended";
  }
  return b.failure;
}

// Visits 0 .. n - 1 in an order that depends on the seed: start + i * step (mod n), where step and n have no common factor.
struct Order {
  std::uint64_t n, start = 0, step = 1;
  Order(std::uint64_t count, std::uint64_t seed) : n(count) {
    if (!seed || n < 2) return;
    seed = (seed ^ (seed >> 31)) * 0x9E3779B97F4A7C15u;
    start = seed % n;
    for (step = seed / 7 % n; step < 1 || std::gcd(step, n) != 1; step = (step + 1) % n) {
    }
  }
  std::uint64_t operator[](std::uint64_t i) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((start + Wide{i} * step) % n);
  }
};

}  // namespace

void set_block_order(std::uint64_t seed) { order_seed = seed; }

void block_barrier() { wait(State::waits_for_block); }

std::uint64_t warp_exchange(std::uint64_t value, unsigned from) {
  Block& b = block();
  const unsigned self = b.running->thread, first = self - self % 32;
  const unsigned char turn = b.turn[self];
  b.turn[self] ^= 1;
  b.handed[turn][self] = value;
  wait(State::waits_for_warp);
  return b.handed[turn][first + from % 32];
}

void* shared_memory(const void* declaration, std::size_t bytes) {
  Block& b = block();
  for (const Shared& s : b.shared)
    if (s.declaration == declaration) return b.shared_bytes + s.offset;
  const std::size_t offset = (b.shared_used + 15) / 16 * 16;
  if (offset + bytes > kSharedLimit) {
    b.failure = "more than 48 KiB of shared memory in a block";
    return b.shared_bytes;
  }
  std::memset(b.shared_bytes + offset, 0xFF, bytes);
  b.shared_used = offset + bytes;
  b.shared.push_back({declaration, offset});
  return b.shared_bytes + offset;
}

std::string run_grid(dim3 grid, dim3 size, const std::function<void()>& body) {
  static std::uint64_t launches = 0;
  ++launches;
  here.grid_size = grid;
  here.block_size = size;
  block().descending = order_seed && launches % 2;
  const std::uint64_t n = std::uint64_t{grid.x} * grid.y * grid.z;
  const Order order(n, order_seed ? order_seed * 0x2545F491u + launches : 0);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t at = order[i];
    here.block = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                  static_cast<unsigned>(at / grid.x / grid.y)};
    std::string failure = run_block(size.x * size.y * size.z, body);
    if (!failure.empty()) return failure;
  }
  return {};
}

void enqueue_kernel(const char* name, dim3 grid, dim3 size, cudaStream_t stream, std::function<void()> body) {
  const std::uint64_t threads = std::uint64_t{size.x} * size.y * size.z;
  if (!grid.x || !grid.y || !grid.z || !threads || threads > kMaxThreads || size.z > 64 || grid.x > 0x7fffffffu ||
      grid.y > 65535 || grid.z > 65535) {
    remember(cudaErrorInvalidConfiguration);
    return;
  }
  if (!is_stream(stream)) {
    remember(cudaErrorInvalidResourceHandle);
    return;
  }
  enqueue(stream, Work::kernel, name, [grid, size, body = std::move(body)] { return run_grid(grid, size, body); });
}

}  // namespace emulator
