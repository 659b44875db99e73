// Matrix products: values, shapes, and the fast paths against double precision.
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

Tensor leaf(const Tensor& t) {
  Tensor x = t.detach();
  return x.set_requires_grad();
}

// f32 against f64 of the same numbers.
void check_product(const Tensor& a, const Tensor& b) {
  const Tensor got = matmul(a, b), want = matmul(a.to(f64), b.to(f64));
  REQUIRE(got.shape() == want.shape());
  CHECK(max(abs(got.to(f64) - want)).item<double>() <= 1e-5 * max(abs(want)).item<double>());
}

}  // namespace

TEST_CASE("Products of vectors and matrices have PyTorch's shapes") {
  const Tensor v = tensor({1, 2, 3}), m = tensor({{1, 2}, {3, 4}, {5, 6}});
  check_close(matmul(v, v), {14});
  CHECK(matmul(v, v).dim() == 0);
  check_close(matmul(v, m), {22, 28});
  check_close(matmul(m.t(), v), {22, 28});
  check_close(matmul(m, tensor({1, -1})), {-1, -1, -1});
  CHECK(matmul(ones({2, 1, 3, 4}), ones({5, 4, 6})).shape() == Shape{2, 5, 3, 6});
  CHECK(matmul(ones({4}), ones({5, 4, 6})).shape() == Shape{5, 6});
  CHECK(matmul(ones({0, 3, 4}), ones({4, 2})).shape() == Shape{0, 3, 2});
  check_close(matmul(ones({2, 0}), ones({0, 2})), {0, 0, 0, 0}, 0);
}

TEST_CASE("Small and large products agree with double precision, transposed or not") {
  Generator generator(2);
  for (const Shape& s : {Shape{5, 7, 3}, Shape{64, 64, 64}, Shape{65, 64, 65}, Shape{128, 300, 200}, Shape{1, 4096, 96},
                         Shape{400, 900, 1}, Shape{400, 1, 900}}) {
    const Tensor a = randn({s[0], s[1]}, {}, generator), b = randn({s[1], s[2]}, {}, generator);
    const Tensor at = randn({s[1], s[0]}, {}, generator).t(), bt = randn({s[2], s[1]}, {}, generator).t();
    INFO(to_string(s));
    check_product(a, b);
    check_product(at, b);
    check_product(a, bt);
    check_product(at, bt);
  }
  // Batches, one of them broadcast, and windows of wider matrices.
  check_product(randn({3, 70, 80}, {}, generator), randn({3, 80, 90}, {}, generator));
  check_product(randn({3, 70, 80}, {}, generator).transpose(1, 2), randn({1, 70, 90}, {}, generator));
  check_product(randn({100, 120}, {}, generator).narrow(1, 10, 90), randn({90, 200}, {}, generator).narrow(1, 0, 100));
  check_product(randn({200, 120}, {}, generator).slice(0, {}, {}, 2), randn({120, 300}, {}, generator).slice(1, {}, {}, 3));
  check_product(randn({1, 120}, {}, generator).expand({90, 120}), randn({120, 1}, {}, generator).expand({120, 70}));
}

TEST_CASE("Gradients of a large linear layer agree with double precision") {
  Generator generator(6);
  const Tensor x = randn({96, 200}, {}, generator), w = randn({130, 200}, {}, generator), b = randn({130}, {}, generator),
               g = randn({96, 130}, {}, generator);
  const auto run = [&](DType type) {
    const Tensor lx = leaf(x.to(type)), lw = leaf(w.to(type)), lb = leaf(b.to(type));
    const Tensor y = linear(lx, lw, lb);
    y.backward(g.to(type));
    return std::vector<Tensor>{y, lx.grad(), lw.grad(), lb.grad()};
  };
  const auto got = run(f32), want = run(f64);
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(max(abs(got[i].to(f64) - want[i])).item<double>() <= 1e-5 * max(abs(want[i])).item<double>());
}

TEST_CASE("linear adds its bias to vectors, rows and sequences") {
  const Tensor w = tensor({{1, 2}, {3, 4}, {5, 6}}), b = tensor({10, 20, 30});
  check_close(linear(tensor({1, 1}), w, b), {13, 27, 41});
  check_close(linear(tensor({{1, 0}, {0, 1}}), w, b), {11, 23, 35, 12, 24, 36});
  CHECK(linear(ones({2, 4, 2}), w, b).shape() == Shape{2, 4, 3});
  check_close(linear(ones({2, 0}), ones({3, 0}), b), {10, 20, 30, 10, 20, 30});
}

TEST_CASE("An infinity times zero inside a product is NaN, as in arithmetic") {
  const double infinity = std::numeric_limits<double>::infinity();
  check_close(matmul(tensor({{infinity, 1}}), tensor({{0}, {1}})), {NAN});
}

TEST_CASE("A wrong layer size is told with both shapes") {
  const std::string message = message_of<ShapeError>([] { linear(zeros({128, 4096}), zeros({256, 3136})); });
  CHECK(contains(
      message,
      "linear: input has 4096 features, weight expects 3136\n  input [128, 4096] f32 cpu\n  weight [256, 3136] f32 cpu"));
}
