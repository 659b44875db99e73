#include "spool/kernels/step_graph.h"

#include <cstdlib>

#include "spool/core/errors.h"
#include "spool/kernels/cuda/launch.cuh"

namespace spool::kernels {
namespace {

using namespace spool::kernels::cuda;

__global__ void advance_kernel(Live* live, std::uint64_t draws) {
  live->steps += 1;
  live->draws += draws;
}

}  // namespace

struct StepGraph::Parts {
  Context& c;
  Scratch memory;  // of the live values
  spool::cuda::Capture capture;
  bool recording = false;
  cudaGraphExec_t exec = nullptr;
  std::size_t nodes = 0;
  std::uint64_t draws = 0;
  Live follows;  // what the device holds after the replays so far
  bool sent = false;

  explicit Parts(Context& context) : c(context), memory(context, sizeof(Live)) {}

  cudaGraph_t stop() noexcept {
    spool::cuda::set_capture(nullptr);
    recording = false;
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(c.stream, &graph) != cudaSuccess) (void)cudaGetLastError();
    return graph;
  }
};

StepGraph::StepGraph(int device) : p_(std::make_unique<Parts>(spool::cuda::context(device))) {
  if (spool::cuda::capture()) throw CudaError("capture", "a step is being captured already");
  if (std::getenv("SPOOL_CUDA_NO_CACHE"))
    throw CudaError("capture", "SPOOL_CUDA_NO_CACHE is set, and without the cache memory cannot be kept for a graph");
  SPOOL_CUDA(cudaStreamBeginCapture(p_->c.stream, cudaStreamCaptureModeRelaxed));
  p_->capture = {spool::cuda::make_pool(), p_->memory.as<Live>(), 0};
  p_->recording = true;
  spool::cuda::set_capture(&p_->capture);
}

StepGraph::~StepGraph() {
  if (p_->recording)
    if (cudaGraph_t graph = p_->stop()) (void)cudaGraphDestroy(graph);
  if (p_->exec) (void)cudaGraphExecDestroy(p_->exec);
  spool::cuda::dissolve_pool(p_->capture.pool, p_->c.device);
}

void StepGraph::finish(std::uint64_t draws) {
  p_->draws = draws;
  Context& c = begin("capture", p_->c.device, 0);
  launch(c, advance_kernel, 1u, 1u, p_->memory.as<Live>(), draws);
  cudaGraph_t graph = p_->stop();
  if (!graph) throw CudaError("capture", "something in the step waits for the device, or cannot be recorded for another reason");
  SPOOL_CUDA(cudaGraphGetNodes(graph, nullptr, &p_->nodes));
  SPOOL_CUDA(cudaGraphInstantiate(&p_->exec, graph, 0));
  SPOOL_CUDA(cudaGraphDestroy(graph));
}

void StepGraph::replay(const Live& live) {
  Context& c = begin("a captured step", p_->c.device, 0);
  if (!p_->sent || !(live == p_->follows)) spool::cuda::copy_to_device(c, p_->memory.as<Live>(), &live, sizeof live);
  p_->sent = true;
  p_->follows = live;
  p_->follows.steps += 1;
  p_->follows.draws += p_->draws;
  SPOOL_CUDA(cudaGraphLaunch(p_->exec, c.stream));
  spool::cuda::finish(c);
}

std::size_t StepGraph::nodes() const { return p_->nodes; }

}  // namespace spool::kernels
