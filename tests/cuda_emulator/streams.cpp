// Streams hold work until the host waits for them, so that a missing wait, or a buffer given up too early, shows as wrong results. With too much work on
// hold they begin to run it, as a GPU would have done long before.
#include "internal.h"

#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <vector>

namespace emulator {
namespace {

struct Item {
  Work kind;
  const char* name;
  std::function<std::string()> run;
};

constexpr std::size_t kLongestQueue = 20000;

}  // namespace
}  // namespace emulator

struct CUgraph_st {
  std::vector<emulator::Item> items;
};
struct CUgraphExec_st {
  std::vector<emulator::Item> items;
};
struct CUstream_st {
  int device = 0;
  std::deque<emulator::Item> queue;
  cudaGraph_t capturing = nullptr;
  bool capture_broken = false;
};
struct CUevent_st {
  bool recorded = false, happened = true;
};

namespace emulator {
namespace {

struct Machine {
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  int devices = 2;
  int driver = CUDART_VERSION;
  cudaError_t sticky = cudaSuccess, last = cudaSuccess;
  std::string failure;
};

Machine& machine() {
  static Machine* m = new Machine;
  return *m;
}

thread_local int device_of_thread = 0;

void count(const Item& item) {
  Counters& c = mutable_counters();
  c.kernels += item.kind == Work::kernel;
  c.library_calls += item.kind == Work::library;
  c.fills += item.kind == Work::fill;
}

// A synchronising call that a capture forbids; it ends the capture.
bool forbidden_by_capture() {
  for (cudaStream_t s : machine().streams)
    if (s->capturing) {
      s->capture_broken = true;
      return true;
    }
  return false;
}

cudaError_t waited(cudaError_t error) {
  ++mutable_counters().synchronisations;
  return remember(error);
}

}  // namespace

bool is_stream(cudaStream_t stream) { return machine().streams.count(stream) != 0; }
bool is_capturing(cudaStream_t stream) { return stream->capturing != nullptr; }
int device_of(cudaStream_t stream) { return stream->device; }
int current_device() { return device_of_thread; }
int device_count() { return machine().driver ? machine().devices : 0; }
cudaError_t sticky_error() { return machine().sticky; }
cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) machine().last = error;
  return error;
}

void set_device_count(int n) {
  std::lock_guard guard(lock());
  machine().devices = n;
}
void set_driver_version(int version) {
  std::lock_guard guard(lock());
  machine().driver = version;
}
std::string last_failure() {
  std::lock_guard guard(lock());
  return machine().failure;
}
void recover() {
  std::lock_guard guard(lock());
  machine().sticky = machine().last = cudaSuccess;
  machine().failure.clear();
}

void enqueue(cudaStream_t stream, Work kind, const char* name, std::function<std::string()> work) {
  std::lock_guard guard(lock());
  Item item{kind, name, std::move(work)};
  if (stream->capturing) {
    stream->capturing->items.push_back(std::move(item));
    return;
  }
  count(item);
  stream->queue.push_back(std::move(item));
  if (stream->queue.size() > kLongestQueue) run_stream(stream);
}

cudaError_t run_stream(cudaStream_t stream) {
  Machine& m = machine();
  if (m.sticky != cudaSuccess) return m.sticky;
  if (stream->queue.empty()) return cudaSuccess;
  std::deque<Item> queue;
  queue.swap(stream->queue);
  const DeviceAccess access(stream->device, "the device");
  for (const Item& item : queue) {
    const DeviceAccess named(stream->device, item.name);
    const std::string failure = item.run();
    if (failure.empty()) continue;
    m.failure = std::string(item.name) + ": " + failure;
    std::fprintf(stderr, "CUDA emulator: %s\n", m.failure.c_str());
    return m.sticky = cudaErrorLaunchFailure;
  }
  return cudaSuccess;
}

cudaError_t run_device(int device) {
  cudaError_t result = machine().sticky;
  for (cudaStream_t s : machine().streams)
    if (s->device == device && result == cudaSuccess) result = run_stream(s);
  return result;
}

}  // namespace emulator

using namespace emulator;

// --- devices and errors

cudaError_t cudaDriverGetVersion(int* version) {
  std::lock_guard guard(lock());
  *version = machine().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  std::lock_guard guard(lock());
  *count = 0;
  if (machine().driver / 1000 < CUDART_VERSION / 1000) return remember(cudaErrorInsufficientDriver);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  *count = visible && !*visible ? 0 : machine().devices;
  return remember(*count ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  std::lock_guard guard(lock());
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  std::lock_guard guard(lock());
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  *p = {};
  std::strcpy(p->name, "Spool CUDA emulator");
  p->totalGlobalMem = total_memory();
  p->major = 9;
  p->multiProcessorCount = 4;
  p->warpSize = 32;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  std::lock_guard guard(lock());
  Machine& m = machine();
  const cudaError_t error = m.sticky != cudaSuccess ? m.sticky : m.last;
  m.last = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: return "an error of the emulator";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return cudaGetErrorName(error);
  }
}

// --- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  std::lock_guard guard(lock());
  *stream = new CUstream_st{.device = current_device(), .queue = {}};
  machine().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::lock_guard guard(lock());
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  if (forbidden_by_capture()) return remember(cudaErrorStreamCaptureUnsupported);
  return waited(run_stream(stream));
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  std::lock_guard guard(lock());
  *event = new CUevent_st;
  machine().events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard guard(lock());
  if (!machine().events.count(event) || !is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  event->recorded = true;
  event->happened = false;
  enqueue(stream, Work::event, "an event", [event] {
    event->happened = true;
    return std::string();
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard guard(lock());
  if (!machine().events.count(event)) return remember(cudaErrorInvalidResourceHandle);
  return event->happened ? cudaSuccess : cudaErrorNotReady;
}

// --- copies and fills

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  std::lock_guard guard(lock());
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  const int device = stream->device;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDefault) return remember(cudaErrorInvalidMemcpyDirection);
  const auto on_device = [&](const void* p) {
    for (int d = 0; d < device_count(); ++d)
      if (is_device_range(p, bytes, d) && (d == device || kind == cudaMemcpyDeviceToDevice)) return true;
    return false;
  };
  if (bytes == 0) return cudaSuccess;
  if (to_device != on_device(to) || from_device != on_device(from)) return remember(cudaErrorInvalidValue);
  Counters& c = mutable_counters();
  if (!is_capturing(stream)) {
    c.copies_to_device += kind == cudaMemcpyHostToDevice;
    c.bytes_to_device += kind == cudaMemcpyHostToDevice ? bytes : 0;
    c.copies_to_host += kind == cudaMemcpyDeviceToHost;
    c.bytes_to_host += kind == cudaMemcpyDeviceToHost ? bytes : 0;
  }
  if (kind == cudaMemcpyHostToDevice) {
    // Pageable memory is read before the call returns; pinned memory when the copy's turn comes.
    if (is_pinned(from, bytes)) {
      enqueue(stream, Work::copy_to_device, "a copy to the device", [=] {
        std::memcpy(to, from, bytes);
        return std::string();
      });
    } else {
      auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
      enqueue(stream, Work::copy_to_device, "a copy to the device", [=] {
        std::memcpy(to, staged->data(), bytes);
        return std::string();
      });
    }
    return cudaSuccess;
  }
  enqueue(stream, kind == cudaMemcpyDeviceToHost ? Work::copy_to_host : Work::fill, "a copy from the device", [=] {
    for (int d = 0; d < device_count(); ++d)
      if (is_device_range(from, bytes, d) && d != device) {
        const DeviceAccess peer(d, "a copy between devices");
        std::memcpy(to, from, bytes);
        return std::string();
      }
    if (kind == cudaMemcpyDeviceToDevice && !is_device_range(to, bytes, device)) {
      const DeviceAccess first(0, "a copy between devices"), second(1, "a copy between devices");
      std::memcpy(to, from, bytes);
      return std::string();
    }
    std::memcpy(to, from, bytes);
    return std::string();
  });
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to, bytes)) {  // only a copy to pinned memory returns before it is done
    if (forbidden_by_capture()) return remember(cudaErrorStreamCaptureUnsupported);
    return waited(run_stream(stream));
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  std::lock_guard guard(lock());
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  if (bytes && !is_device_range(p, bytes, stream->device)) return remember(cudaErrorInvalidValue);
  enqueue(stream, Work::fill, "a fill", [=] {
    std::memset(p, value, bytes);
    return std::string();
  });
  return cudaSuccess;
}

// --- graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  std::lock_guard guard(lock());
  if (!is_stream(stream) || stream->capturing) return remember(cudaErrorInvalidResourceHandle);
  stream->capturing = new CUgraph_st;
  stream->capture_broken = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard guard(lock());
  if (!is_stream(stream) || !stream->capturing) return remember(cudaErrorInvalidResourceHandle);
  *graph = stream->capturing;
  stream->capturing = nullptr;
  if (!stream->capture_broken) return cudaSuccess;
  delete *graph;
  *graph = nullptr;
  return remember(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  std::lock_guard guard(lock());
  *exec = new CUgraphExec_st{graph->items};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  std::lock_guard guard(lock());
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  std::lock_guard guard(lock());
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  std::lock_guard guard(lock());
  if (nodes) return remember(cudaErrorInvalidValue);
  *count = graph->items.size();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  std::lock_guard guard(lock());
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  ++mutable_counters().graph_launches;
  for (const Item& item : exec->items) {
    ++mutable_counters().graph_nodes;
    stream->queue.push_back(item);
  }
  return cudaSuccess;
}
