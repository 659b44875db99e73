// Tensors in device memory: moving them, reading them, running out of memory, and what is said when something is wrong.
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "cuda_support.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("Elements survive the way to a device and back, whatever their type and order") {
  SPOOL_NEED_CUDA();
  Generator g(1);
  for (const DType dtype : {boolean, u8, i32, i64, bf16, f32, f64}) {
    const Tensor x = (randn({3, 4, 5, 6}, {}, g) * 40).abs().to(dtype);
    CHECK(x.to(gpu).to_vector<double>() == x.to_vector<double>());
    const Tensor strided = x.permute({2, 0, 3, 1}).slice(1, 0, {}, 2);
    CHECK(strided.to(gpu).to_vector<double>() == strided.to_vector<double>());
    CHECK(x.to(gpu).permute({2, 0, 3, 1}).slice(1, 0, {}, 2).to(Device::cpu()).to_vector<double>() ==
          strided.to_vector<double>());
    const Tensor last = x.contiguous(MemoryFormat::channels_last).to(gpu);
    CHECK(last.is_contiguous(MemoryFormat::channels_last));
    CHECK(last.to_vector<double>() == x.to_vector<double>());
  }
  CHECK(zeros({0, 3}).to(gpu).to(Device::cpu()).numel() == 0);
}

TEST_CASE("item, printing, copy_ and fill_ work on device tensors") {
  SPOOL_NEED_CUDA();
  Tensor x = tensor({{1, 2}, {3, 4}}).to(gpu);
  CHECK(x[1][0].item() == 3.0f);
  std::ostringstream out;
  out << x;
  CHECK(out.str() == "tensor([[1., 2.],\n        [3., 4.]], device='cuda:0')");
  x.copy_(tensor({7, 8}));  // from the host, broadcast
  CHECK(x.to_vector<float>() == std::vector<float>{7, 8, 7, 8});
  Tensor host = zeros({2, 2}, {.dtype = f64});
  host.copy_(x);
  CHECK(host.to_vector<double>() == std::vector<double>{7, 8, 7, 8});
  x.select(1, 0).fill_(-1);
  x.add_(tensor({1, 1}).to(gpu));
  CHECK(x.to_vector<float>() == std::vector<float>{0, 9, 0, 9});
  CHECK_THROWS_AS(x.data<float>(), DeviceError);
}

TEST_CASE("The source of a copy may change as soon as the call returns") {
  SPOOL_NEED_CUDA();
  std::vector<float> values(1000, 1);
  const Tensor host = from_blob(values.data(), {1000});
  const Tensor device = host.to(gpu);
  values.assign(1000, 2);
  CHECK(device.sum().item() == 1000.0f);
}

TEST_CASE("Operands on the host and on a device are refused by name") {
  SPOOL_NEED_CUDA();
  const Tensor x = ones({2, 2}).to(gpu), y = ones({2, 2});
  CHECK(contains(message_of<DeviceError>([&] { x + y; }), "cuda:0"));
  CHECK(contains(message_of<DeviceError>([&] { matmul(x, y); }), "to(device)"));
  CHECK(contains(message_of<DeviceError>([&] {
                   cross_entropy(x, tensor(std::vector<std::int64_t>{0, 1}, {2}));
                 }),
                 "different devices"));
  Tensor into = x.clone();
  CHECK_THROWS_AS(into.add_(y), DeviceError);
}

TEST_CASE("A device that is not there is refused with the number of those that are") {
  SPOOL_NEED_CUDA();
  const std::string message = message_of<DeviceError>([] { empty({1}, {.device = Device::cuda(60)}); });
  CHECK(contains(message, "cuda:60"));
  CHECK(contains(message, "CUDA device"));
  CHECK_THROWS_AS(ones({1}).to(Device::cuda(60)), DeviceError);
}

TEST_CASE("A label that is no class is reported when the host next waits, and the device stays usable") {
  SPOOL_NEED_CUDA();
  const Tensor logits = zeros({4, 3}).to(gpu), labels = tensor(std::vector<std::int64_t>{0, 2, 7, 1}, {4}).to(gpu);
  const std::string message = message_of<IndexError>([&] { cross_entropy(logits, labels).item(); });
  CHECK(contains(message, "label 7 at position 2"));
  CHECK(contains(message, "0 to 2"));
  CHECK((logits + 1).sum().item() == 12.0f);
  CHECK(cross_entropy(logits, tensor(std::vector<std::int64_t>{0, 2, -100, 1}, {4}).to(gpu)).item() == Approx(std::log(3.0)));
}

TEST_CASE("Indices out of range are named as on the CPU") {
  SPOOL_NEED_CUDA();
  const Tensor x = zeros({4, 3}).to(gpu);
  CHECK(contains(message_of<IndexError>([&] {
                   index_select(x, 0, tensor(std::vector<std::int64_t>{1, 4}, {2}).to(gpu));
                 }),
                 "index 4 at position [1]"));
}

TEST_CASE("Freed device memory is used again, and counted") {
  SPOOL_NEED_CUDA();
  synchronize(gpu);
  { const Tensor warm = empty({1 << 20}, {.device = gpu}); }
  const MemoryStats before = memory_stats(gpu);
  for (int i = 0; i < 10; ++i) {
    const Tensor x = empty({1 << 20}, {.device = gpu});
    CHECK(memory_stats(gpu).allocated >= before.allocated + (4u << 20));
  }
  const MemoryStats after = memory_stats(gpu);
  CHECK(after.allocated == before.allocated);
  CHECK(after.allocations == before.allocations + 10);
  if (!std::getenv("SPOOL_CUDA_NO_CACHE")) CHECK(after.system_allocations == before.system_allocations);
  CHECK(after.peak_allocated >= before.allocated + (4u << 20));
  CHECK(contains(memory_summary(gpu), "cuda:0"));
  empty_cache(gpu);
  CHECK(memory_stats(gpu).reserved <= after.reserved);
}

TEST_CASE("Blocks are split, and merged when they come back") {
  SPOOL_NEED_CUDA();
  if (std::getenv("SPOOL_CUDA_NO_CACHE")) return;
  empty_cache(gpu);
  std::vector<Tensor> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(empty({1 << 19}, {.device = gpu}));  // 2 MiB each, from one segment of 20
  const std::uint64_t asked = memory_stats(gpu).system_allocations;
  parts.clear();
  const Tensor whole = empty({4 << 20}, {.device = gpu});  // 16 MiB
  CHECK(memory_stats(gpu).system_allocations == asked);
}

TEST_CASE("Asking for more than the device has says what is held and free") {
  SPOOL_NEED_CUDA();
  const std::string message = message_of<CudaError>([] { empty({1 << 30, 1 << 12}, {.device = gpu}); });
  CHECK(contains(message, "out of memory on cuda:0"));
  CHECK(contains(message, "were asked for"));
  CHECK(ones({3}).to(gpu).sum().item() == 3.0f);
}

TEST_CASE("Gradients that are not finite change nothing, and are reported when the host next waits") {
  SPOOL_NEED_CUDA();
  const Tensor p = ones({3}).to(gpu).detach().set_requires_grad();
  Adam adam({p}, {.lr = 0.1, .error_if_nonfinite = true});
  sum(log(p - 1.0)).backward();  // 1 / 0
  CHECK(contains(message_of<GradError>([&] {
                   adam.step();
                   synchronize(gpu);
                 }),
                 "neither that step nor a later one changed anything"));
  CHECK(p.to_vector<float>() == std::vector<float>{1, 1, 1});
  adam.zero_grad();
  sum(p * 2.0).backward();
  adam.step();
  CHECK(p.to_vector<float>()[0] < 1.0f);
}
