// Reductions that kernels do along one dimension, over several: those dimensions are moved to the end and merged.
#include <fmt/format.h>

#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

template <class F>
Tensor over_dims(const char* op, const Tensor& input, Dims dims, bool keepdim, const F& reduce_last) {
  bool reduced[kMaxDims] = {};
  for (const int dim : dims) {
    const int d = wrap_dim(op, dim, input.dim());
    if (reduced[d]) throw ValueError(op, fmt::format("dimension {} was given twice", dim), {{"input", input}});
    reduced[d] = true;
  }
  const Tensor x = input.dim() ? input : reshape(input, {1});
  Shape merged, kept;
  std::int64_t run = 1;
  int order[kMaxDims], n = 0;
  for (int d = 0; d < x.dim(); ++d) {
    reduced[d] = reduced[d] || dims.size() == 0;
    if (reduced[d]) {
      run *= x.shape()[d];
    } else {
      order[n++] = d;
      merged.push_back(x.shape()[d]);
    }
    kept.push_back(reduced[d] ? 1 : x.shape()[d]);
  }
  merged.push_back(run);
  for (int d = 0; d < x.dim(); ++d)
    if (reduced[d]) order[n++] = d;
  const Tensor y = reduce_last(reshape(permute(x, std::span<const int>(order, static_cast<std::size_t>(n))), merged));
  return keepdim ? reshape(y, input.dim() ? kept : Shape{}) : y;
}

}  // namespace

Tensor prod(const Tensor& x, Dims dims, bool keepdim) {
  return over_dims("prod", x, dims, keepdim, [](const Tensor& t) { return prod(t, -1); });
}
Tensor logsumexp(const Tensor& x, Dims dims, bool keepdim) {
  return over_dims("logsumexp", x, dims, keepdim, [](const Tensor& t) { return logsumexp(t, -1); });
}
Tensor amax(const Tensor& x, Dims dims, bool keepdim) {
  return over_dims("amax", x, dims, keepdim, [](const Tensor& t) { return max(t, -1).values; });
}
Tensor amin(const Tensor& x, Dims dims, bool keepdim) {
  return over_dims("amin", x, dims, keepdim, [](const Tensor& t) { return min(t, -1).values; });
}
Tensor any(const Tensor& x, Dims dims, bool keepdim) {
  return over_dims("any", x, dims, keepdim, [](const Tensor& t) { return any(t, -1); });
}
Tensor all(const Tensor& x, Dims dims, bool keepdim) {
  return over_dims("all", x, dims, keepdim, [](const Tensor& t) { return all(t, -1); });
}

}  // namespace spool
