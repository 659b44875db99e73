// Copies: within a device by a kernel; to and from the host through dense memory of one type, converted on the side that has it.
#include "spool/kernels/cuda/convert.cuh"
#include "spool/kernels/cuda/loops.cuh"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cuda {
namespace {

template <class To, class From>
struct Convert {
  __device__ To operator()(From x) const { return convert<To>(x); }
};

void copy_on_device(const Tensor& x, const Tensor& y) {
  visit(y.dtype(), [&]<class To>(TypeTag<To>) {
    visit(x.dtype(), [&]<class From>(TypeTag<From>) { map<To, From>("copy", Convert<To, From>{}, y, x); });
  });
}

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !is_dense(a)) return false;
  for (int d = 0; d < a.dim(); ++d)
    if (a.shape()[d] != 1 && a.strides()[d] != b.strides()[d]) return false;
  return true;
}

std::size_t size_in_bytes(const Tensor& t) { return static_cast<std::size_t>(t.numel()) * size_of(t.dtype()); }

void to_device(const Tensor& x, Tensor& y) {
  Context& c = spool::cuda::context(y);
  if (same_layout(x, y)) return spool::cuda::copy_to_device(c, y.raw_data(), x.raw_data(), size_in_bytes(y));
  // Brought into y's order on the host, and where y has gaps, spread out on the device.
  Tensor host = empty_like(alias(x, x.shape(), y.strides(), 0), y.dtype());
  if (!is_dense(y)) host = empty(x.shape(), {.dtype = x.dtype()});
  cpu::copy(x, host);
  if (same_layout(host, y)) return spool::cuda::copy_to_device(c, y.raw_data(), host.raw_data(), size_in_bytes(y));
  const Tensor moved = empty(host.shape(), {.dtype = host.dtype(), .device = y.device()});
  spool::cuda::copy_to_device(c, moved.raw_data(), host.raw_data(), size_in_bytes(host));
  copy_on_device(moved, y);
}

void to_host(const Tensor& x, Tensor& y) {
  Context& c = spool::cuda::context(x);
  if (same_layout(x, y)) return spool::cuda::copy_to_host(c, y.raw_data(), x.raw_data(), size_in_bytes(y));
  // Made dense on the device, and put into y's places on the host.
  Tensor packed = x;
  if (!is_dense(x)) {
    packed = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
    copy_on_device(x, packed);
  }
  const Tensor host = empty_like(alias(y, packed.shape(), packed.strides(), 0), packed.dtype());
  spool::cuda::copy_to_host(c, host.raw_data(), packed.raw_data(), size_in_bytes(host));
  cpu::copy(host, y);
}

}  // namespace

void copy(const Tensor& x, Tensor& y) {
  if (y.numel() == 0) return;
  if (!x.is_cuda()) return to_device(x, y);
  if (!y.is_cuda()) return to_host(x, y);
  if (x.device() == y.device()) return copy_on_device(x, y);
  const Tensor host = empty(x.shape(), {.dtype = x.dtype()});
  Tensor on_host = host;
  to_host(x, on_host);
  to_device(on_host, y);
}

}  // namespace spool::kernels::cuda
