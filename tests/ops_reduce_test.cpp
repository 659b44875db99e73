// Sums, extremes and the like, against PyTorch 2.15's numbers and by brute force.
#include <cmath>

#include "spool/kernels/reduce.h"
#include "spool/kernels/ref/reduce.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

const double kNaN = std::nan(""), kInf = INFINITY;

Tensor sample() { return tensor({{1, -2, 3.5}, {0.5, 4, -1}}); }

// Checks values and, for the cotangent 1, 2, 3 ..., gradients.
void check_op(Tensor x, const std::function<Tensor(const Tensor&)>& f, const std::vector<double>& values,
              const std::vector<double>& gradient) {
  x.set_requires_grad();
  const Tensor y = f(x);
  check_close(y, values, 1e-5);
  y.backward(reshape(arange(1, y.numel() + 1, 1, f32), y.shape()));
  check_close(x.grad(), gradient, 1e-5);
}

}  // namespace

TEST_CASE("Reductions give PyTorch's values and gradients") {
  check_op(sample(), [](const Tensor& x) { return sum(x, {1}); }, {2.5, 3.5}, {1, 1, 1, 2, 2, 2});
  check_op(sample(), [](const Tensor& x) { return mean(x, {1}); }, {0.833333313, 1.16666663},
           {0.33333334, 0.33333334, 0.33333334, 0.66666669, 0.66666669, 0.66666669});
  check_op(sample(), [](const Tensor& x) { return var(x); }, {5.69999981}, {0, -1.20000005, 1, -0.2, 1.20000005, -0.8});
  check_op(sample(), [](const Tensor& x) { return var(x, {0}, 0); }, {0.0625, 9, 5.0625}, {0.25, -6, 6.75, -0.25, 6, -6.75});
  check_op(sample(), [](const Tensor& x) { return spool::std(x, {1}); }, {2.75378537, 2.56580067},
           {0.030261379, -0.514443338, 0.4841820, -0.259827912, 1.104268789, -0.844440699});
  check_op(sample(), [](const Tensor& x) { return prod(x, 1); }, {-7, -2}, {-7, 3.5, -2, -8, -1, 4});
  check_op(sample(), [](const Tensor& x) { return cumsum(x, 1); }, {1, -1, 2.5, 0.5, 4.5, 3.5}, {6, 5, 3, 15, 11, 6});
  check_op(sample(), [](const Tensor& x) { return max(x, 0).values; }, {1, 4, 3.5}, {1, 0, 3, 0, 2, 0});
  check_op(sample(), [](const Tensor& x) { return logsumexp(x, 1); }, {3.58265924, 4.03626966},
           {0.0755727738, 0.00376254669, 0.920664787, 0.0582435168, 1.92876041, 0.0129958857});
  check_op(sample(), [](const Tensor& x) { return norm(x); }, {5.8736701},
           {0.17025131, -0.34050262, 0.59587955, 0.085125655, 0.68100524, -0.17025131});
  check_op(sample(), [](const Tensor& x) { return norm(x, 3, {1}); }, {3.72951818, 4.0233016},
           {0.0718943179, -0.287577271, 0.880705416, 0.0308890678, 1.97690034, -0.123556271});
  check_op(sample(), [](const Tensor& x) { return norm(x, 1); }, {12}, {1, -1, 1, 1, 1, -1});
  check_op(sample(), [](const Tensor& x) { return norm(x, kInf); }, {4}, {0, 0, 0, 0, 1, 0});
  check_op(sample(), [](const Tensor& x) { return norm(x, 0.5); }, {63.874443},
           {7.99214888, -5.65130234, 4.27198315, 11.3026046, 3.99607444, -7.99214888});
}

TEST_CASE("Reductions keep their dimensions when asked, and count negative ones from the end") {
  const Tensor x = zeros({2, 3, 4});
  CHECK(sum(x, {-1, 0}).shape() == Shape{3});
  CHECK(sum(x, {-1, 0}, true).shape() == Shape{1, 3, 1});
  CHECK(mean(x, {1}, true).shape() == Shape{2, 1, 4});
  CHECK(max(x, 1, true).values.shape() == Shape{2, 1, 4});
  CHECK(max(x, -2).indices.shape() == Shape{2, 4});
  CHECK(argmin(x, 0, true).shape() == Shape{1, 3, 4});
  CHECK(all(x, 2, true).shape() == Shape{2, 3, 1});
  CHECK(logsumexp(x, 2, true).shape() == Shape{2, 3, 1});
  CHECK(sum(scalar_tensor(3.0), {-1}).shape() == Shape{});
  CHECK(max(scalar_tensor(3.0), 0).values.item() == 3);
}

TEST_CASE("Reductions over nothing are their neutral element, or an error") {
  const Tensor none = zeros({0}), rows = zeros({2, 0});
  CHECK(sum(none).item() == 0);
  CHECK(prod(none).item() == 1);
  CHECK(std::isnan(mean(none).item()));
  CHECK(std::isnan(var(none).item()));
  CHECK_FALSE(any(none).item<bool>());
  CHECK(all(none).item<bool>());
  CHECK(norm(none).item() == 0);
  check_close(sum(rows, {1}), {0, 0});
  check_close(logsumexp(rows, 1), {-kInf, -kInf});
  CHECK(max(rows, 0).values.shape() == Shape{0});
  CHECK(cumsum(rows, 1).shape() == Shape{2, 0});
  CHECK_THROWS_AS(max(none), ValueError);
  CHECK_THROWS_AS(max(rows, 1), ValueError);
  CHECK_THROWS_AS(argmin(none), ValueError);
  Tensor x = zeros({2, 0}).set_requires_grad();
  (sum(x) + prod(x, 1).sum() + logsumexp(x, 1).exp().sum()).backward();
  CHECK(x.grad().shape() == Shape{2, 0});
}

TEST_CASE("Integers and booleans sum to 64-bit integers") {
  CHECK(sum(tensor({200, 100}, {.dtype = u8})).item<std::int64_t>() == 300);
  CHECK(sum(tensor({1, 1, 0}, {.dtype = boolean})).dtype() == i64);
  CHECK(sum(tensor({1, 1, 0}, {.dtype = boolean})).item<std::int64_t>() == 2);
  check_close(cumsum(tensor({1, 1, 0}, {.dtype = boolean}), 0), {1, 2, 2});
  CHECK(prod(tensor({2, 3}, {.dtype = i32})).dtype() == i64);
  CHECK(max(tensor({7, 200}, {.dtype = u8})).dtype() == u8);
  CHECK(max(tensor({7, 200}, {.dtype = u8})).item<std::uint8_t>() == 200);
  CHECK(min(tensor({5, -7}, {.dtype = i32})).item<std::int32_t>() == -7);
  CHECK(max(tensor({0, 1}, {.dtype = boolean}), 0).values.item<bool>());
  CHECK(any(tensor({0, 0, 3})).item<bool>());
  CHECK(any(tensor({0, kNaN})).item<bool>());
}

TEST_CASE("A long sum of single-precision numbers keeps its digits") {
  const std::int64_t n = 10'000'019;
  const Tensor x = full({n}, 0.1f);
  const double want = static_cast<double>(n) * static_cast<double>(0.1f);
  CHECK(sum(x).item<double>() == Approx(want).epsilon(1e-7));
  CHECK(mean(x).item<double>() == Approx(0.1f).epsilon(1e-7));
  check_close(sum(full({100'003, 3}, 0.1f), {0}), std::vector<double>(3, 100'003 * static_cast<double>(0.1f)), 1e-3);
  check_close(sum(full({3, 100'003}, 0.1f).t(), {0}), std::vector<double>(3, 100'003 * static_cast<double>(0.1f)), 1e-3);
  // Next to 2^24 a plain float sum no longer sees a 1.
  CHECK(sum(cat({full({1}, 16777216.0), ones({1000})})).item<double>() == 16778216.0);
  CHECK(cumsum(cat({full({1}, 16777216.0), ones({1000})}), 0)[1000].item<double>() == 16778216.0);
  CHECK(prod(tensor({1e30, 1e30, 1e-30, 1e-30})).item() == Approx(1));
}

TEST_CASE("A variance does not drown in a large mean") {
  const Tensor x = tensor({10000, 10000.25, 10000.5, 10000.75});
  CHECK(var(x).item() == Approx(0.1041667));
  CHECK(var(x, {}, 0).item() == Approx(0.078125));
  CHECK(var(full({9}, 100.0)).item() == 0);
  Tensor flat = tensor({2, 2, 2}).set_requires_grad();
  spool::std(flat).backward();
  check_close(flat.grad(), {0, 0, 0});
  CHECK(std::isnan(var(tensor({2})).item()));
}

TEST_CASE("The derivative of a product is exact with zeros among the factors") {
  check_op(tensor({2, 0, 3}), [](const Tensor& x) { return prod(x); }, {0}, {0, 6, 0});
  check_op(tensor({0, 0, 3}), [](const Tensor& x) { return prod(x); }, {0}, {0, 0, 0});
  check_op(tensor({2, kNaN, 0}), [](const Tensor& x) { return prod(x); }, {kNaN}, {kNaN, 0, kNaN});
  check_op(scalar_tensor(4.0), [](const Tensor& x) { return prod(x); }, {4}, {1});
}

TEST_CASE("A norm of a zero vector has gradient zero") {
  for (const double p : {0.5, 1.0, 2.0, 3.0, kInf}) {
    INFO("p = " << p);
    check_op(zeros({3}), [p](const Tensor& x) { return norm(x, p); }, {0}, {0, 0, 0});
  }
  check_op(tensor({0, 3, 0}), [](const Tensor& x) { return norm(x, 0.5); }, {3}, {0, 1, 0});
  check_op(tensor({3, -3, 1}), [](const Tensor& x) { return norm(x, kInf); }, {3}, {0.5, -0.5, 0});
}

TEST_CASE("logsumexp at infinities and far from zero") {
  const auto f = [](const Tensor& x) { return logsumexp(x, 0); };
  check_op(tensor({1000, 1000}), f, {1000.69315}, {0.5, 0.5});
  check_op(tensor({-1000, -1000}), f, {-999.306853}, {0.5, 0.5});
  check_op(tensor({-kInf, 1}), f, {1}, {0, 1});
  check_op(tensor({-kInf, -kInf}), f, {-kInf}, {0, 0});
  check_op(tensor({kInf, 0}), f, {kInf}, {kNaN, 0});
  check_op(tensor({kNaN, 1}), f, {kNaN}, {kNaN, kNaN});
}

TEST_CASE("The gradient of a maximum at ties") {
  const Tensor ties = tensor({1, 3, 3, 3});
  check_op(ties.clone(), [](const Tensor& x) { return max(x); }, {3}, {0, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  check_op(ties.clone(), [](const Tensor& x) { return max(x, 0).values; }, {3}, {0, 1, 0, 0});
  check_op(neg(ties), [](const Tensor& x) { return min(x); }, {-3}, {0, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  check_op(tensor({1, kNaN, 3}), [](const Tensor& x) { return max(x); }, {kNaN}, {0, 1, 0});
  check_op(tensor({kNaN, kNaN, 1}), [](const Tensor& x) { return max(x); }, {kNaN}, {0.5, 0.5, 0});
  check_op(tensor({-kInf, -kInf}), [](const Tensor& x) { return max(x); }, {-kInf}, {0.5, 0.5});
}

TEST_CASE("argmax is the first index at ties, and NaN wins") {
  const auto at = [](const Tensor& x) { return argmax(x).item<std::int64_t>(); };
  CHECK(at(tensor({3, 8, 8, 8})) == 1);
  CHECK(at(full({20}, 7.0)) == 0);
  CHECK(at(full({5000}, 7.0)) == 0);
  CHECK(at(tensor({1, kNaN, 3, kNaN})) == 1);
  CHECK(at(tensor({-kInf, -kInf})) == 0);
  CHECK(at(tensor({{1, 2}, {5, 5}}).t()) == 1);  // row-major of the transpose: 1 5 2 5
  CHECK(argmin(tensor({1, kNaN, 0})).item<std::int64_t>() == 1);
  check_close(argmax(tensor({{2, 5, 5}, {9, 1, 9}}), 1), {1, 0});
  check_close(argmax(full({3, 5000}, -1.0), 1), {0, 0, 0});
  check_close(argmax(full({5000, 3}, -1.0), 0), {0, 0, 0});
  Tensor x = tensor({1, 2}).set_requires_grad();
  CHECK_FALSE(argmax(x).requires_grad());
  CHECK_FALSE(max(x, 0).indices.requires_grad());
  CHECK_FALSE(any(x).requires_grad());
}

TEST_CASE("sum_to undoes broadcasting, and is the tensor itself where nothing was broadcast") {
  const Tensor x = arange(0, 24, 1, f32).reshape({2, 3, 4});
  CHECK(sum_to(x, {2, 3, 4}).is_same(x));
  check_close(sum_to(x, {4}), {60, 66, 72, 78});
  check_close(sum_to(x, {3, 1}), {60, 92, 124});
  check_close(sum_to(x, {}), {276});
  check_close(sum_to(x, {1, 1, 1}), {276});
  // Of an expanded gradient: each element counts as often as it was repeated.
  check_close(sum_to(tensor({1, 2}).expand({1000, 2}), {2}), {1000, 2000});
}

TEST_CASE("Every reduction agrees with the reference loops, in any order of dimensions") {
  using kernels::Reduce;
  Generator generator(11);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(generator.below(n)); };
  for (int trial = 0; trial < 200; ++trial) {
    Shape shape;
    const int dims = 1 + static_cast<int>(below(4));
    for (int d = 0; d < dims; ++d) shape.push_back(1 + below(dims == 1 ? 200 : d == 0 ? 40 : 5));
    const DType dtype = std::array{f32, f64, bf16, i64}[static_cast<std::size_t>(trial % 4)];
    Tensor x = (rand(shape, {}, generator) * 4 - 2).to(dtype);
    x = transpose(x, static_cast<int>(below(static_cast<std::uint64_t>(dims))),
                  static_cast<int>(below(static_cast<std::uint64_t>(dims))));
    if (trial % 3 == 0) x = slice(x, 0, 0, {}, 2);
    const auto mask = static_cast<kernels::DimMask>(below(std::uint64_t{1} << dims));
    const bool keepdim = trial % 2 == 0;
    Shape out;
    for (int d = 0; d < dims; ++d)
      if (!(mask >> d & 1))
        out.push_back(x.shape()[d]);
      else if (keepdim)
        out.push_back(1);
    for (const Reduce op : {Reduce::sum, Reduce::prod, Reduce::max, Reduce::min, Reduce::any, Reduce::all}) {
      const bool truth = op == Reduce::any || op == Reduce::all;
      const Tensor in = truth ? x > 0 : x;
      Tensor got = empty(out, {.dtype = in.dtype() == boolean && !truth ? i64 : in.dtype()}), want = empty_like(got);
      kernels::reduce(op, in, mask, got);
      kernels::ref::reduce(op, in, mask, want);
      INFO("op " << static_cast<int>(op) << ", mask " << mask << ", strides " << to_string(in.strides()) << ", " << describe(in));
      check_close(got, want.to_vector<double>(), dtype == bf16 ? 0.02 : 1e-4);
    }
    const int dim = static_cast<int>(below(static_cast<std::uint64_t>(dims)));
    Shape kept = x.shape();
    kept[dim] = 1;
    Tensor values = empty(kept, {.dtype = dtype}), indices = empty(kept, {.dtype = i64}), want_values = empty_like(values),
           want_indices = empty_like(indices);
    kernels::extreme(trial % 2 == 0, x, dim, values, indices);
    kernels::ref::extreme(trial % 2 == 0, x, dim, want_values, want_indices);
    check_close(values, want_values.to_vector<double>());
    CHECK(indices.to_vector<std::int64_t>() == want_indices.to_vector<std::int64_t>());
    Tensor running = empty(x.shape(), {.dtype = dtype}), want_running = empty_like(running);
    kernels::cumsum(x, dim, running);
    kernels::ref::cumsum(x, dim, want_running);
    check_close(running, want_running.to_vector<double>(), dtype == bf16 ? 0.5 : 1e-4);
  }
}

TEST_CASE("The number of threads does not change the bits of a sum", "[threads]") {
  Generator generator(5);
  const Tensor x = randn({1'000'003}, {}, generator), rows = randn({20'001, 33}, {}, generator),
               images = randn({16, 24, 20, 20}, {}, generator);
  const int before = get_num_threads();
  const auto all_sums = [&] {
    std::vector<float> bits;
    for (const Tensor& t : {sum(x), sum(rows, {0}), sum(rows, {1}), sum(images, {0, 2, 3}),
                            sum(images.contiguous(MemoryFormat::channels_last), {0, 2, 3}), mean(images, {0}), norm(x)})
      for (const float v : t.to_vector<float>()) bits.push_back(v);
    return bits;
  };
  set_num_threads(1);
  const std::vector<float> want = all_sums();
  for (const int threads : {2, 3, 8}) {
    set_num_threads(threads);
    CHECK(all_sums() == want);
  }
  set_num_threads(before);
}

TEST_CASE("Sums of gradients do not share their elements with what they came from") {
  Tensor x = tensor({1, 2, 3}).set_requires_grad();
  sum(x).backward();
  sum(x * 2).backward();
  check_close(x.grad(), {3, 3, 3});
  x.grad().data<float>()[0] = 7;
  check_close(x.grad(), {7, 3, 3});
}
