// Device memory: a range of addresses of its own that nobody may touch, except while work of its device runs. Each allocation ends where a page
// without access begins, is filled with junk, and goes away for good when it is freed.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "internal.h"

namespace emulator {
namespace {

constexpr std::size_t kPage = 4096, kReserved = std::size_t{1} << 38;
constexpr std::size_t kAlign = 256;  // what cudaMalloc promises

struct Allocation {
  std::size_t bytes;
  int device;
  char* pages;
  std::size_t page_bytes;
};

struct Memory {
  char* begin = nullptr;
  std::size_t next = 0;  // addresses are not used again: a pointer kept too long never points into something new
  std::map<const char*, Allocation> living;
  std::map<const char*, std::size_t> pinned;
  std::size_t total = std::size_t{4} << 30;
  std::size_t used[16] = {};
  int open[16] = {};
  int fail_after = -1;
  const char* who = "";
};

Memory& memory() {
  static Memory* m = new Memory;
  return *m;
}

// Names the stray access before the program ends.
void report_fault(int signal, siginfo_t* info, void*) {
  const Memory& m = memory();
  const char* at = static_cast<const char*>(info->si_addr);
  if (at >= m.begin && at < m.begin + kReserved) {
    char text[320];
    auto after = m.living.upper_bound(at);
    const bool below = after != m.living.begin();
    const auto before = below ? std::prev(after) : after;
    const bool working = m.open[0] || m.open[1];
    const int n = std::snprintf(
        text, sizeof text,
        "CUDA emulator: %s touched device memory at %p%s; the allocation below begins at %p and has %zu bytes\n",
        working ? m.who : "the host", static_cast<const void*>(at),
        working ? ", which is outside of every living allocation of its device" : " outside of a copy, kernel or library call",
        below ? static_cast<const void*>(before->first) : nullptr, below ? before->second.bytes : std::size_t{0});
    if (n > 0 && write(STDERR_FILENO, text, static_cast<std::size_t>(n)) < 0) _exit(3);
  }
  ::signal(signal, SIG_DFL);  // and again, this time for the debugger or the test program
}

void protect(const Allocation& a, int rights) { mprotect(a.pages, a.page_bytes, rights); }

bool reserve(Memory& m) {
  if (m.begin) return true;
  void* p = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  m.begin = static_cast<char*>(p);
  struct sigaction action {};
  action.sa_sigaction = &report_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  return true;
}

}  // namespace

std::recursive_mutex& lock() {
  static std::recursive_mutex* m = new std::recursive_mutex;
  return *m;
}

Counters& mutable_counters() {
  static Counters* c = new Counters;
  return *c;
}
Counters counters() {
  std::lock_guard guard(lock());
  return mutable_counters();
}
void reset_counters() {
  std::lock_guard guard(lock());
  mutable_counters() = {};
}

void set_total_memory(std::size_t bytes) {
  std::lock_guard guard(lock());
  memory().total = bytes;
}
void fail_allocation(int after) {
  std::lock_guard guard(lock());
  memory().fail_after = after;
}
std::size_t total_memory() { return memory().total; }
std::size_t free_memory(int device) {
  const Memory& m = memory();
  return m.total > m.used[device] ? m.total - m.used[device] : 0;
}

void* allocate_device(std::size_t bytes, int device) {
  Memory& m = memory();
  if (m.fail_after >= 0 && m.fail_after-- == 0) return nullptr;
  const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
  if (!reserve(m) || size > free_memory(device) || m.next + size + kPage > kReserved) return nullptr;
  char* pages = m.begin + m.next;
  m.next += size + kPage;
  m.used[device] += size;
  char* p = pages + size - (bytes + kAlign - 1) / kAlign * kAlign;
  const Allocation a{bytes, device, pages, size};
  protect(a, PROT_READ | PROT_WRITE);
  std::memset(pages, 0xFF, size);  // NaN in every floating type, -1 in every integer
  if (!m.open[device]) protect(a, PROT_NONE);
  m.living.emplace(p, a);
  return p;
}

bool free_device(void* p) {
  Memory& m = memory();
  const auto it = m.living.find(static_cast<char*>(p));
  if (it == m.living.end()) return false;
  const Allocation a = it->second;
  mmap(a.pages, a.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  m.used[a.device] -= a.page_bytes;
  m.living.erase(it);
  return true;
}

bool is_device_range(const void* p, std::size_t bytes, int device) {
  Memory& m = memory();
  auto it = m.living.upper_bound(static_cast<const char*>(p));
  if (it == m.living.begin()) return false;
  --it;
  return it->second.device == device && static_cast<const char*>(p) + bytes <= it->first + it->second.bytes;
}

DeviceAccess::DeviceAccess(int device, const char* who) : device_(device) {
  Memory& m = memory();
  m.who = who;
  if (m.open[device]++ == 0)
    for (const auto& [p, a] : m.living)
      if (a.device == device) protect(a, PROT_READ | PROT_WRITE);
}
DeviceAccess::~DeviceAccess() {
  Memory& m = memory();
  if (--m.open[device_] == 0)
    for (const auto& [p, a] : m.living)
      if (a.device == device_) protect(a, PROT_NONE);
}

bool is_pinned(const void* p, std::size_t bytes) {
  Memory& m = memory();
  auto it = m.pinned.upper_bound(static_cast<const char*>(p));
  if (it == m.pinned.begin()) return false;
  --it;
  return static_cast<const char*>(p) + bytes <= it->first + it->second;
}

}  // namespace emulator

using emulator::lock;
using emulator::remember;

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  std::lock_guard guard(lock());
  ++emulator::mutable_counters().allocations;
  *p = bytes ? emulator::allocate_device(bytes, emulator::current_device()) : nullptr;
  return remember(*p || !bytes ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* p) {
  std::lock_guard guard(lock());
  if (!p) return cudaSuccess;
  ++emulator::mutable_counters().synchronisations;
  for (int d = 0; d < emulator::device_count(); ++d)  // it waits for the device, as the documentation says
    if (const cudaError_t error = emulator::run_device(d); error != cudaSuccess) return remember(error);
  return remember(emulator::free_device(p) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  std::lock_guard guard(lock());
  *free = emulator::free_memory(emulator::current_device());
  *total = emulator::total_memory();
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  std::lock_guard guard(lock());
  ++emulator::mutable_counters().host_allocations;
  *p = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*p) return remember(cudaErrorMemoryAllocation);
  std::memset(*p, 0xFF, bytes);
  emulator::memory().pinned.emplace(static_cast<char*>(*p), bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* p) {
  std::lock_guard guard(lock());
  if (!emulator::memory().pinned.erase(static_cast<char*>(p))) return remember(cudaErrorInvalidValue);
  std::free(p);
  return cudaSuccess;
}
