#include <algorithm>
#include <map>
#include <set>

#include "catch.h"
#include "data_support.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/ops.h"
#include "spool/data/dataset.h"
#include "spool/data/shuffle.h"

using namespace spool;
using namespace spool::test;

namespace {
ImageDataset small_images(std::int64_t n) {
  std::vector<std::int64_t> pixels, labels;
  for (std::int64_t i = 0; i < n * 3 * 2 * 2; ++i) pixels.push_back(i % 256);
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(i % 2);
  return ImageDataset(tensor(pixels, {n, 3, 2, 2}, DType::u8), tensor(labels, {n}), {"even", "odd"});
}
}  // namespace

TEST_CASE("A tensor data set gives back rows of its tensors, in their types") {
  const Tensor x = tensor({{1, 2}, {3, 4}, {5, 6}}), y = tensor({{0.5}, {1.5}, {2.5}}, {.dtype = DType::f64});
  const TensorDataset data(x, y);
  REQUIRE(data.size() == 3);
  REQUIRE(data.class_names().empty());
  const auto [input, target] = data.get(2);
  CHECK(input.shape() == Shape{2});
  CHECK(input.to_vector<float>() == std::vector<float>{5, 6});
  CHECK(target.dtype() == DType::f64);
  CHECK(target.to_vector<double>() == std::vector<double>{2.5});
  CHECK(mentions(message_of<IndexError>([&] { data.get(3); }), {"3", "has 3"}));
  CHECK_THROWS_AS(data.get(-1), IndexError);
}

TEST_CASE("A tensor data set takes rows that are not contiguous, and keeps channels-last ones as they are") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}).t();  // [3, 2]
  const TensorDataset transposed(x, tensor(std::vector<std::int64_t>{0, 1, 2}));
  CHECK(transposed.get(1).inputs.to_vector<float>() == std::vector<float>{2, 5});
  const Tensor images = arange(2 * 3 * 2 * 2).reshape({2, 3, 2, 2}).contiguous(MemoryFormat::channels_last);
  const TensorDataset last(images, tensor(std::vector<std::int64_t>{0, 1}));
  CHECK(last.spec().input_format == MemoryFormat::channels_last);
  CHECK(last.get(1).inputs.to_vector<std::int64_t>() == images.select(0, 1).to_vector<std::int64_t>());
}

TEST_CASE("A tensor data set refuses tensors that do not fit together") {
  CHECK(mentions(message_of<ShapeError>([] { TensorDataset(zeros({3, 2}), zeros({4})); }), {"3 inputs but 4 targets", "[3, 2]"}));
  CHECK_THROWS_AS(TensorDataset(scalar_tensor(1), zeros({1})), ShapeError);
}

TEST_CASE("An image data set holds u8 pictures channels-last and checks its labels") {
  const ImageDataset data = small_images(3);
  CHECK(data.images().is_contiguous(MemoryFormat::channels_last));
  CHECK(data.spec().is_picture());
  const auto [image, label] = data.get(1);
  CHECK(image.shape() == Shape{3, 2, 2});
  CHECK(image.to_vector<int>() == std::vector<int>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  CHECK(label.item<std::int64_t>() == 1);
  CHECK(mentions(message_of<IndexError>([] {
                   ImageDataset(zeros({2, 3, 2, 2}, {.dtype = DType::u8}), tensor(std::vector<std::int64_t>{0, 2}), {"a", "b"});
                 }),
                 {"label 2 of image 1", "0 to 1"}));
  CHECK_THROWS_AS(ImageDataset(zeros({1, 3, 2, 2}, {.dtype = DType::u8}), tensor(std::vector<std::int64_t>{-1})), IndexError);
  CHECK_THROWS_AS(ImageDataset(zeros({1, 3, 2, 2}), tensor(std::vector<std::int64_t>{0})), DTypeError);
  CHECK_THROWS_AS(ImageDataset(zeros({3, 2, 2}, {.dtype = DType::u8}), tensor(std::vector<std::int64_t>{0})), ShapeError);
}

TEST_CASE("A subset picks by index, also of a subset, and names an index that is not there") {
  const ImageDataset data = small_images(5);
  const Subset some(data, {4, 1, 1});
  REQUIRE(some.size() == 3);
  CHECK(some.class_names() == data.class_names());
  CHECK(some.get(0).inputs.to_vector<int>() == data.get(4).inputs.to_vector<int>());
  const Subset inner(Subset(data, {3, 2}), {1});  // a temporary moves in
  CHECK(inner.get(0).inputs.to_vector<int>() == data.get(2).inputs.to_vector<int>());
  CHECK(mentions(message_of<IndexError>([&] { Subset(data, {0, 5}); }), {"index 5", "position 1", "has 5"}));
}

TEST_CASE("A random split is a partition that depends on the seed alone") {
  const ImageDataset data = small_images(103);
  const auto parts = random_split(data, {80, 23}, 7);
  std::set<std::int64_t> seen;
  for (const Subset& part : parts) seen.insert(part.indices().begin(), part.indices().end());
  CHECK(seen.size() == 103);
  CHECK(parts[0].size() == 80);
  CHECK(!std::is_sorted(parts[0].indices().begin(), parts[0].indices().end()));
  CHECK(random_split(data, {80, 23}, 7)[1].indices() == parts[1].indices());
  CHECK(random_split(data, {80, 23}, 8)[1].indices() != parts[1].indices());
  const auto fractions = random_split(data, {0.5, 0.3, 0.2});
  CHECK(fractions[0].size() == 52);  // 51.5, 30.9, 20.6: floors and two left over
  CHECK(fractions[1].size() == 31);
  CHECK(fractions[2].size() == 20);
  CHECK(mentions(message_of<ValueError>([&] { random_split(data, {80, 20}); }), {"100", "103"}));
  CHECK_THROWS_AS(random_split(data, {0.5, 0.6}), ValueError);
  CHECK_THROWS_AS(random_split(data, {104, -1}), ValueError);
}

TEST_CASE("Shuffled indices are permutations, one for each seed and stream, all of them equally likely") {
  auto order = shuffled_indices(1000, 3, 5);
  CHECK(order == shuffled_indices(1000, 3, 5));
  CHECK(order != shuffled_indices(1000, 3, 6));
  CHECK(order != shuffled_indices(1000, 4, 5));
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 1000; ++i) REQUIRE(order[static_cast<std::size_t>(i)] == i);
  CHECK(shuffled_indices(0, 1, 1).empty());
  std::map<std::vector<std::int64_t>, int> count;
  for (std::uint64_t stream = 0; stream < 6000; ++stream) ++count[shuffled_indices(3, 1, stream)];
  REQUIRE(count.size() == 6);
  for (const auto& [permutation, n] : count) CHECK(std::abs(n - 1000) < 150);
}

TEST_CASE("load_images reads pictures of any data set into memory, and refuses other inputs") {
  const ImageDataset data = small_images(5);
  const Subset reversed(data, {4, 3, 2, 1, 0});
  const ImageDataset loaded = load_images(reversed);
  CHECK(loaded.class_names() == data.class_names());
  CHECK(loaded.labels().to_vector<int>() == std::vector<int>{0, 1, 0, 1, 0});
  CHECK(loaded.get(0).inputs.to_vector<int>() == data.get(4).inputs.to_vector<int>());
  CHECK_THROWS_AS(load_images(TensorDataset(zeros({2, 2}), zeros({2}))), DTypeError);
}

TEST_CASE("An example asked for in another type than the data set's is refused") {
  float input[2];
  std::int64_t target = 0;
  const Example example({.input = {2}}, input, &target);
  CHECK(example.input<float>().size() == 2);
  CHECK(example.target<std::int64_t>().size() == 1);
  CHECK(mentions(message_of<DTypeError>([&] { example.input<double>(); }), {"f32", "f64"}));
}
