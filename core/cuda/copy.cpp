// Copies between host and device through pinned memory, which a copy engine can read and write while both sides go on.
#include <cstring>
#include <vector>

#include "spool/core/cuda/context.cuh"
#include "spool/core/errors.h"

namespace spool::cuda {
namespace {

constexpr std::size_t kSmallest = std::size_t{1} << 12;
// Beyond this a copy goes straight from pageable memory, by the driver's own staging: the data set that is moved once should not leave its size pinned.
constexpr std::size_t kLargest = std::size_t{1} << 24;

// A piece of pinned memory; free again when what was copied from it has arrived.
struct Piece {
  void* data;
  std::size_t bytes;
  cudaEvent_t arrived;
};

struct Pool {
  std::mutex mutex;
  std::vector<Piece> pieces[64];  // of each device
};

Pool& pool() {
  static Pool* p = new Pool;
  return *p;
}

// The caller gives it back.
Piece acquire(Context& c, std::size_t bytes) {
  std::lock_guard lock(pool().mutex);
  auto& pieces = pool().pieces[c.device];
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].bytes < bytes || pieces[i].bytes > 4 * bytes + kSmallest) continue;
    const cudaError_t status = cudaEventQuery(pieces[i].arrived);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      continue;
    }
    SPOOL_CUDA(status);
    const Piece p = pieces[i];
    pieces[i] = pieces.back();
    pieces.pop_back();
    return p;
  }
  Piece p{nullptr, kSmallest, nullptr};
  while (p.bytes < bytes) p.bytes *= 2;
  SPOOL_CUDA(cudaHostAlloc(&p.data, p.bytes, cudaHostAllocDefault));
  SPOOL_CUDA(cudaEventCreateWithFlags(&p.arrived, cudaEventDisableTiming));
  return p;
}

void give_back(Context& c, const Piece& p) {
  std::lock_guard lock(pool().mutex);
  pool().pieces[c.device].push_back(p);
}

}  // namespace

void copy_to_device(Context& c, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (capture())
    throw CudaError(running_operation(),
                    "numbers are copied from the host here or right after, which a captured step would not do again");
  c.bytes_to_device.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes > kLargest) {
    SPOOL_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, c.stream));
    return;
  }
  const Piece p = acquire(c, bytes);
  std::memcpy(p.data, from, bytes);
  SPOOL_CUDA(cudaMemcpyAsync(to, p.data, bytes, cudaMemcpyHostToDevice, c.stream));
  SPOOL_CUDA(cudaEventRecord(p.arrived, c.stream));
  give_back(c, p);
}

void copy_to_host(Context& c, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  c.bytes_to_host.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes > kLargest) {
    SPOOL_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, c.stream));
    synchronize(c);
    return;
  }
  const Piece p = acquire(c, bytes);
  SPOOL_CUDA(cudaMemcpyAsync(p.data, from, bytes, cudaMemcpyDeviceToHost, c.stream));
  synchronize(c);
  std::memcpy(to, p.data, bytes);
  give_back(c, p);
}

}  // namespace spool::cuda
