// The caching allocator of host memory. A freed block goes back to a free list and is handed out again without the
// operating system, its page faults or its zeroing. Blocks are aligned to 64 bytes and their contents are undefined.
// Thread-safe; small blocks come from lists of the calling thread, without a lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace spool {

// A block of at least `bytes` bytes; 0 gives nullptr. Throws ValueError, naming what is held and what was asked, when the system has no
// more memory even after the cache was emptied.
void* allocate(std::size_t bytes);
// `bytes` is what was asked for.
void deallocate(void* block, std::size_t bytes) noexcept;

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

// For objects made and dropped per operation (tensors, nodes): operator new and delete from the same lists.
struct PooledObject {
  static void* operator new(std::size_t bytes) { return allocate(bytes); }
  static void operator delete(void* p, std::size_t bytes) noexcept { deallocate(p, bytes); }
};

}  // namespace spool
