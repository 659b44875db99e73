#include <algorithm>
#include <cmath>
#include <sstream>

#include "support.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("A tensor made from the caller's values copies them") {
  const auto make = [] {
    std::vector<float> values{1, 2, 3};
    return tensor(values);
  };
  CHECK(make().to_vector<float>() == std::vector<float>{1, 2, 3});
  const Tensor doubles = tensor(std::vector<double>{0.5, 1.5});
  CHECK(doubles.dtype() == f32);
  CHECK(doubles.to_vector<float>() == std::vector<float>{0.5f, 1.5f});
  const Tensor kept = tensor(std::vector<double>{0.1}, {1}, f64);
  CHECK(kept.item<double>() == 0.1);
  CHECK(tensor(std::vector<std::int64_t>{1, 2}).dtype() == i64);
}

TEST_CASE("Nested braces give the shape") {
  const Tensor t = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(t.shape() == Shape{2, 3});
  CHECK(t[1][2].item() == 6);
  CHECK(tensor({1.5}).shape() == Shape{1});
  CHECK(tensor({{1}, {2}}).shape() == Shape{2, 1});
  CHECK_THROWS_AS(tensor({{1, 2}, {3}}), ShapeError);
  CHECK_THROWS_AS(tensor({{1, 2}, 3}), ShapeError);
}

TEST_CASE("from_blob shares memory and says when it lets go") {
  float values[4] = {1, 2, 3, 4};
  static int released = 0;
  {
    Tensor t = from_blob(values, {2, 2}, {}, [](void*) { ++released; });
    t.fill_(7);
    CHECK(values[3] == 7);
    const Tensor row = t[1];
    t = Tensor();
    CHECK(released == 0);
    CHECK(row.to_vector<float>() == std::vector<float>{7, 7});
  }
  CHECK(released == 1);
}

TEST_CASE("Views share elements, copies do not") {
  Tensor x = arange(0, 12).reshape({3, 4});
  const Tensor column = x.select(1, 2), block = x.slice(0, 1).slice(1, 0, 4, 2);
  CHECK(column.to_vector<int>() == std::vector<int>{2, 6, 10});
  CHECK(block.to_vector<int>() == std::vector<int>{4, 6, 8, 10});
  Tensor copy = x.clone();
  x[1].fill_(-1);
  CHECK(column.to_vector<int>() == std::vector<int>{2, -1, 10});
  CHECK(copy[1][0].item<int>() == 4);
  CHECK(x.t().reshape({12}).to_vector<int>() == std::vector<int>{0, -1, 8, 1, -1, 9, 2, -1, 10, 3, -1, 11});
  CHECK(x.t().view({4, 3, 1}).shape() == Shape{4, 3, 1});
}

TEST_CASE("reshape infers one size, and a literal 0 is a size of 0") {
  const Tensor e = zeros({4, 0});
  CHECK(e.reshape({37, -1}).shape() == Shape{37, 0});
  CHECK(e.reshape({5, 0}).shape() == Shape{5, 0});
  CHECK_THROWS_AS(e.reshape({0, -1}), ShapeError);
  CHECK_THROWS_AS(e.reshape({-1, 0}), ShapeError);
  CHECK(zeros({}).reshape({1, 1, 1}).shape() == Shape{1, 1, 1});
  CHECK(zeros({1, 1}).reshape({}).shape() == Shape{});
}

TEST_CASE("Views of views of any strides agree with copies") {
  const Tensor x = arange(0, 360).reshape({3, 4, 5, 6});
  for (const Tensor& y : {x.permute({2, 0, 3, 1}), x.slice(3, 1, {}, 2), x.contiguous(MemoryFormat::channels_last),
                          x.transpose(0, 1).slice(0, 1, 3)})
    for (const Shape& s : {Shape{-1}, Shape{-1, 2}, Shape{1, -1, 1, 3}}) {
      if (y.numel() % 6) continue;
      CHECK(y.reshape(s).to_vector<int>() == y.clone().contiguous().reshape(s).to_vector<int>());
    }
}

TEST_CASE("Shapes that overflow or are negative are refused") {
  CHECK_THROWS_AS(empty({std::int64_t{1} << 32, std::int64_t{1} << 32}), ShapeError);
  CHECK_THROWS_AS(empty({-2}), ShapeError);
  CHECK(empty({std::int64_t{1} << 40, 0}).numel() == 0);
  CHECK_THROWS_AS(zeros({2, 2, 2, 2, 2, 2, 2, 2, 2}), ShapeError);
}

TEST_CASE("Channels-last is an order in memory, not another shape") {
  const Tensor x = arange(0, 24).reshape({1, 2, 3, 4}), y = x.contiguous(MemoryFormat::channels_last);
  CHECK(y.shape() == x.shape());
  CHECK(y.strides() == Strides{24, 1, 8, 2});
  CHECK(y.to_vector<int>() == x.to_vector<int>());
  CHECK((y.to(f32) * 2.0).strides() == y.strides());
  CHECK(y.is_contiguous(MemoryFormat::channels_last));
  CHECK_FALSE(y.is_contiguous());
  CHECK(zeros({2, 3, 1, 1}).is_contiguous(MemoryFormat::channels_last));
}

TEST_CASE("Types are promoted as documented") {
  const Tensor i = arange(0, 3), b = tensor({1, 0, 1}).to(boolean), f = ones({3}), h = ones({3}, {.dtype = bf16});
  CHECK((i + 1).dtype() == i64);
  CHECK((i + 0.5).dtype() == f32);
  CHECK((i + f).dtype() == f32);
  CHECK((h + f).dtype() == f32);
  CHECK((h + 0.5).dtype() == bf16);
  CHECK((b + b).to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK((b + 1).dtype() == i64);
  CHECK((i / 2).to_vector<float>() == std::vector<float>{0, 0.5f, 1});
  CHECK((f + ones({3}, {.dtype = f64})).dtype() == f64);
  CHECK((i > 1).dtype() == boolean);
  CHECK(((std::int64_t{1} << 60) + i - (std::int64_t{1} << 60)).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("Conversions to integers truncate and saturate") {
  const Tensor x = tensor({1.9, -1.9, 1e30, -1e30, NAN});
  CHECK(x.to(i32).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -1, INT32_MAX, INT32_MIN, 0});
  CHECK(x.to(u8).to_vector<int>() == std::vector<int>{1, 0, 255, 0, 0});
  CHECK(x.to(boolean).to_vector<int>() == std::vector<int>{1, 1, 1, 1, 1});
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN and infinity") {
  CHECK(float(bfloat16(1.0f)) == 1.0f);
  CHECK(float(bfloat16(1.00390625f)) == 1.0f);  // a tie goes to the even neighbour
  CHECK(float(bfloat16(1.01171875f)) == 1.015625f);
  CHECK(std::isnan(float(bfloat16(NAN))));
  CHECK(float(bfloat16(3.4e38f)) == INFINITY);
  CHECK(float(bfloat16(-INFINITY)) == -INFINITY);
}

TEST_CASE("item and data refuse what they cannot give") {
  CHECK(tensor({2.5}).item() == 2.5f);
  CHECK_THROWS_AS(zeros({2}).item(), ShapeError);
  CHECK_THROWS_AS(zeros({2}).data<double>(), DTypeError);
  CHECK_THROWS_AS(Tensor().shape(), ValueError);
  CHECK_THROWS_AS(zeros({2, 3}).size(2), IndexError);
  CHECK(zeros({2, 3}).size(-1) == 3);
}

TEST_CASE("A device this build does not have is one clear error") {
  if (cuda_available()) return;
  const std::string message = message_of<DeviceError>([] { zeros({2}, {.device = Device::cuda(3)}); });
  CHECK(contains(message, "cuda:3"));
  CHECK(contains(message, "Device::cpu()"));
}

TEST_CASE("Ranges") {
  CHECK(arange(2, 11, 3).to_vector<int>() == std::vector<int>{2, 5, 8});
  CHECK(arange(3, 0, -1).to_vector<int>() == std::vector<int>{3, 2, 1});
  CHECK(arange(0, 1, 0.25).to_vector<float>() == std::vector<float>{0, 0.25f, 0.5f, 0.75f});
  CHECK(arange(5, 5).numel() == 0);
  CHECK_THROWS_AS(arange(0, 5, -1), ValueError);
  CHECK_THROWS_AS(arange(0, 5, 0), ValueError);
  CHECK(linspace(0, 1, 5).to_vector<float>() == std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1});
  CHECK(linspace(0, 1, 1).to_vector<float>() == std::vector<float>{0});
  CHECK(eye(2, 3).to_vector<float>() == std::vector<float>{1, 0, 0, 0, 1, 0});
}

TEST_CASE("Random tensors follow the seed and nothing else") {
  Generator a(5), b(5), c(6);
  const Tensor x = rand({1000}, {}, a);
  CHECK(x.to_vector<float>() == rand({1000}, {}, b).to_vector<float>());
  CHECK(x.to_vector<float>() != rand({1000}, {}, c).to_vector<float>());
  CHECK(x.to_vector<float>() != rand({1000}, {}, a).to_vector<float>());  // the stream moves on
  CHECK(x.min().item() >= 0);
  CHECK(x.max().item() < 1);
  CHECK(x.mean().item() == Approx(0.5).margin(0.03));
  const Tensor n = randn({20000}, {}, a);
  CHECK(n.mean().item() == Approx(0).margin(0.03));
  CHECK(n.square().mean().item() == Approx(1).margin(0.03));
  const Tensor i = randint(-2, 3, {5000}, {.dtype = i64}, a);
  CHECK(i.min().item<int>() == -2);
  CHECK(i.max().item<int>() == 2);
  auto p = randperm(100, a).to_vector<int>();
  CHECK(p != randperm(100, a).to_vector<int>());
  std::sort(p.begin(), p.end());
  CHECK(p == arange(0, 100).to_vector<int>());
  manual_seed(3);
  const auto first = randn({4}).to_vector<float>();
  manual_seed(3);
  CHECK(first == randn({4}).to_vector<float>());
  // Known answers of Philox 4x32-10 from the authors' test vectors.
  const Philox zero(0, 0, 0);
  CHECK(zero.words[0] == 0x6627e8d5u);
  CHECK(zero.words[1] == 0xe169c58du);
  CHECK(zero.words[2] == 0xbc57ac4cu);
  CHECK(zero.words[3] == 0x9b00dbd8u);
  const Philox full(~0ull, ~0ull, ~0ull);
  CHECK(full.words[0] == 0x408f276du);
  CHECK(full.words[3] == 0x6d5451fdu);
}

TEST_CASE("Random numbers do not depend on the number of threads", "[threads]") {
  const int before = get_num_threads();
  set_num_threads(1);
  Generator a(1), b(1);
  const auto one = rand({100000}, {}, a).to_vector<float>();
  set_num_threads(4);
  CHECK(one == rand({100000}, {}, b).to_vector<float>());
  set_num_threads(before);
  CHECK_THROWS_AS(set_num_threads(0), ValueError);
}

TEST_CASE("Tensors print as PyTorch prints them") {
  CHECK(to_string(tensor({{1, 2}, {3, 4}})) == "tensor([[1., 2.],\n        [3., 4.]])");
  CHECK(to_string(tensor({0.5, -1.25})) == "tensor([ 0.5000, -1.2500])");
  CHECK(to_string(tensor({1e-6, 1})) == "tensor([1.0000e-06, 1.0000e+00])");
  CHECK(to_string(tensor({NAN, INFINITY, 1})) == "tensor([nan, inf, 1.])");
  CHECK(to_string(arange(0, 3)) == "tensor([0, 1, 2])");
  CHECK(to_string(zeros({})) == "tensor(0.)");
  CHECK(to_string(zeros({0})) == "tensor([])");
  CHECK(to_string(zeros({2, 0})) == "tensor([], size=[2, 0])");
  CHECK(to_string(ones({2}, {.dtype = f64})) == "tensor([1., 1.], dtype=f64)");
  CHECK(to_string(arange(0, 2000)) == "tensor([   0,    1,    2, ..., 1997, 1998, 1999])");
  CHECK(to_string(ones({1}).set_requires_grad()) == "tensor([1.], requires_grad=true)");
  CHECK(to_string(tensor({1, 0}).to(boolean)) == "tensor([ true, false])");
  CHECK(to_string(zeros({2, 2, 1})) == "tensor([[[0.],\n         [0.]],\n\n        [[0.],\n         [0.]]])");
  std::ostringstream out;
  out << Tensor();
  CHECK(out.str() == "tensor(undefined)");
}

TEST_CASE("In-place operations write where they say") {
  Tensor x = arange(0, 6).to(f32).reshape({2, 3});
  x.add_(tensor({10, 20, 30})).mul_(2);
  CHECK(x.to_vector<float>() == std::vector<float>{20, 42, 64, 26, 48, 70});
  x.t().sub_(x.t());
  CHECK(x.to_vector<float>() == std::vector<float>(6, 0));
  Tensor square = arange(0, 4).to(f32).reshape({2, 2});
  square.add_(square.t());  // overlaps in another order
  CHECK(square.to_vector<float>() == std::vector<float>{0, 3, 3, 6});
  square.copy_(square.t().clone()).add_(ones({2}), 0.5);
  CHECK(square.to_vector<float>() == std::vector<float>{0.5, 3.5, 3.5, 6.5});
  CHECK_THROWS_AS(square.add_(ones({3, 2, 2})), ShapeError);
  CHECK_THROWS_AS(arange(0, 3).add_(0.5), DTypeError);
  CHECK_THROWS_AS(arange(0, 3).div_(arange(1, 4)), DTypeError);
}

TEST_CASE("build_info says what the library was built with") {
  const std::string info = build_info();
  INFO(info);
  CHECK(contains(info, "Spool 0."));
  CHECK(contains(info, "oneDNN"));
  CHECK(contains(info, "CUDA      " + std::string(cuda_available() ? "yes" : "no")));
}
