// Softmax, cross-entropy and negative log-likelihood: extreme logits, labels, and numbers of PyTorch's.
#include <cmath>
#include <limits>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

Tensor logits(std::vector<double> values, std::int64_t rows, DType type) {
  Tensor x = tensor(values, {rows, static_cast<std::int64_t>(values.size()) / rows}, type);
  return x.set_requires_grad();
}
Tensor labels(std::vector<std::int64_t> values) { return tensor(values); }

}  // namespace

TEST_CASE("Cross-entropy of huge finite logits is finite and exact") {
  for (const DType type : {f32, f64}) {
    const std::vector<std::vector<double>> gradients = {{0, 0, 0}, {1, -1, 0}, {1, 0, -1}};
    for (std::int64_t t = 0; t < 3; ++t) {
      const Tensor x = logits({1000, 0, -1000}, 1, type), loss = cross_entropy(x, labels({t}));
      CHECK(loss.item<double>() == 1000.0 * static_cast<double>(t));
      loss.backward();
      check_close(x.grad(), gradients[static_cast<std::size_t>(t)], 0);
    }
    const Tensor x = logits({1e30, 0, -1e30}, 1, type), loss = cross_entropy(x, labels({1}));
    CHECK(loss.item<double>() == Approx(1e30));
    loss.backward();
    check_close(x.grad(), {1, -1, 0}, 0);
    check_close(log_softmax(logits({1000, 999, -1000}, 1, type), 1), {-0.3132617, -1.3132616, -2000.3132}, 1e-5);
  }
}

TEST_CASE("A masked logit has probability zero and a gradient of exactly zero") {
  for (const DType type : {f32, f64}) {
    const Tensor x = logits({-kInfinity, 1, 3}, 1, type), loss = cross_entropy(x, labels({2}));
    CHECK(loss.item<double>() == Approx(0.1269280));
    loss.backward();
    check_close(x.grad(), {0, 0.1192029, -0.1192029});
    CHECK(x.grad().to_vector<double>()[0] == 0);
    // As the target it costs infinity.
    const Tensor bad = logits({-kInfinity, 1, 3}, 1, type), infinite = cross_entropy(bad, labels({0}));
    CHECK(infinite.item<double>() == kInfinity);
    infinite.backward();
    check_close(bad.grad(), {-1, 0.1192029, 0.8807970});
  }
}

TEST_CASE("Rows of minus infinity, NaN or infinity are NaN throughout, and their neighbours untouched") {
  for (const DType type : {f32, f64, bf16}) {
    const Tensor x = logits({-kInfinity, -kInfinity, -kInfinity, 0, 1, 2, kNan, kInfinity, -kInfinity, kInfinity, 0, 0}, 4, type);
    const double margin = type == bf16 ? 1e-2 : 1e-6;
    check_close(softmax(x, 1), {kNan, kNan, kNan, 0.0900306, 0.2447285, 0.6652409, kNan, kNan, kNan, kNan, kNan, kNan}, margin);
    check_close(log_softmax(x, 1), {kNan, kNan, kNan, -2.4076059, -1.4076059, -0.4076059, kNan, kNan, kNan, kNan, kNan, kNan},
                margin);
    // The same along columns.
    const Tensor columns = softmax(x.detach().t().contiguous(), 0);
    check_close(columns.select(1, 1), {0.0900306, 0.2447285, 0.6652409}, margin);
    check_close(columns.select(1, 0), {kNan, kNan, kNan});
  }
}

TEST_CASE("A masked logit among finite ones has probability zero") {
  check_close(softmax(tensor({{-kInfinity, 0, 0}}), 1), {0, 0.5, 0.5}, 0);
  check_close(softmax(tensor({{-200, 0, 0}}), 1), {0, 0.5, 0.5}, 1e-30);
  const auto logs = log_softmax(tensor({{-kInfinity, 0, 0}}), 1).to_vector<double>();
  CHECK(logs[0] == -kInfinity);
  CHECK(logs[1] == Approx(-std::log(2)));
}

TEST_CASE("Softmax of constant rows is one over their width, for any width and many rows") {
  for (const std::int64_t width : {1, 3, 31, 32, 33, 1000, 1025, 5000}) {
    const Tensor y = softmax(full({3, width}, 7.5), 1);
    CHECK(max(abs(y * static_cast<double>(width) - 1)).item() <= 1e-5F);
  }
  Generator generator(8);
  const Tensor x = randn({70000, 4}, {}, generator), sums = sum(softmax(x, 1), {1});
  CHECK(max(abs(sums - 1)).item() <= 1e-6F);
}

TEST_CASE("The mean counts only targets that are not ignored") {
  for (const DType type : {f32, f64}) {
    const auto run = [&](std::vector<std::int64_t> t, Reduction reduction) {
      const Tensor x = logits({1, 2, 3, 3, 2, 1}, 2, type), loss = cross_entropy(x, labels(t), {.reduction = reduction});
      sum(loss).backward();
      return std::pair(loss, x.grad());
    };
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const auto [loss, gradient] = run({-100, -100}, reduction);
      if (reduction == Reduction::mean)
        CHECK(std::isnan(loss.item<double>()));
      else
        check_close(loss, std::vector<double>(reduction == Reduction::none ? 2 : 1, 0.0), 0);
      check_close(gradient, {0, 0, 0, 0, 0, 0}, 0);
      const auto [half, half_gradient] = run({-100, 0}, reduction);
      check_close(half, reduction == Reduction::none ? std::vector<double>{0, 0.4076059} : std::vector<double>{0.4076059});
      check_close(half_gradient, {0, 0, 0, -0.3347590, 0.2447285, 0.0900306});
    }
  }
}

TEST_CASE("Class weights and label smoothing are PyTorch's") {
  const Tensor weight = tensor(std::vector<float>{0.5F, 2, 1.25F}, {3});
  for (const DType type : {f32, f64}) {
    const auto run = [&](Reduction reduction) {
      Tensor x = (sin(reshape(arange(0, 12, 1, f64) * 1.3, {4, 3})) * 2).to(type).detach();
      x.set_requires_grad();
      const Tensor loss =
          cross_entropy(x, labels({0, -100, 2, 1}), {.weight = weight, .reduction = reduction, .label_smoothing = 0.2});
      sum(loss).backward();
      return std::pair(loss, x.grad());
    };
    const std::vector<double> gradient = {-0.3724351, 0.2850174, 0.0874177,  0,         0,          0,
                                          0.9410476,  0.1170298, -1.0580774, 0.0080817, -1.2928177, 1.284736};
    const auto [mean_loss, mean_gradient] = run(Reduction::mean);
    check_close(mean_loss, {2.2093309}, 1e-6);
    check_close(mean_gradient,
                {-0.099316, 0.0760046, 0.0233114, 0, 0, 0, 0.250946, 0.0312079, -0.282154, 0.0021551, -0.3447514, 0.3425963},
                1e-6);
    const auto [total, total_gradient] = run(Reduction::sum);
    check_close(total, {8.2849910}, 1e-6);
    check_close(total_gradient, gradient, 1e-6);
    const auto [each, each_gradient] = run(Reduction::none);
    check_close(each, {1.1961838, 0, 4.4496906, 2.6391167}, 1e-6);
    check_close(each_gradient, gradient, 1e-6);
  }
}

TEST_CASE("A label outside of the classes is named with its place, before anything is read") {
  for (const std::int64_t bad : {-1, 3, -4})
    for (const Reduction reduction : {Reduction::mean, Reduction::none}) {
      const std::string message = message_of<IndexError>([&] {
        cross_entropy(zeros({1, 3}), labels({bad}), {.reduction = reduction});
      });
      CHECK(contains(message, "label " + std::to_string(bad) + " at position [0]"));
      CHECK(contains(message, "0 to 2"));
    }
  // The ignored label may be any number, with every reduction.
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    CHECK_NOTHROW(cross_entropy(zeros({2, 3}), labels({255, 1}), {.ignore_index = 255, .reduction = reduction}));
}

TEST_CASE("Cross-entropy is the negative log-likelihood of log_softmax, for images too") {
  Generator generator(12);
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const Tensor x = randn({2, 5, 3, 4}, {}, generator).contiguous(format),
                 t = randint(0, 5, {2, 3, 4}, {.dtype = i64}, generator);
    const Tensor a = cross_entropy(x, t, {.reduction = Reduction::none}),
                 b = nll_loss(log_softmax(x, 1), t, {.reduction = Reduction::none});
    REQUIRE(a.shape() == Shape{2, 3, 4});
    check_close(a, b.to_vector<double>(), 1e-5);
  }
}

TEST_CASE("Labels overwritten before the backward pass are noticed") {
  const Tensor x = logits({1, 2, 3}, 1, f32);
  Tensor t = labels({1});
  const Tensor loss = cross_entropy(x, t);
  t.fill_(0);
  CHECK_THROWS_AS(loss.backward(), GradError);
}
