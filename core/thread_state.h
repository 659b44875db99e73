// The two things a thread carries: whether operations are recorded, and which layer is running.
#pragma once
#include <string>

namespace spool {

// Where in a model a layer sits: "block1.conv2", and what it is: "Conv2d(3, 32, kernel_size=(3, 3))". Modules own theirs
// and never move, nodes of the tape share it.
struct LayerPath {
  std::string path;
  std::string description;
};

struct ThreadState {
  bool grad_enabled = true;
  const LayerPath* layer = nullptr;
};

inline constinit thread_local ThreadState thread_state;

}  // namespace spool
