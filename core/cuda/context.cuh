// One context per device: the stream that all work of the device goes through, the handles of the libraries, and what kernels need to find.
// Made when the device is first used and never destroyed: at the program's end the driver may be gone before our statics are.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <string>

#include "spool/core/cuda/live.h"
#include "spool/core/tensor.h"

namespace spool::cuda {

// Throws CudaError naming the call and the operation unless the status is success.
void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(cudnnStatus_t status, const char* call);
#define SPOOL_CUDA(call) ::spool::cuda::check((call), #call)

// An error that a kernel found in its data. It waits on the device until the host next waits for the device.
struct Report {
  static constexpr unsigned kBadLabel = 1, kNonfiniteNorm = 2, kNonfiniteLoss = 3;
  unsigned
      code;  // 0: none; kBadLabel: a label that is no class; kNonfiniteNorm: the norm of a step's gradients. While it is set no optimizer changes anything
  unsigned unused;
  long long value, position, limit, ignored;  // of the label
  double number;                              // the norm or loss
};

struct Context {
  int device = 0;
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  std::string name;
  Report* report = nullptr;  // in device memory
  // Counters in device memory that are 0 between kernels: how the blocks of a kernel find out which of them is the last.
  static constexpr int kTickets = 4096;
  unsigned* tickets = nullptr;

  std::mutex mutex;  // of the library handles, which take one caller at a time
  cublasLtHandle_t blas();
  cudnnHandle_t dnn();

  std::atomic<std::uint64_t> launches{0}, bytes{0}, bytes_to_device{0}, bytes_to_host{0}, synchronisations{0}, reports{0};

 private:
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
};

// While a thread captures a step, what it gives the device is recorded instead of run: memory then comes from a pool of the graph's own, kernels read what changes from
// `live`, and waiting, or copying from the host, throws.
struct MemoryPool;
struct Capture {
  MemoryPool* pool = nullptr;
  Live* live = nullptr;
  int groups = 0;  // updates of parameter groups so far
};
// Of the calling thread, or null.
Capture* capture();
void set_capture(Capture* capture);
// A pool for one graph, and its end: what it holds goes to the device's cache, also what is still in use, once that comes back.
MemoryPool* make_pool();
void dissolve_pool(MemoryPool* pool, int device);

// Makes the device the calling thread's current one.
void set_current(int index);
// The context of a device that can be used, which becomes the calling thread's current device.
Context& context(int index);
inline Context& context(const Tensor& t) { return context(t.device().index); }

// Announces one launch of `op` on these operands (undefined ones do not count): what every kernel begins with.
Context& begin(const char* op, std::initializer_list<const Tensor*> operands);
Context& begin(const char* op, int device, std::size_t bytes);
// What was announced last on this thread.
const char* running_operation();
// After a launch: throws what the launch itself has to complain of; with SPOOL_CUDA_SYNC=1 also what its kernel has.
void finish(Context& c);
// Waits, and throws what was reported.
void synchronize(Context& c);
// SPOOL_CUDA_SYNC=1: every operation waits for its kernels, so that errors name the right one.
bool blocking();

// Copies through pinned memory, so that the host goes on while the copy runs; the source may be changed as soon as this returns.
void copy_to_device(Context& c, void* to, const void* from, std::size_t bytes);
// Waits.
void copy_to_host(Context& c, void* to, const void* from, std::size_t bytes);

// Bytes that an operand brings to a launch: elements that are seen many times (stride 0) count once.
std::size_t bytes_of(const Tensor& t);

// Device memory for the time of a call.
class Scratch {
 public:
  Scratch(Context& c, std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  int device_;
  void* data_;
  std::size_t bytes_;
};

}  // namespace spool::cuda
