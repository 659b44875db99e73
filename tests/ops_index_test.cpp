// Taking and adding by index, and sorting, against PyTorch's results and by brute force.
#include <cmath>

#include "spool/kernels/index.h"
#include "spool/kernels/ref/index.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

const double kNaN = std::nan("");

Tensor indices(const std::vector<std::int64_t>& values, const Shape& shape) { return tensor(values, shape); }
Tensor indices(const std::vector<std::int64_t>& values) { return tensor(values); }

}  // namespace

TEST_CASE("Repeated indices add their gradients up") {
  Tensor x = tensor({1, 2, 3}).set_requires_grad();
  index_select(x, 0, indices({0, 0, 2})).backward(tensor({0.25, 0.5, 2}));
  check_close(x.grad(), {0.75, 0, 2});

  Tensor y = tensor({1, 2, 3}).set_requires_grad();
  gather(y, 0, indices({1, 1, 1, 1})).sum().backward();
  check_close(y.grad(), {0, 4, 0});

  Tensor table = tensor({{1, 2}, {3, 4}}).set_requires_grad();
  (embedding(indices({1, 1, 0}), table) * tensor({{1}, {10}, {100}})).sum().backward();
  check_close(table.grad(), {100, 100, 11, 11});
}

TEST_CASE("Indexing picks what PyTorch picks") {
  const Tensor x = reshape(arange(0, 12, 1, f32), {3, 4});
  check_close(index_select(x, 0, indices({2, 0})), {8, 9, 10, 11, 0, 1, 2, 3});
  check_close(index_select(x, -1, indices({3, 3, 0})), {3, 3, 0, 7, 7, 4, 11, 11, 8});
  check_close(gather(x, 1, indices({3, 0, 1}, {3, 1})), {3, 4, 9});
  check_close(gather(x, 0, indices({2, 1, 0, 0}, {1, 4})), {8, 5, 2, 3});
  check_close(scatter_add(zeros({3, 4}), 0, indices({0, 2, 2, 0, 0, 0, 2, 1}, {2, 4}), x.narrow(0, 0, 2)),
              {4, 5, 0, 3, 0, 0, 0, 7, 0, 1, 8, 0});
  check_close(scatter_add(zeros({2}, {.dtype = i64}), 0, indices({1, 1, 0}), indices({5, 6, 7})), {7, 11});
  CHECK(embedding(indices({1, 2, 0, 1}, {2, 2}), x).shape() == Shape{2, 2, 4});
  check_close(embedding(indices({2}, {}), x), {8, 9, 10, 11});
  CHECK(index_select(x, 0, indices({}, {0})).shape() == Shape{0, 4});
  check_close(one_hot(indices({1, 0, 2})), {0, 1, 0, 1, 0, 0, 0, 0, 1});
  CHECK(one_hot(indices({1, 0}), 5).shape() == Shape{2, 5});
  CHECK(one_hot(indices({1, 0}), 5).dtype() == i64);
  CHECK(one_hot(indices({}, {0}), 3).shape() == Shape{0, 3});
}

TEST_CASE("An index out of range is named before anything is read or written") {
  const Tensor x = zeros({3, 4});
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 62, -(std::int64_t{1} << 62)}) {
    const auto message = message_of<IndexError>([&] { index_select(x, 0, indices({0, 1, bad, 0})); });
    CHECK(contains(message, "index " + std::to_string(bad)));
    CHECK(contains(message, "position [2]"));
    CHECK(contains(message, "0 to 2"));
    CHECK_THROWS_AS(gather(x, 0, indices({bad}, {1, 1})), IndexError);
    CHECK_THROWS_AS(scatter_add(x, 0, indices({bad}, {1, 1}), ones({1, 1})), IndexError);
    CHECK_THROWS_AS(embedding(indices({bad}), x), IndexError);
  }
  check_close(x, std::vector<double>(12, 0));
}

TEST_CASE("Many narrow rows are gathered like few") {
  Generator generator(3);
  const Tensor x = rand({70000, 4}, {}, generator), index = randint(0, 4, {70000, 2}, {.dtype = i64}, generator);
  const std::vector<float> values = x.to_vector<float>(), got = gather(x, 1, index).to_vector<float>();
  const std::vector<std::int64_t> at = index.to_vector<std::int64_t>();
  bool same = true;
  for (std::size_t i = 0; i < got.size(); ++i) same = same && got[i] == values[i / 2 * 4 + static_cast<std::size_t>(at[i])];
  CHECK(same);
}

TEST_CASE("Gathering and adding agree with the reference loops, in any order of dimensions") {
  Generator generator(21);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(n))); };
  for (int trial = 0; trial < 200; ++trial) {
    const int dims = 1 + static_cast<int>(below(4)), dim = static_cast<int>(below(dims));
    Shape shape, moved;
    for (int d = 0; d < dims; ++d) {
      shape.push_back(1 + below(7));
      moved.push_back(d == dim ? below(9) : 1 + below(shape[d]));
    }
    const DType dtype = std::array{f32, f64, bf16, i64, u8}[static_cast<std::size_t>(trial % 5)];
    const int a = static_cast<int>(below(dims)), b = static_cast<int>(below(dims));
    const auto shuffled = [&](const Shape& s, DType t, std::int64_t high) {
      Shape swapped = s;
      std::swap(swapped[a], swapped[b]);
      return transpose(randint(0, high, swapped, {.dtype = t}, generator), a, b);
    };
    const Tensor x = shuffled(shape, dtype, 50), index = shuffled(moved, i64, shape[dim]), source = shuffled(moved, dtype, 5);
    Tensor got = empty(moved, {.dtype = dtype}), want = empty(moved, {.dtype = dtype});
    kernels::gather(x, dim, index, got);
    kernels::ref::gather(x, dim, index, want);
    CHECK(got.to_vector<double>() == want.to_vector<double>());
    Tensor sums = x.clone(), want_sums = x.clone();
    kernels::scatter_add(source, dim, index, sums);
    kernels::ref::scatter_add(source, dim, index, want_sums);
    CHECK(sums.to_vector<double>() == want_sums.to_vector<double>());
    const std::int64_t k = below(shape[dim] + 1);
    Shape first = shape;
    first[dim] = k;
    Tensor values = empty(first, {.dtype = dtype}), places = empty(first, {.dtype = i64}), want_values = empty_like(values),
           want_places = empty_like(places);
    kernels::sort(x, dim, trial % 2 == 0, values, places);
    kernels::ref::sort(x, dim, trial % 2 == 0, want_values, want_places);
    CHECK(values.to_vector<double>() == want_values.to_vector<double>());
    CHECK(places.to_vector<std::int64_t>() == want_places.to_vector<std::int64_t>());
  }
}

TEST_CASE("Adding at repeated indices gives the same bits with any number of threads", "[threads]") {
  Generator generator(4);
  const Tensor index = randint(0, 50, {5000}, {.dtype = i64}, generator), grads = randn({5000, 64}, {}, generator);
  Tensor weight = randn({50, 64}, {}, generator).set_requires_grad();
  const int before = get_num_threads();
  const auto gradient = [&] {
    weight.set_grad({});
    embedding(index, weight).backward(grads);
    return weight.grad().to_vector<float>();
  };
  set_num_threads(1);
  const std::vector<float> want = gradient();
  for (const int threads : {2, 5}) {
    set_num_threads(threads);
    CHECK(gradient() == want);
  }
  set_num_threads(before);
}

TEST_CASE("Sorting is stable and puts NaN at the large end") {
  const Tensor x = tensor({3, kNaN, 1, kNaN, 3});
  const Sorted up = sort(x), down = sort(x, 0, true);
  check_close(up.values, {1, 3, 3, kNaN, kNaN});
  check_close(up.indices, {2, 0, 4, 1, 3});
  check_close(down.values, {kNaN, kNaN, 3, 3, 1});
  check_close(down.indices, {1, 3, 0, 4, 2});
  check_close(topk(x, 3).values, {kNaN, kNaN, 3});
  check_close(topk(x, 2, 0, false).values, {1, 3});
  CHECK(topk(x, 0).values.numel() == 0);
  check_close(sort(tensor({{3, 1}, {2, 5}}), 0).indices, {1, 0, 0, 1});
  check_close(sort(tensor({3, 1, 2}, {.dtype = i64}), 0, true).values, {3, 2, 1});
  check_close(sort(full({1000}, 2.0)).indices, arange(1000).to_vector<double>());
}

TEST_CASE("The values of sort and topk lead back to where they were") {
  Tensor x = tensor({3, 1, 2}).set_requires_grad();
  (sort(x).values * tensor({1, 10, 100})).sum().backward();
  check_close(x.grad(), {100, 1, 10});
  x.set_grad({});
  (topk(x, 2).values * tensor({1, 10})).sum().backward();
  check_close(x.grad(), {1, 0, 10});
  CHECK_FALSE(sort(x).indices.requires_grad());
}
