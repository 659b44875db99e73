#include "spool/core/build_info.h"

#include <fmt/format.h>

namespace spool {

std::string version() { return SPOOL_VERSION; }

std::string build_info() {
#if defined(__clang__)
  const char* compiler = "Clang " __clang_version__;
#else
  const char* compiler = "GCC " __VERSION__;
#endif
#if SPOOL_WITH_ONEDNN
  const char* kernels = "oneDNN " SPOOL_ONEDNN_VERSION " and Eigen";
#else
  const char* kernels = "built-in and Eigen; without oneDNN, convolutions and matrix products are slower";
#endif
#if defined(_OPENMP)
  const char* threads = "OpenMP";
#else
  const char* threads = "none, one thread only";
#endif
  return fmt::format(
      "Spool {}\n"
      "  compiler  {}, CPU kernels for {}\n"
      "  kernels   {}\n"
      "  threads   {}\n"
      "  CUDA      {}\n",
      SPOOL_VERSION, compiler, SPOOL_CPU_ARCH, kernels, threads, SPOOL_WITH_CUDA ? "yes" : "no");
}

}  // namespace spool
