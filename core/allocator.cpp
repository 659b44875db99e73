#include "spool/core/allocator.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "spool/core/errors.h"

#if defined(SPOOL_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace spool {
namespace {

using namespace detail;

constexpr std::size_t kAlign = 64;
constexpr std::size_t kSlab = std::size_t{1} << 18;  // small blocks are cut from pieces of this size
constexpr std::size_t kLargeStep = std::size_t{1} << 16;

std::size_t round_large(std::size_t bytes) { return (bytes + kLargeStep - 1) / kLargeStep * kLargeStep; }

void push(FreeList& list, void* p, std::size_t bytes) noexcept {
  list.head = new (p) FreeBlock{list.head};
  ++list.count;
  // Sanitizer builds see a use after free although the memory never went back to the system.
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(p) + sizeof(FreeBlock), bytes - sizeof(FreeBlock));
}
void* pop(FreeList& list, std::size_t bytes) noexcept {
  FreeBlock* p = list.head;
  list.head = p->next;
  --list.count;
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  return p;
}

struct ThreadCache;

struct Pool {
  std::mutex mutex;
  FreeList small[kClasses];
  std::multimap<std::size_t, void*> large;
  ThreadCache* threads = nullptr;       // every living thread's cache
  std::int64_t finished_allocated = 0;  // counts of threads that have ended
  std::uint64_t finished_allocations = 0;
  std::size_t reserved = 0;
  std::uint64_t system_allocations = 0;
  std::atomic<std::size_t> large_in_use{0}, peak{0};
  std::atomic<std::uint64_t> large_allocations{0};
};

// Never destroyed: tensors of static storage duration give their memory back after main.
Pool& pool() {
  static Pool* p = new Pool;
  return *p;
}

struct ThreadCache : ThreadBlocks {
  ThreadCache *next = nullptr, *prev = nullptr;

  ThreadCache() {
    Pool& p = pool();
    std::lock_guard lock(p.mutex);
    next = p.threads;
    if (next) next->prev = this;
    p.threads = this;
    thread_blocks = this;
  }
  ~ThreadCache();
};

constinit thread_local bool thread_ended = false;

// Null once this thread is being torn down; its blocks then go through the shared lists.
ThreadBlocks* blocks_of_thread() {
  if (!thread_blocks && !thread_ended) thread_local ThreadCache owner;
  return thread_blocks;
}

ThreadCache::~ThreadCache() {
  thread_blocks = nullptr;
  thread_ended = true;
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  for (int c = 0; c < kClasses; ++c)
    while (lists[c].head) push(p.small[c], pop(lists[c], class_size(c)), class_size(c));
  p.finished_allocated += allocated.load(std::memory_order_relaxed);
  p.finished_allocations += allocations.load(std::memory_order_relaxed);
  if (prev) prev->next = next;
  if (next) next->prev = prev;
  if (p.threads == this) p.threads = next;
}

std::size_t small_in_use(Pool& p) {  // the caller holds the lock
  std::int64_t n = p.finished_allocated;
  for (ThreadCache* t = p.threads; t; t = t->next) n += t->allocated.load(std::memory_order_relaxed);
  return static_cast<std::size_t>(n > 0 ? n : 0);
}

void raise_peak(Pool& p, std::size_t now) {
  std::size_t seen = p.peak.load(std::memory_order_relaxed);
  while (now > seen && !p.peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

void drop_large(Pool& p) {  // the caller holds the lock
  for (auto [size, block] : p.large) {
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    std::free(block);
    p.reserved -= size;
  }
  p.large.clear();
}

void* from_system(Pool& p, std::size_t bytes) {  // the caller holds the lock
  void* block = bytes > (std::size_t{1} << 62) ? nullptr : std::aligned_alloc(kAlign, bytes);
  if (!block) {
    drop_large(p);
    block = bytes > (std::size_t{1} << 62) ? nullptr : std::aligned_alloc(kAlign, bytes);
  }
  if (!block)
    throw ValueError("allocate", fmt::format("the system has no {} bytes left ({} bytes in use, {} bytes reserved): use smaller "
                                             "tensors or a smaller batch",
                                             bytes, small_in_use(p) + p.large_in_use.load(), p.reserved));
  p.reserved += bytes;
  ++p.system_allocations;
  return block;
}

void refill(Pool& p, FreeList& list, int c) {
  std::lock_guard lock(p.mutex);
  const std::size_t size = class_size(c), want = kSlab / size / 4 + 1;
  while (p.small[c].head && list.count < want) push(list, pop(p.small[c], size), size);
  if (list.head) return;
  char* slab = static_cast<char*>(from_system(p, kSlab));
  for (std::size_t at = kSlab; at >= size; at -= size) push(list, slab + at - size, size);
}

void* allocate_large(Pool& p, std::size_t bytes) {
  const std::size_t size = round_large(bytes);
  void* block = nullptr;
  {
    std::lock_guard lock(p.mutex);
    auto it = p.large.find(size);
    if (it != p.large.end()) {
      block = it->second;
      p.large.erase(it);
      ASAN_UNPOISON_MEMORY_REGION(block, size);
    } else {
      // The cache must not grow without bound when sizes keep changing: it is emptied before it outgrows what is in use.
      if (p.reserved > 2 * p.large_in_use.load() + (std::size_t{1} << 28)) drop_large(p);
      block = from_system(p, size);
    }
  }
  p.large_allocations.fetch_add(1, std::memory_order_relaxed);
  raise_peak(p, p.large_in_use.fetch_add(size, std::memory_order_relaxed) + size);
  return block;
}

}  // namespace

constinit thread_local ThreadBlocks* detail::thread_blocks = nullptr;

void* detail::allocate_elsewhere(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Pool& p = pool();
  if (bytes > kLargestSmall) return allocate_large(p, bytes);
  const int c = class_of(bytes);
  const std::size_t size = class_size(c);
  ThreadBlocks* mine = blocks_of_thread();
  if (!mine) {
    FreeList list;
    refill(p, list, c);
    void* block = pop(list, size);
    std::lock_guard lock(p.mutex);
    while (list.head) push(p.small[c], pop(list, size), size);
    p.finished_allocated += static_cast<std::int64_t>(size);
    ++p.finished_allocations;
    return block;
  }
  FreeList& list = mine->lists[c];
  if (!list.head) refill(p, list, c);
  mine->count(static_cast<std::int64_t>(size), 1);
  return pop(list, size);
}

void detail::deallocate_elsewhere(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  Pool& p = pool();
  if (bytes > kLargestSmall) {
    const std::size_t size = round_large(bytes);
    std::lock_guard lock(p.mutex);
    ASAN_POISON_MEMORY_REGION(block, size);
    p.large.emplace(size, block);
    p.large_in_use.fetch_sub(size, std::memory_order_relaxed);
    return;
  }
  const int c = class_of(bytes);
  const std::size_t size = class_size(c);
  ThreadBlocks* mine = blocks_of_thread();
  if (!mine) {
    std::lock_guard lock(p.mutex);
    push(p.small[c], block, size);
    p.finished_allocated -= static_cast<std::int64_t>(size);
    return;
  }
  FreeList& list = mine->lists[c];
  push(list, block, size);
  mine->count(-static_cast<std::int64_t>(size), 0);
  if (list.count * size < kThreadKeeps) return;
  std::lock_guard lock(p.mutex);
  while (list.count * size > kThreadKeeps / 2) push(p.small[c], pop(list, size), size);
}

MemoryStats memory_stats() {
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  MemoryStats s;
  s.allocated = small_in_use(p) + p.large_in_use.load();
  raise_peak(p, s.allocated);
  s.peak_allocated = p.peak.load();
  s.reserved = p.reserved;
  s.allocations = p.finished_allocations + p.large_allocations.load();
  for (ThreadCache* t = p.threads; t; t = t->next) s.allocations += t->allocations.load(std::memory_order_relaxed);
  s.system_allocations = p.system_allocations;
  return s;
}

void reset_peak_memory() {
  const std::size_t now = memory_stats().allocated;
  pool().peak.store(now);
}

void empty_cache() {
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  drop_large(p);
}

std::string memory_summary() {
  const MemoryStats s = memory_stats();
  const auto mb = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return fmt::format(
      "host memory (caching allocator)\n"
      "  in use       {:10.2f} MiB\n"
      "  peak         {:10.2f} MiB\n"
      "  reserved     {:10.2f} MiB\n"
      "  allocations  {:10d}, of which {} asked the system\n",
      mb(s.allocated), mb(s.peak_allocated), mb(s.reserved), s.allocations, s.system_allocations);
}

}  // namespace spool
