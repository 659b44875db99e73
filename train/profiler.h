// Profiler: where the time of a program goes, kernel by kernel and layer by layer.
//
//   Profiler profiler;                                  // records the kernels of this thread while it is alive
//   for (int i = 0; i < 10; ++i) train_step();
//   profiler.stop();
//   std::cout << profiler.kernel_table() << profiler.layer_table();
//   profiler.write_chrome_trace("step.json");           // for chrome://tracing or ui.perfetto.dev
//
// A kernel is one pass of work: a convolution, one of its gradients, an addition, the update of all parameters. Its bytes are those of its operands,
// each counted once. What is between kernels (shapes, the tape, memory, and everything else of the program) is shown as a line of its own.
// While no Profiler runs, a kernel pays one test of a pointer.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spool/kernels/kernel_run.h"

namespace spool {

class Profiler {
 public:
  // Starts recording. Throws Error where one already records on this thread.
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Ends recording; called from the thread that made it. Without it the tables cover everything up to now.
  void stop();

  // In the order in which they ran.
  const std::vector<KernelRun>& runs() const { return runs_; }
  // Nanoseconds from the construction to stop(), or to now.
  std::int64_t elapsed() const;

  // Calls, time, share of the elapsed time, bytes and bytes per second of every kernel in each phase of a step (forward, backward, update), the longest first.
  std::string kernel_table() const;
  // The same by layer, one line for each phase.
  std::string layer_table() const;
  // The runs as a timeline, one row for each phase. The file is written whole or not at all; throws IoError.
  void write_chrome_trace(const std::string& path) const;

 private:
  std::vector<KernelRun> runs_;
  std::int64_t start_, end_ = 0;  // end_: 0 while recording
};

}  // namespace spool
