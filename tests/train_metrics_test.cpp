#include <cmath>

#include "support.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("A running mean weights batches by their size") {
  RunningMean loss;
  CHECK(std::isnan(loss.value()));
  Tensor w = full({}, 1.0).set_requires_grad();
  loss.add(w * 2, 4);
  loss.add(full({1}, 8.0, {.dtype = f64}), 1);
  CHECK(loss.value() == Approx(3.2));
  CHECK(loss.count() == 5);
  CHECK_THROWS_AS(loss.add(ones({2}), 2), ShapeError);
  CHECK_THROWS_AS(loss.add(ones({}), 0), ValueError);
  CHECK(loss.value() == Approx(3.2));
  loss.reset();
  CHECK(loss.count() == 0);
}

TEST_CASE("Accuracy counts over uneven batches, and ties go to the first class") {
  Accuracy accuracy;
  CHECK(std::isnan(accuracy.value()));
  accuracy.add(tensor({{1, 2}, {2, 1}, {0, 3}}), tensor<std::int64_t>({1, 0, 0}));
  accuracy.add(tensor({{5, 5}}), tensor<std::int64_t>({0}));
  CHECK(accuracy.count() == 4);
  CHECK(accuracy.value() == Approx(0.75));
  accuracy.add(zeros({0, 2}), zeros({0}, {.dtype = i64}));
  CHECK(accuracy.count() == 4);
  accuracy.add(zeros({1000, 10}), zeros({1000}, {.dtype = i64}) + 3);  // a dead network is right about class 0 only
  CHECK(accuracy.value() == Approx(3.0 / 1004));
  CHECK_THROWS_AS(accuracy.add(zeros({2, 3}), zeros({3}, {.dtype = i64})), ShapeError);
  CHECK_THROWS_AS(accuracy.add(zeros({2, 3}), zeros({2})), DTypeError);
}

TEST_CASE("A confusion matrix counts labels by rows and predictions by columns") {
  ConfusionMatrix matrix(3);
  CHECK(std::isnan(matrix.accuracy()));
  matrix.add(tensor({{9, 0, 0}, {0, 9, 0}, {9, 0, 0}}), tensor<std::int64_t>({0, 0, 0}));
  matrix.add(tensor({{0, 9, 0}}), tensor<std::int64_t>({1}));
  CHECK(matrix.counts().to_vector<int>() == std::vector<int>{2, 1, 0, 0, 1, 0, 0, 0, 0});
  CHECK(matrix.accuracy() == Approx(0.75));
  const std::vector<double> each = matrix.per_class_accuracy();
  CHECK(each[0] == Approx(2.0 / 3));
  CHECK(each[1] == 1);
  CHECK(std::isnan(each[2]));
  CHECK(per_class_table(matrix, {"cat", "aeroplane", "élan"}) ==
        "class      accuracy  samples\n"
        "cat          0.6667        3\n"
        "aeroplane    1.0000        1\n"
        "élan              -        0\n");
  CHECK_THROWS_AS(matrix.add(zeros({1, 3}), tensor<std::int64_t>({3})), IndexError);
  CHECK_THROWS_AS(matrix.add(zeros({1, 3}), tensor<std::int64_t>({-1})), IndexError);
  CHECK_THROWS_AS(matrix.add(zeros({1, 2}), tensor<std::int64_t>({0})), ShapeError);
  CHECK(matrix.accuracy() == Approx(0.75));
  CHECK_THROWS_AS(per_class_table(matrix, {"one"}), ValueError);
  CHECK_THROWS_AS(ConfusionMatrix(0), ValueError);
  matrix.reset();
  CHECK(matrix.counts().to_vector<int>() == std::vector<int>(9, 0));
}
