// The caching allocator of device memory. Segments come from cudaMalloc, which waits for the device and is slow; blocks are cut from them, the best fit first, and
// merged with their neighbours when they come back. There is one stream a device, so one cache a device is one a stream.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <unordered_map>

#include "spool/core/cuda/context.cuh"
#include "spool/core/cuda/runtime.h"
#include "spool/core/errors.h"

namespace spool::cuda {

struct Block;
struct BySize {
  bool operator()(const Block* a, const Block* b) const;
};
// Free blocks, large and small. The device has one pool, and each captured step its own, whose blocks nobody else may get: a replay writes to them.
struct MemoryPool {
  std::set<Block*, BySize> free[2];
};
struct Block {
  char* data;
  std::size_t bytes;
  MemoryPool* home;
  Block *before = nullptr, *after = nullptr;  // neighbours in the same segment
  bool in_use = false, small = false;
};
bool BySize::operator()(const Block* a, const Block* b) const {
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
}

namespace {

constexpr std::size_t kAlign = 512, kSmall = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = std::size_t{2} << 20, kLargeSegment = std::size_t{20} << 20,
                      kLargeStep = std::size_t{2} << 20;

struct Cache {
  std::mutex mutex;
  MemoryPool pool;
  std::unordered_map<void*, Block*> in_use;
  MemoryStats stats;
};

Cache& cache(int index) {
  static Cache* caches = new Cache[64];
  return caches[index];
}

// SPOOL_CUDA_NO_CACHE=1: every block is a cudaMalloc of its own, so that compute-sanitizer, or the emulator, sees where each one ends.
bool caching() {
  static const bool on = [] {
    const char* value = std::getenv("SPOOL_CUDA_NO_CACHE");
    return !value || !*value || std::strcmp(value, "0") == 0;
  }();
  return on;
}

// Gives segments that are wholly free back to the device; the caller holds the lock.
void drop_segments(Cache& c) {
  for (auto& list : c.pool.free)
    for (auto it = list.begin(); it != list.end();) {
      Block* b = *it;
      if (b->before || b->after) {
        ++it;
        continue;
      }
      it = list.erase(it);
      c.stats.reserved -= b->bytes;
      SPOOL_CUDA(cudaFree(b->data));
      delete b;
    }
}

// The caller holds the lock.
Block* new_segment(Cache& c, MemoryPool& pool, std::size_t bytes, std::size_t asked, int index) {
  void* data = nullptr;
  cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    drop_segments(c);
    status = cudaMalloc(&data, bytes);
  }
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    const auto mb = [](std::size_t n) { return static_cast<double>(n) / (1 << 20); };
    throw CudaError(
        "allocate",
        fmt::format("out of memory on cuda:{}: {:.1f} MiB were asked for; tensors hold {:.1f} MiB, the cache {:.1f} MiB, and "
                    "{:.1f} of {:.1f} MiB are free. Use a smaller batch, or free tensors",
                    index, mb(asked), mb(c.stats.allocated), mb(c.stats.reserved - c.stats.allocated), mb(free), mb(total)));
  }
  check(status, "cudaMalloc");
  c.stats.reserved += bytes;
  ++c.stats.system_allocations;
  return new Block{static_cast<char*>(data), bytes, &pool};
}

// Joins b with a free neighbour, which goes away; neighbours have one home. The caller holds the lock.
void merge(Block* b, Block* neighbour) {
  if (!neighbour || neighbour->in_use) return;
  b->home->free[neighbour->small].erase(neighbour);
  if (neighbour == b->before) {
    b->data = neighbour->data;
    b->before = neighbour->before;
    if (b->before) b->before->after = b;
  } else {
    b->after = neighbour->after;
    if (b->after) b->after->before = b;
  }
  b->bytes += neighbour->bytes;
  delete neighbour;
}

}  // namespace

void* allocate(std::size_t bytes, int index) {
  if (bytes == 0) return nullptr;
  set_current(index);
  Cache& c = cache(index);
  std::lock_guard lock(c.mutex);
  const std::size_t size = caching() ? (bytes + kAlign - 1) / kAlign * kAlign : bytes;
  const bool small = size <= kSmall;
  MemoryPool& pool = capture() ? *capture()->pool : c.pool;
  Block* b = nullptr;
  Block wanted{nullptr, size, &pool};
  if (auto it = pool.free[small].lower_bound(&wanted); caching() && it != pool.free[small].end()) {
    b = *it;
    pool.free[small].erase(it);
  } else {
    const std::size_t segment = !caching()                 ? size
                                : small                    ? kSmallSegment
                                : size < kLargeSegment / 2 ? kLargeSegment
                                                           : (size + kLargeStep - 1) / kLargeStep * kLargeStep;
    b = new_segment(c, pool, segment, bytes, index);
    b->small = small;
  }
  if (b->bytes - size >= (small ? kAlign : kSmall)) {
    Block* rest = new Block{b->data + size, b->bytes - size, &pool, b, b->after, false, small};
    if (rest->after) rest->after->before = rest;
    b->after = rest;
    b->bytes = size;
    pool.free[small].insert(rest);
  }
  b->in_use = true;
  c.in_use.emplace(b->data, b);
  ++c.stats.allocations;
  c.stats.allocated += b->bytes;
  c.stats.peak_allocated = std::max(c.stats.peak_allocated, c.stats.allocated);
  return b->data;
}

void deallocate(void* block, int index) noexcept {
  if (!block) return;
  Cache& c = cache(index);
  std::lock_guard lock(c.mutex);
  const auto it = c.in_use.find(block);
  Block* b = it->second;
  c.in_use.erase(it);
  c.stats.allocated -= b->bytes;
  b->in_use = false;
  if (!caching()) {
    c.stats.reserved -= b->bytes;
    (void)cudaFree(b->data);
    delete b;
    return;
  }
  merge(b, b->before);
  merge(b, b->after);
  b->home->free[b->small].insert(b);
}

MemoryPool* make_pool() { return new MemoryPool; }

void dissolve_pool(MemoryPool* pool, int device) {
  Cache& c = cache(device);
  std::lock_guard lock(c.mutex);
  for (auto& [data, block] : c.in_use)
    if (block->home == pool) block->home = &c.pool;
  for (auto& list : pool->free)
    for (Block* block : list) {
      block->home = &c.pool;
      c.pool.free[block->small].insert(block);
    }
  delete pool;
}

MemoryStats memory_stats(int index) {
  Cache& c = cache(index);
  std::lock_guard lock(c.mutex);
  return c.stats;
}

void reset_peak_memory(int index) {
  Cache& c = cache(index);
  std::lock_guard lock(c.mutex);
  c.stats.peak_allocated = c.stats.allocated;
}

void empty_cache(int index) {
  Context& of_device = context(index);
  synchronize(of_device);
  Cache& c = cache(index);
  std::lock_guard lock(c.mutex);
  drop_segments(c);
}

std::string memory_summary(int index) {
  const MemoryStats s = memory_stats(index);
  (void)context(index);
  std::size_t free = 0, total = 0;
  SPOOL_CUDA(cudaMemGetInfo(&free, &total));
  const auto mb = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return fmt::format(
      "memory of cuda:{} (caching allocator)\n"
      "  in use       {:10.2f} MiB\n"
      "  peak         {:10.2f} MiB\n"
      "  reserved     {:10.2f} MiB\n"
      "  free         {:10.2f} MiB of {:.2f}\n"
      "  allocations  {:10d}, of which {} asked the device\n",
      index, mb(s.allocated), mb(s.peak_allocated), mb(s.reserved), mb(free), mb(total), s.allocations, s.system_allocations);
}

}  // namespace spool::cuda
