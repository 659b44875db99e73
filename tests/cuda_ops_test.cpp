// The table of op cases on a CUDA device: every operation and gradient gives there what it gives on the CPU, in every element type and memory order.
#include "cuda_support.h"
#include "op_cases/run.h"

using namespace spool;
using namespace spool::test;

namespace {

// Runs every case twice, its inputs changed by `change`, on the device and on the CPU.
template <class F>
void compare_devices(const F& change, double tolerance_of_case(const OpCase&), bool wanted(const OpCase&)) {
  for (const OpCase& c : table().cases) {
    if (!wanted(c)) continue;
    INFO(title(c));
    const Outcome want = run(c, leaves(c, change));
    Outcome got;
    try {
      got = run(c, leaves(c, [&](const Tensor& t) { return change(t.to(gpu)); }));
    } catch (const std::exception& e) {
      FAIL_CHECK(e.what());
      continue;
    }
    for (const Tensor& y : got.outputs) CHECK(y.is_cuda());
    compare(got, want, tolerance_of_case(c));
  }
}

bool all(const OpCase&) { return true; }

}  // namespace

TEST_CASE("Every operation agrees with the CPU in double precision") {
  SPOOL_NEED_CUDA();
  compare_devices(
      same, [](const OpCase&) { return 1e-9; }, all);
}

TEST_CASE("Every operation agrees with the CPU in single precision") {
  SPOOL_NEED_CUDA();
  compare_devices([](const Tensor& t) { return t.dtype() == f64 ? t.to(f32) : t; },
                  [](const OpCase& c) { return c.f32_tolerance; }, all);
}

TEST_CASE("Every operation agrees with the CPU in bfloat16") {
  SPOOL_NEED_CUDA();
  compare_devices([](const Tensor& t) { return t.dtype() == f64 ? t.to(bf16) : t; },
                  [](const OpCase& c) { return c.bf16_tolerance; }, [](const OpCase& c) { return c.bf16; });
}

TEST_CASE("On a device too, the order of elements in memory changes nothing") {
  SPOOL_NEED_CUDA();
  compare_devices(
      reversed, [](const OpCase&) { return 1e-9; }, all);
  compare_devices([](const Tensor& t) { return t.dim() == 4 ? t.contiguous(MemoryFormat::channels_last) : t; },
                  [](const OpCase&) { return 1e-9; }, all);
}

TEST_CASE("On a device too, a window of a larger tensor gives what its copy gives") {
  SPOOL_NEED_CUDA();
  compare_devices(
      window, [](const OpCase&) { return 1e-9; }, all);
}

TEST_CASE("Random numbers are the CPU's, bit for bit") {
  SPOOL_NEED_CUDA();
  const auto draw = [](Device device, DType dtype) {
    Generator g(11);
    const TensorOptions options{.dtype = dtype, .device = device};
    std::vector<Tensor> all_drawn{rand({1001}, options, g), randint(-7, 1000, {333}, {.dtype = i64, .device = device}, g),
                                  dropout(ones({77, 13}, options), 0.3, true, g)};
    return all_drawn;
  };
  for (const DType dtype : {f32, f64, bf16}) {
    const auto host = draw(Device::cpu(), dtype), device = draw(gpu, dtype);
    for (std::size_t i = 0; i < host.size(); ++i) CHECK(host[i].to_vector<double>() == device[i].to_vector<double>());
  }
  // Normal numbers go through log and cos, whose last bit is the library's own.
  Generator a(3), b(3);
  const Tensor host = randn({4097}, {}, a), device = randn({4097}, {.device = gpu}, b).to(Device::cpu());
  CHECK(abs(host - device).max().item() < 1e-6f);
}

TEST_CASE("Large tensors, odd sizes and long rows agree with the CPU") {
  SPOOL_NEED_CUDA();
  Generator g(5);
  const auto check = [](const Tensor& got, const Tensor& want, double tolerance) {
    CHECK(relative_error(got, want) <= tolerance);
  };
  const Tensor x = randn({300'007}, {}, g), xd = x.to(gpu);
  check(xd.sum(), x.sum(), 1e-6);
  check(xd.max(), x.max(), 0);
  CHECK(argmax(xd).item<std::int64_t>() == argmax(x).item<std::int64_t>());
  check(cumsum(xd, 0), cumsum(x, 0), 1e-6);
  check(relu(xd + 1), relu(x + 1), 0);
  const Tensor m = randn({1000, 257}, {}, g), md = m.to(gpu);
  check(md.sum({0}), m.sum({0}), 1e-6);
  check(md.sum({1}), m.sum({1}), 1e-6);
  check(softmax(md, 1), softmax(m, 1), 1e-5);
  check(softmax(md, 0), softmax(m, 0), 1e-5);
  check(matmul(md, transpose(md, 0, 1)), matmul(m, transpose(m, 0, 1)), 1e-5);
  check(sort(md, 1).values, sort(m, 1).values, 0);
  check(layer_norm(md, {257}), layer_norm(m, {257}), 1e-5);
  const Tensor image = randn({3, 37, 19, 21}, {}, g), image_d = image.to(gpu);
  Tensor none, other;
  check(batch_norm(image_d, {}, {}, none, none, {.training = true}), batch_norm(image, {}, {}, other, other, {.training = true}),
        1e-5);
}
