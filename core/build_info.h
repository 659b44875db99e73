#pragma once
#include <string>

namespace spool {

// "0.1.0"
std::string version();

// The version and what this library was built with, in a few lines: compiler, CPU kernels (oneDNN's version, or that it is absent and slower kernels
// stand in), threads, CUDA.
std::string build_info();

}  // namespace spool
