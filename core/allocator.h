// The caching allocator of host memory. A freed block goes back to a free list and is handed out again without the
// operating system, its page faults or its zeroing. Blocks are aligned to 64 bytes and their contents are undefined.
// Thread-safe; small blocks come from lists of the calling thread, without a lock.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include "spool/core/thread_state.h"

#if defined(__SANITIZE_ADDRESS__)
#define SPOOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPOOL_ASAN 1
#endif
#endif

namespace spool {

// A block of at least `bytes` bytes; 0 gives nullptr. Throws ValueError, naming what is held and what was asked, when the system has no
// more memory even after the cache was emptied.
inline void* allocate(std::size_t bytes);
// `bytes` is what was asked for.
inline void deallocate(void* block, std::size_t bytes) noexcept;

struct MemoryStats {
  std::size_t allocated = 0;             // bytes in blocks now in use
  std::size_t peak_allocated = 0;        // the largest that `allocated` was (large blocks exactly, small ones to the last look)
  std::size_t reserved = 0;              // bytes held from the system, in use or cached
  std::uint64_t allocations = 0;         // blocks handed out since the start
  std::uint64_t system_allocations = 0;  // how many of those had to ask the system
};

MemoryStats memory_stats();
void reset_peak_memory();
// Gives cached blocks of 64 KiB and more back to the system.
void empty_cache();
// The statistics as a small table.
std::string memory_summary();

// --- the lists of a thread, here so that taking a block from one costs a few instructions

namespace detail {

inline constexpr std::size_t kSmallest = 64;
inline constexpr int kClasses = 11;  // 64 B, 128 B, ... 64 KiB
inline constexpr std::size_t kLargestSmall = kSmallest << (kClasses - 1);
inline constexpr std::size_t kThreadKeeps = std::size_t{5} << 18;  // bytes per class that a thread keeps to itself

constexpr int class_of(std::size_t bytes) {
  return bytes <= kSmallest ? 0 : static_cast<int>(std::bit_width((bytes - 1) / kSmallest));
}
constexpr std::size_t class_size(int c) { return kSmallest << c; }

struct FreeBlock {
  FreeBlock* next;
};
struct FreeList {
  FreeBlock* head = nullptr;
  std::size_t count = 0;
};
// Counters are written by their own thread only; atomics make the read in memory_stats() defined, and cost a plain store.
struct ThreadBlocks {
  FreeList lists[kClasses];
  std::atomic<std::int64_t> allocated{0};
  std::atomic<std::uint64_t> allocations{0};
  void count(std::int64_t bytes, unsigned blocks) noexcept {
    allocated.store(allocated.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    allocations.store(allocations.load(std::memory_order_relaxed) + blocks, std::memory_order_relaxed);
  }
};
extern SPOOL_FAST_TLS constinit thread_local ThreadBlocks* thread_blocks;  // null before the first and after the last use

void* allocate_elsewhere(std::size_t bytes);
void deallocate_elsewhere(void* block, std::size_t bytes) noexcept;

}  // namespace detail

inline void* allocate(std::size_t bytes) {
#ifndef SPOOL_ASAN  // sanitizer builds mark free blocks, out of line
  if (bytes - 1 < detail::kLargestSmall)
    if (detail::ThreadBlocks* mine = detail::thread_blocks) {
      const int c = detail::class_of(bytes);
      detail::FreeList& list = mine->lists[c];
      if (detail::FreeBlock* block = list.head) {
        list.head = block->next;
        --list.count;
        mine->count(static_cast<std::int64_t>(detail::class_size(c)), 1);
        return block;
      }
    }
#endif
  return detail::allocate_elsewhere(bytes);
}

inline void deallocate(void* block, std::size_t bytes) noexcept {
#ifndef SPOOL_ASAN
  if (block && bytes - 1 < detail::kLargestSmall)
    if (detail::ThreadBlocks* mine = detail::thread_blocks) {
      const int c = detail::class_of(bytes);
      detail::FreeList& list = mine->lists[c];
      // A thread that only frees must not hoard what another one needs.
      if (list.count < detail::kThreadKeeps >> (c + 6)) {
        list.head = ::new (block) detail::FreeBlock{list.head};
        ++list.count;
        mine->count(-static_cast<std::int64_t>(detail::class_size(c)), 0);
        return;
      }
    }
#endif
  detail::deallocate_elsewhere(block, bytes);
}

// For objects made and dropped per operation (tensors, nodes): operator new and delete from the same lists.
struct PooledObject {
  static void* operator new(std::size_t bytes) { return allocate(bytes); }
  static void operator delete(void* p, std::size_t bytes) noexcept { deallocate(p, bytes); }
};

}  // namespace spool
