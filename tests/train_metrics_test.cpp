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

TEST_CASE("A label counts for top-k when it is among the k largest logits") {
  TopK top2(2);
  CHECK(top2.name() == "top2");
  top2.add(tensor({{3, 2, 1}, {3, 2, 1}, {1, 2, 3}}), tensor<std::int64_t>({1, 2, 2}));
  top2.add(tensor({{0, 9, 8}}), tensor<std::int64_t>({0}));
  CHECK(top2.count() == 4);
  CHECK(top2.value() == Approx(0.5));
  const std::string text = message_of<ShapeError>([&] { TopK(4).add(zeros({1, 3}), zeros({1}, {.dtype = i64})); });
  CHECK(contains(text, "the 4 largest of 3 logits"));
  CHECK_THROWS_AS(TopK(0), ValueError);
}

TEST_CASE("Balanced accuracy counts every class that occurred the same") {
  ConfusionMatrix matrix(3);
  CHECK(std::isnan(matrix.value()));
  matrix.add(tensor({{9, 0, 0}, {9, 0, 0}, {9, 0, 0}, {9, 0, 0}}), tensor<std::int64_t>({0, 0, 0, 1}));
  CHECK(matrix.accuracy() == Approx(0.75));
  CHECK(matrix.value() == Approx(0.5));
}

TEST_CASE("Every metric goes on from its saved state, and refuses that of another") {
  const Tensor first = tensor({{1, 2, 3}, {3, 2, 1}}), second = tensor({{5, 1, 2}});
  const Tensor first_labels = tensor<std::int64_t>({2, 2}), second_labels = tensor<std::int64_t>({0});
  const std::vector<AnyMetric> kinds{Accuracy(), TopK(2), ConfusionMatrix(3),
                                     MeanMetric("mean", [](const Tensor& y, const Tensor&) { return mean(y); })};
  for (const AnyMetric& kind : kinds) {
    INFO(kind->name());
    AnyMetric whole = kind, part = kind, rest = kind;
    whole->add(first, first_labels);
    part->add(first, first_labels);
    rest->load_state_dict(part->state_dict());
    whole->add(second, second_labels);
    rest->add(second, second_labels);
    CHECK(rest->value() == whole->value());
    CHECK(part->value() != whole->value());  // what was saved is not what went on
    CHECK(std::isnan(kind->value()));        // copies are their own
    AnyMetric empty = kind;
    empty->load_state_dict(kind->state_dict());
    CHECK(std::isnan(empty->value()));
    CHECK_THROWS_AS(empty->load_state_dict({{"other", ones({1})}}), ValueError);
  }
  CHECK_THROWS_AS(ConfusionMatrix(4).load_state_dict(ConfusionMatrix(3).state_dict()), ValueError);
}
