// The emulator itself: that it catches what it is there to catch.
#include "cuda_emulator/device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cuda_emulator/emulator.h"
#include "cuda_support.h"

using namespace spool;
using namespace spool::test;

namespace {

// A stream, and memory that is given back.
struct Device1 {
  cudaStream_t stream = nullptr;
  Device1() {
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  template <class T>
  T* allocate(std::size_t n) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, n * sizeof(T)) == cudaSuccess);
    return static_cast<T*>(p);
  }
};

// Whether a child process that runs f is killed, by a signal or, under a sanitizer, by what handles it.
template <class F>
bool dies(F f) {
  const pid_t child = fork();
  if (child == 0) {
    (void)!freopen("/dev/null", "w", stderr);
    (void)!freopen("/dev/null", "w", stdout);
    for (const int s : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(s, SIG_DFL);  // not those of Catch or of a sanitizer
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}

__global__ void write_kernel(int* p, int at) {
  if (threadIdx.x == 0) p[at] = 7;
}

__global__ void neighbours_kernel(const int* x, int* y) {
  static const char site = 0;
  int* shared = static_cast<int*>(emulator::shared_memory(&site, 64 * sizeof(int)));
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  int sum = shared[(threadIdx.x + 1) % 64];
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}

__global__ void split_kernel() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __shfl_xor_sync(0x00000001u, 1, threadIdx.x == 32 ? 0 : 1);
  if (threadIdx.x == 40) return;
  __shfl_xor_sync(0xffffffffu, 1, 1);
}

__global__ void block_order_kernel(unsigned* order, unsigned* next) {
  if (threadIdx.x == 0) order[atomicAdd(next, 1u)] = blockIdx.x;
}

}  // namespace

TEST_CASE("The host faults when it touches device memory") {
  Device1 d;
  int* p = d.allocate<int>(100);
  CHECK(dies([&] { *static_cast<volatile int*>(p) = 1; }));
  CHECK(dies([&] { (void)*static_cast<volatile int*>(p); }));
  CHECK_FALSE(dies([] {}));
  cudaFree(p);
}

TEST_CASE("A kernel faults beyond its allocations and after they are freed") {
  Device1 d;
  int* p = d.allocate<int>(64);
  const auto write = [&](int at) {
    emulator::launch("write", write_kernel, 1, 32, d.stream, p, at);
    cudaStreamSynchronize(d.stream);
  };
  CHECK_FALSE(dies([&] { write(0); }));
  CHECK(dies([&] { write(64); }));
  CHECK(dies([&] { write(-1024); }));
  CHECK(dies([&] {
    cudaFree(p);
    write(0);
  }));
  cudaFree(p);
}

TEST_CASE("Work is held back until the host waits") {
  Device1 d;
  int* p = d.allocate<int>(1);
  void* pinned = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocDefault) == cudaSuccess);
  int* host = static_cast<int*>(pinned);
  *host = 1;
  REQUIRE(cudaMemcpyAsync(p, host, sizeof(int), cudaMemcpyHostToDevice, d.stream) == cudaSuccess);
  *host = 2;  // too early: the copy has not read it yet
  int* back = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocDefault) == cudaSuccess);
  back = static_cast<int*>(pinned);
  *back = -1;
  REQUIRE(cudaMemcpyAsync(back, p, sizeof(int), cudaMemcpyDeviceToHost, d.stream) == cudaSuccess);
  CHECK(*back == -1);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, d.stream);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaStreamSynchronize(d.stream) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(*back == 2);
  // Memory that is not pinned is read before the call returns.
  int plain = 3;
  REQUIRE(cudaMemcpyAsync(p, &plain, sizeof(int), cudaMemcpyHostToDevice, d.stream) == cudaSuccess);
  plain = 4;
  int result = 0;
  REQUIRE(cudaMemcpyAsync(&result, p, sizeof(int), cudaMemcpyDeviceToHost, d.stream) == cudaSuccess);
  CHECK(result == 3);
  cudaFree(p);
}

TEST_CASE("New device memory is junk") {
  Device1 d;
  float* p = d.allocate<float>(3);
  float values[3] = {};
  cudaMemcpyAsync(values, p, sizeof values, cudaMemcpyDeviceToHost, d.stream);
  for (const float v : values) CHECK(v != v);
  cudaFree(p);
}

TEST_CASE("Barriers and shuffles bring threads together, in any order") {
  Device1 d;
  int* x = d.allocate<int>(64);
  int* y = d.allocate<int>(256);
  int host[256];
  for (int i = 0; i < 64; ++i) host[i] = i;
  cudaMemcpyAsync(x, host, 64 * sizeof(int), cudaMemcpyHostToDevice, d.stream);
  for (int run = 0; run < 4; ++run) {  // warp 0 adds up 1 to 32, warp 1 33 to 63 and 0
    emulator::launch("neighbours", neighbours_kernel, 4, 64, d.stream, x, y);
    REQUIRE(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, d.stream) == cudaSuccess);
    for (int i = 0; i < 256; ++i) CHECK(host[i] == (i % 64 < 32 ? 528 : 1488));
  }
  cudaFree(x);
  cudaFree(y);
}

TEST_CASE("Blocks run in an order that changes") {
  Device1 d;
  unsigned* order = d.allocate<unsigned>(100);
  unsigned* next = d.allocate<unsigned>(1);
  std::vector<std::vector<unsigned>> seen;
  for (int run = 0; run < 2; ++run) {
    cudaMemsetAsync(next, 0, sizeof(unsigned), d.stream);
    emulator::launch("order", block_order_kernel, 100, 32, d.stream, order, next);
    std::vector<unsigned> host(100);
    cudaMemcpyAsync(host.data(), order, 400, cudaMemcpyDeviceToHost, d.stream);
    seen.push_back(host);
    std::sort(host.begin(), host.end());
    for (unsigned i = 0; i < 100; ++i) REQUIRE(host[i] == i);  // each once
  }
  CHECK(seen[0] != seen[1]);
  cudaFree(order);
  cudaFree(next);
}

TEST_CASE("A barrier that not all threads reach is an error, not a hang") {
  Device1 d;
  (void)!freopen("/dev/null", "w", stderr);
  emulator::launch("split", split_kernel, 1, 64, d.stream);
  CHECK(cudaStreamSynchronize(d.stream) == cudaErrorLaunchFailure);
  CHECK(contains(emulator::last_failure(), "wait for each other"));
  CHECK(cudaStreamSynchronize(d.stream) == cudaErrorLaunchFailure);  // it stays, as on a GPU
  emulator::recover();
}

TEST_CASE("Launches that no GPU takes, and pointers to the wrong memory, are refused") {
  Device1 d;
  (void)cudaGetLastError();
  emulator::launch("write", write_kernel, 1, 2048, d.stream, static_cast<int*>(nullptr), 0);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  emulator::launch("write", write_kernel, 0, 32, d.stream, static_cast<int*>(nullptr), 0);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  int host = 0;
  int* p = d.allocate<int>(1);
  CHECK(cudaMemcpyAsync(&host, &host, sizeof host, cudaMemcpyDeviceToHost, d.stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(p, &host, 2 * sizeof host, cudaMemcpyHostToDevice, d.stream) == cudaErrorInvalidValue);
  CHECK(cudaFree(p + 1) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  cudaFree(p);
}

TEST_CASE("A captured graph runs what was captured, each time it is launched") {
  Device1 d;
  int* p = d.allocate<int>(2);
  cudaMemsetAsync(p, 0, 8, d.stream);
  REQUIRE(cudaStreamBeginCapture(d.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  emulator::launch("write", write_kernel, 1, 32, d.stream, p, 1);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(d.stream, &graph) == cudaSuccess);
  int host[2] = {9, 9};
  cudaMemcpyAsync(host, p, 8, cudaMemcpyDeviceToHost, d.stream);
  CHECK(host[1] == 0);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  std::size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  CHECK(nodes == 1);
  cudaGraphLaunch(exec, d.stream);
  cudaMemcpyAsync(host, p, 8, cudaMemcpyDeviceToHost, d.stream);
  CHECK(host[1] == 7);
  // A wait breaks a capture.
  REQUIRE(cudaStreamBeginCapture(d.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaStreamSynchronize(d.stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(d.stream, &graph) == cudaErrorStreamCaptureInvalidated);
  (void)cudaGetLastError();
  cudaFree(p);
}

TEST_CASE("Machines without a driver, with an old one, or with all devices hidden say so") {
  // Of a device that was not used before: what was found usable once is not asked about again.
  const auto message = [] { return message_of<DeviceError>([] { check_usable(Device::cuda(1)); }); };
  emulator::set_driver_version(0);
  CHECK_FALSE(cuda_available());
  CHECK(default_device() == Device::cpu());
  CHECK(contains(message(), "no NVIDIA driver"));
  emulator::set_driver_version(11080);
  CHECK(contains(message(), "driver is too old: it knows CUDA 11.8"));
  emulator::set_driver_version(CUDART_VERSION);
  emulator::set_device_count(0);
  CHECK(contains(message(), "finds no NVIDIA GPU"));
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(contains(message(), "CUDA_VISIBLE_DEVICES='' hides every device"));
  unsetenv("CUDA_VISIBLE_DEVICES");
  emulator::set_device_count(1);
  CHECK(contains(message(), "there is 1 CUDA device"));
  emulator::set_device_count(2);
  CHECK_NOTHROW(check_usable(Device::cuda(1)));
}

TEST_CASE("A full device is emptied of what is cached, once, before it is an error") {
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  { const Tensor cached = empty({8 << 20}, {.device = gpu}); }  // 32 MiB stay in the cache
  const std::size_t held = memory_stats(gpu).reserved;
  emulator::fail_allocation(0);
  const Tensor x = empty({64 << 20}, {.device = gpu});  // the first try fails, the second does not
  CHECK(memory_stats(gpu).reserved <= held + (256u << 20));
  emulator::set_total_memory(memory_stats(gpu).reserved + (1u << 20));
  CHECK(contains(message_of<CudaError>([] { empty({64 << 20}, {.device = gpu}); }), "256.0 MiB were asked for"));
  emulator::set_total_memory(std::size_t{4} << 30);
}

TEST_CASE("Copies between two devices arrive") {
  const Tensor x = arange(0, 10).to(gpu);
  const Tensor y = x.to(Device::cuda(1));
  CHECK(y.device() == Device::cuda(1));
  CHECK((y + y).to_vector<std::int64_t>() == (arange(0, 10) * 2).to_vector<std::int64_t>());
}
