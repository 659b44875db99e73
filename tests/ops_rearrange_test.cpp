// Joining and moving elements, against PyTorch's results.
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {
Tensor counted(const Shape& shape) { return reshape(arange(0, shape.numel(), 1, f32), shape); }
}  // namespace

TEST_CASE("cat joins, promotes types, and sends each part its gradient") {
  check_close(cat({counted({2, 2}), full({2, 1}, 9)}, 1), {0, 1, 9, 2, 3, 9});
  CHECK(cat({zeros({2}, {.dtype = i64}), zeros({1})}).dtype() == f32);
  CHECK(cat({zeros({0, 3}), zeros({2, 3})}).shape() == Shape{2, 3});
  Tensor a = ones({2, 1}).set_requires_grad(), b = ones({2, 2}).set_requires_grad();
  (cat({a, b}, 1) * counted({2, 3})).sum().backward();
  check_close(a.grad(), {0, 3});
  check_close(b.grad(), {1, 2, 4, 5});
  // The same tensor on both sides gets both gradients.
  Tensor c = ones({2}).set_requires_grad();
  (cat({c, c}) * counted({4})).sum().backward();
  check_close(c.grad(), {2, 4});
}

TEST_CASE("Rearranging keeps images channels-last") {
  const Tensor x = counted({2, 3, 4, 4}).contiguous(MemoryFormat::channels_last);
  for (const Tensor& y : {cat({x, x}, 1), pad(x, {1, 1, 1, 1}), flip(x, {3}), roll(x, 1, 2)})
    CHECK(y.is_contiguous(MemoryFormat::channels_last));
  const Tensor plain = counted({2, 3, 4, 4});
  check_close(cat({x, x}, 1), cat({plain, plain}, 1).to_vector<double>());
  check_close(pad(x, {1, 0, 0, 2}), pad(plain, {1, 0, 0, 2}).to_vector<double>());
  check_close(flip(x, {3, 1}), flip(plain, {3, 1}).to_vector<double>());
}

TEST_CASE("stack makes a new dimension") {
  const Tensor a = tensor({1, 2}), b = tensor({3, 4});
  CHECK(stack({a, b}).shape() == Shape{2, 2});
  check_close(stack({a, b}, -1), {1, 3, 2, 4});
  CHECK(stack({a, b, a}, 1).shape() == Shape{2, 3});
}

TEST_CASE("pad adds from the last dimension backwards, and crops") {
  check_close(pad(counted({2, 2}), {1, 0, 0, 1}, 9), {9, 0, 1, 9, 2, 3, 9, 9, 9});
  check_close(pad(counted({2, 3}), {-1, 1}), {1, 2, 0, 4, 5, 0});
  CHECK(pad(zeros({2, 2}), {-1, -1}).shape() == Shape{2, 0});
  check_close(pad(zeros({0}), {1, 2}, 5), {5, 5, 5});
  check_close(pad(tensor({1}, {.dtype = i64}), {1, 1}, 7), {7, 1, 7});
  Tensor x = counted({2, 3}).set_requires_grad();
  (pad(x, {-1, 1}) * counted({2, 3})).sum().backward();
  check_close(x.grad(), {0, 0, 1, 0, 3, 4});
}

TEST_CASE("flip and roll") {
  const Tensor x = counted({2, 3});
  check_close(flip(x, {0}), {3, 4, 5, 0, 1, 2});
  check_close(flip(x, {0, -1}), {5, 4, 3, 2, 1, 0});
  check_close(flip(x.t(), {0}), {2, 5, 1, 4, 0, 3});
  check_close(flip(slice(counted({7}), 0, 1, {}, 2), {0}), {5, 3, 1});
  check_close(roll(x, 1, 1), {2, 0, 1, 5, 3, 4});
  check_close(roll(x, -1, -1), {1, 2, 0, 4, 5, 3});
  check_close(roll(x, 7, 0), {3, 4, 5, 0, 1, 2});
  CHECK(roll(zeros({0}), 3, 0).numel() == 0);
  // A copy, also where nothing moves.
  Tensor y = roll(x, 0, 0);
  y.fill_(1);
  check_close(x, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("Triangles drop even NaN") {
  const Tensor x = counted({3, 3}) + 1;
  check_close(tril(x), {1, 0, 0, 4, 5, 0, 7, 8, 9});
  check_close(triu(x), {1, 2, 3, 0, 5, 6, 0, 0, 9});
  check_close(tril(x, 1), {1, 2, 0, 4, 5, 6, 7, 8, 9});
  check_close(triu(x, 2), {0, 0, 3, 0, 0, 0, 0, 0, 0});
  check_close(tril(x, -3), std::vector<double>(9, 0));
  check_close(triu(full({2, 2}, std::nan("")), 1)[1], {0, 0});
  CHECK(triu(ones({2, 4, 3}, {.dtype = i64})).dtype() == i64);
}
