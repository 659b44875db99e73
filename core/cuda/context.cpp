#include "spool/core/cuda/context.cuh"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "spool/core/cuda/runtime.h"
#include "spool/core/errors.h"
#include "spool/core/inline_vector.h"

namespace spool::cuda {
namespace {

constexpr int kMaxDevices = 64;
thread_local const char* running_op = "";
thread_local int current = -1;

// "cudaMalloc" of "cudaMalloc(&p, bytes)".
std::string name_of_call(const char* call) {
  const char* end = std::strchr(call, '(');
  return end ? std::string(call, end) : std::string(call);
}

thread_local Capture* running_capture = nullptr;

[[noreturn]] void fail(const char* call, const std::string& what) {
  throw CudaError(running_op, fmt::format("{} failed: {}", name_of_call(call), what));
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // else the next launch would be blamed for it
  std::string what = fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorLaunchFailure || status == cudaErrorIllegalAddress || status == cudaErrorAssert)
    what +=
        "; a kernel went wrong, here or in an operation before, and the device is of no use to this program any more: run it "
        "with "
        "SPOOL_CUDA_SYNC=1 to see which";
  fail(call, what);
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(call, fmt::format("{} ({})", cublasLtGetStatusString(status), cublasLtGetStatusName(status)));
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  fail(call, fmt::format("{}{}{}", cudnnGetErrorString(status), *detail ? ": " : "", detail));
}

Capture* capture() { return running_capture; }
void set_capture(Capture* c) { running_capture = c; }

// --- devices

int device_count() {
  int n = 0;
  if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
  (void)cudaGetLastError();
  return 0;
}

std::string why_unusable(int index) {
  int n = 0;
  const cudaError_t status = cudaGetDeviceCount(&n);
  if (status == cudaSuccess && index >= 0 && index < n) return {};
  (void)cudaGetLastError();
  if (status == cudaSuccess && n > 0)
    return fmt::format("there {} here, numbered from 0", n == 1 ? "is 1 CUDA device" : fmt::format("are {} CUDA devices", n));
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver was found: install one, or use Device::cpu()";
  if (status == cudaErrorInsufficientDriver)
    return fmt::format(
        "the NVIDIA driver is too old: it knows CUDA {}.{}, this build needs {}.{}. Update the driver, or use Device::cpu()",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible) return fmt::format("CUDA_VISIBLE_DEVICES='{}' hides every device: unset it, or use Device::cpu()", visible);
  if (status == cudaErrorNoDevice || status == cudaSuccess) return "the driver finds no NVIDIA GPU: use Device::cpu()";
  return fmt::format("the driver says: {} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

std::string device_name(int index) { return context(index).name; }

void set_current(int index) {
  if (current == index) return;
  SPOOL_CUDA(cudaSetDevice(index));
  current = index;
}

Context& context(int index) {
  static std::mutex* mutex = new std::mutex;
  static std::atomic<Context*> contexts[kMaxDevices];
  set_current(index);
  if (Context* c = contexts[index].load(std::memory_order_acquire)) return *c;
  std::lock_guard lock(*mutex);
  if (Context* c = contexts[index].load(std::memory_order_acquire)) return *c;
  auto c = std::make_unique<Context>();
  c->device = index;
  cudaDeviceProp properties{};
  SPOOL_CUDA(cudaGetDeviceProperties(&properties, index));
  c->name = properties.name;
  c->multiprocessors = properties.multiProcessorCount;
  SPOOL_CUDA(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
  constexpr std::size_t report_bytes = 256;
  void* memory = allocate(report_bytes + Context::kTickets * sizeof(unsigned), index);
  c->report = static_cast<Report*>(memory);
  c->tickets = reinterpret_cast<unsigned*>(static_cast<char*>(memory) + report_bytes);
  SPOOL_CUDA(cudaMemsetAsync(memory, 0, report_bytes + Context::kTickets * sizeof(unsigned), c->stream));
  contexts[index].store(c.get(), std::memory_order_release);
  return *c.release();
}

cublasLtHandle_t Context::blas() {
  if (!blas_) SPOOL_CUDA(cublasLtCreate(&blas_));
  return blas_;
}

cudnnHandle_t Context::dnn() {
  if (!dnn_) {
    SPOOL_CUDA(cudnnCreate(&dnn_));
    SPOOL_CUDA(cudnnSetStream(dnn_, stream));
  }
  return dnn_;
}

// --- launches

std::size_t bytes_of(const Tensor& t) {
  std::size_t n = size_of(t.dtype());
  for (int d = 0; d < t.dim(); ++d)
    if (t.strides()[d] != 0 || t.shape()[d] == 0) n *= static_cast<std::size_t>(t.shape()[d]);
  return n;
}

const char* running_operation() { return running_op; }

Context& begin(const char* op, int device, std::size_t bytes) {
  running_op = op;
  Context& c = context(device);
  c.launches.fetch_add(1, std::memory_order_relaxed);
  c.bytes.fetch_add(bytes, std::memory_order_relaxed);
  return c;
}

Context& begin(const char* op, std::initializer_list<const Tensor*> operands) {
  std::size_t bytes = 0;
  int device = 0;
  for (const Tensor* t : operands) {
    if (!t->defined()) continue;
    bytes += bytes_of(*t);
    device = t->device().index;
  }
  return begin(op, device, bytes);
}

bool blocking() {
  static const bool on = [] {
    const char* value = std::getenv("SPOOL_CUDA_SYNC");
    return value && *value && std::strcmp(value, "0") != 0;
  }();
  return on;
}

void finish(Context& c) {
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) check(status, "the launch");
  if (blocking() && !capture()) synchronize(c);
}

namespace {
[[noreturn]] void throw_report(const Report& r) {
  const char* late = "the device found it after the operation had returned, SPOOL_CUDA_SYNC=1 makes it say so at once";
  if (r.code == Report::kNonfiniteNorm || r.code == Report::kNonfiniteLoss)
    throw GradError("step",
                    fmt::format("{} was {}, and neither that step nor a later one changed anything ({}). Lower the learning "
                                "rate, clip earlier, or look "
                                "for a division or logarithm of zero in the loss",
                                r.code == Report::kNonfiniteLoss ? "the loss" : "the norm of the gradients", r.number, late));
  throw IndexError(
      "cross_entropy",
      fmt::format(
          "label {} at position {} of the targets (flattened) is not a class: labels are 0 to {}, or ignore_index {} ({})",
          r.value, r.position, r.limit - 1, r.ignored, late));
}
}  // namespace

void synchronize(Context& c) {
  if (capture())
    throw CudaError(running_op,
                    "the host waits for the device here or right after, for item(), a check or a copy to the CPU, which a "
                    "captured step cannot");
  c.synchronisations.fetch_add(1, std::memory_order_relaxed);
  static thread_local Report* landing = nullptr;  // pinned, and given back to nobody: threads are few
  if (!landing) {
    void* p = nullptr;
    SPOOL_CUDA(cudaHostAlloc(&p, sizeof(Report), cudaHostAllocDefault));
    landing = static_cast<Report*>(p);
  }
  SPOOL_CUDA(cudaMemcpyAsync(landing, c.report, sizeof(Report), cudaMemcpyDeviceToHost, c.stream));
  SPOOL_CUDA(cudaStreamSynchronize(c.stream));
  if (landing->code == 0) return;
  const Report r = *landing;
  SPOOL_CUDA(cudaMemsetAsync(c.report, 0, sizeof(Report), c.stream));
  c.reports.fetch_add(1, std::memory_order_relaxed);
  throw_report(r);
}

void synchronize(int index) { synchronize(context(index)); }

CudaWork work() {
  CudaWork total;
  for (int i = 0; i < device_count(); ++i) {
    const Context& c = context(i);
    total.launches += c.launches;
    total.bytes += c.bytes;
    total.bytes_to_device += c.bytes_to_device;
    total.bytes_to_host += c.bytes_to_host;
    total.synchronisations += c.synchronisations;
    total.reports += c.reports;
  }
  return total;
}

Scratch::Scratch(Context& c, std::size_t bytes) : device_(c.device), data_(allocate(bytes, c.device)), bytes_(bytes) {}
Scratch::~Scratch() { deallocate(data_, device_); }

}  // namespace spool::cuda
