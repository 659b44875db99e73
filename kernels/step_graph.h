// A training step as one CUDA graph: recorded once, launched as often as wanted. What CapturedStep (train/captured_step.h) is made of; only in builds with CUDA.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "spool/core/cuda/live.h"

namespace spool::kernels {

class StepGraph {
 public:
  // From here on what the calling thread gives the device is recorded. Throws CudaError where the device is recording already.
  explicit StepGraph(int device);
  // Gives up what was not finished.
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // Ends the recording of a step that made `draws` draws of the generator. Throws CudaError when something in it cannot be recorded.
  void finish(std::uint64_t draws);
  // Runs the step with these values, which it counts up by itself: the host only sends them when they are not the ones that follow.
  void replay(const spool::cuda::Live& live);
  // Kernels, library calls, fills and copies in the graph.
  std::size_t nodes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> p_;
};

}  // namespace spool::kernels
