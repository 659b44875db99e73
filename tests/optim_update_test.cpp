// The update formulas, against what PyTorch computes in f64.
#include <functional>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

const std::vector<std::vector<double>> kGradients{{0.5, -1.0, 2.0}, {0.1, 0.3, -0.7}, {-0.4, 0.0, 1.5}, {1.0, 1.0, -1.0}};

Tensor parameter(const std::vector<double>& values, DType dtype = f64) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, dtype).set_requires_grad();
}

// The weight after four steps with these gradients.
template <class Optimizer>
Tensor trained(typename Optimizer::Options options, DType dtype = f64) {
  Tensor w = parameter({1.0, -2.0, 0.5}, dtype);
  Optimizer optimizer({w}, options);
  for (const auto& g : kGradients) {
    w.set_grad(tensor(g, {3}, dtype));
    optimizer.step();
  }
  return w.detach();
}

}  // namespace

TEST_CASE("SGD computes what PyTorch's does") {
  check_close(trained<SGD>({.lr = 0.1}), {0.88, -2.03, 0.32}, 1e-12);
  check_close(trained<SGD>({.lr = 0.1, .weight_decay = 0.05}), {0.86079550687499995, -1.9914922637499999, 0.31311152531249997},
              1e-12);
  check_close(trained<SGD>({.lr = 0.1, .momentum = 0.9}), {0.77694999999999992, -1.8373999999999997, -0.18310000000000007},
              1e-12);
  check_close(trained<SGD>({.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05}),
              {0.75723820835812494, -1.7126573454662497, -0.19679333956781256}, 1e-12);
  check_close(trained<SGD>({.lr = 0.1, .momentum = 0.9, .nesterov = true}),
              {0.67925499999999994, -1.8836600000000001, -0.29479000000000011}, 1e-12);
}

TEST_CASE("Adam and AdamW compute what PyTorch's do") {
  check_close(trained<Adam>({.lr = 0.1}), {0.75737183277468323, -1.8448195533113763, 0.27409718876267603}, 1e-12);
  check_close(trained<Adam>({.lr = 0.1, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.1}),
              {0.7286809567966307, -1.7983171604639838, 0.27960900016715534}, 1e-12);
  check_close(trained<Adam>({.lr = 0.1, .betas = {0.8, 0.95}, .amsgrad = true}),
              {0.76678517420439529, -1.8666799721344294, 0.28606729371416284}, 1e-12);
  check_close(trained<AdamW>({.lr = 0.1, .weight_decay = 0.1}), {0.72262969361829099, -1.7701638201630159, 0.25874744910828212},
              1e-12);
  check_close(trained<AdamW>({}), {0.99753376592517529, -1.9983682385970167, 0.4977210160474867}, 1e-12);
}

TEST_CASE("f32 and bf16 follow f64 to their precision") {
  const std::vector<double> adam = trained<Adam>({.lr = 0.1, .weight_decay = 0.1}).to_vector<double>();
  const std::vector<double> sgd = trained<SGD>({.lr = 0.1, .momentum = 0.9, .nesterov = true}).to_vector<double>();
  check_close(trained<Adam>({.lr = 0.1, .weight_decay = 0.1}, f32), adam, 2e-6);
  check_close(trained<SGD>({.lr = 0.1, .momentum = 0.9, .nesterov = true}, f32), sgd, 2e-6);
  check_close(trained<Adam>({.lr = 0.1, .weight_decay = 0.1}, bf16), adam, 2e-2);
  check_close(trained<SGD>({.lr = 0.1, .momentum = 0.9, .nesterov = true}, bf16), sgd, 2e-2);
}

TEST_CASE("L2 decay goes through Adam's moments, AdamW's decay does not") {
  const auto after = [](auto make, double gradient) {
    Tensor w = parameter({1.0});
    auto optimizer = make(w);
    std::vector<double> values;
    for (int i = 0; i < 2; ++i) {
      w.set_grad(full({1}, gradient, {.dtype = f64}));
      optimizer->step();
      values.push_back(w.item<double>());
    }
    return values;
  };
  const auto adam = [](Tensor& w) {
    return std::make_unique<Adam>(std::vector<Tensor>{w}, AdamOptions{.lr = 0.1, .weight_decay = 0.1});
  };
  const auto adamw = [](Tensor& w) {
    return std::make_unique<AdamW>(std::vector<Tensor>{w}, AdamWOptions{.lr = 0.1, .weight_decay = 0.1});
  };
  CHECK(after(adam, 0.5)[1] == Approx(0.8000473).margin(1e-7));
  CHECK(after(adam, 0.0)[1] == Approx(0.8004122).margin(1e-7));
  CHECK(after(adamw, 0.5)[0] == Approx(0.89).margin(1e-7));
  CHECK(after(adamw, 0.5)[1] == Approx(0.7811).margin(1e-7));
  CHECK(after(adamw, 0.0)[1] == Approx(0.9801).margin(1e-9));
}

TEST_CASE("The norm is clipped over all parameters together, in the step as by the free function") {
  const auto run = [](auto make, bool in_step) {
    Tensor w = parameter({1.0, -2.0, 0.5}), v = parameter({3.0});
    auto optimizer = make(std::vector<Tensor>{w, v}, in_step);
    double norm = 0;
    for (const auto& g : kGradients) {
      w.set_grad(tensor(g, {3}, f64));
      v.set_grad(full({1}, 2 * g[0], {.dtype = f64}));
      if (!in_step) norm = clip_grad_norm_({w, v}, 1.0).template item<double>();
      optimizer->step();
      if (in_step) norm = optimizer->last_grad_norm().template item<double>();
    }
    std::vector<double> out = w.to_vector<double>();
    out.push_back(v.item<double>());
    out.push_back(norm);
    return out;
  };
  const auto adam = [](std::vector<Tensor> p, bool clip) {
    AdamOptions options{.lr = 0.1};
    if (clip) options.clip_norm = 1.0;
    return std::make_unique<Adam>(std::move(p), options);
  };
  const auto sgd = [](std::vector<Tensor> p, bool clip) {
    SgdOptions options{.lr = 0.1, .momentum = 0.9};
    if (clip) options.clip_norm = 1.0;
    return std::make_unique<SGD>(std::move(p), options);
  };
  for (const bool in_step : {false, true}) {
    const auto check = [](const std::vector<double>& got, const std::vector<double>& want) {
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-10));
    };
    check(run(adam, in_step),
          {0.75540821940488345, -1.914725715132376, 0.34072142424293617, 2.7554082128882613, 2.6457513110645907});
    check(run(sgd, in_step),
          {0.9098410429866105, -1.9815364880391917, 0.28918611122628674, 2.8196820859732212, 2.6457513110645907});
  }
}

TEST_CASE("Gradient norms of other orders, and values clamped") {
  Tensor w = parameter({0, 0, 0}), idle = parameter({1});
  const auto with = [&](double type) {
    w.set_grad(tensor<double>({3, -4, 12}, {3}, f64));
    return clip_grad_norm_({w, idle}, 6.5, {.norm_type = type}).item<double>();
  };
  CHECK(with(2) == Approx(13));
  check_close(w.grad(), {1.5, -2, 6}, 1e-5);
  CHECK(with(1) == Approx(19));
  CHECK(with(HUGE_VAL) == Approx(12));
  CHECK(with(3) == Approx(std::cbrt(27.0 + 64 + 1728)));
  w.set_grad(tensor<double>({3, -4, 0.5}, {3}, f64));
  clip_grad_value_({w, idle}, 1);
  CHECK(w.grad().to_vector<double>() == std::vector<double>{1, -1, 0.5});
  CHECK(clip_grad_norm_({idle}, 1).item<double>() == 0);
  CHECK_THROWS_AS(clip_grad_norm_({w}, -1), ValueError);
  CHECK_THROWS_AS(clip_grad_norm_({w}, 1, {.norm_type = 0}), ValueError);
  CHECK_THROWS_AS(clip_grad_value_({w}, -1), ValueError);

  w.set_grad(tensor<double>({3, -4, 0.5}, {3}, f64));
  SGD sgd({w}, {.lr = 1, .clip_value = 1});
  sgd.step();
  CHECK(w.to_vector<double>() == std::vector<double>{-1, 1, -0.5});
  CHECK(w.grad().to_vector<double>() == std::vector<double>{3, -4, 0.5});  // the step itself leaves gradients alone
}

TEST_CASE("Updates do not depend on the number of threads or the memory order") {
  const int before = get_num_threads();
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    manual_seed(2);
    std::vector<Tensor> params;
    for (const Shape& s : {Shape{70'001}, Shape{}, Shape{0}, Shape{130, 33}, Shape{5}}) {
      params.push_back(randn(s).set_requires_grad());
      params.back().set_grad(randn(s));
    }
    Adam adam(params, {.lr = 0.1, .clip_norm = 0.5});
    adam.step();
    std::vector<float> all{adam.last_grad_norm().item<float>()};
    for (const Tensor& p : params)
      for (const float x : p.to_vector<float>()) all.push_back(x);
    results.push_back(std::move(all));
  }
  set_num_threads(before);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);

  manual_seed(3);
  const Tensor start = randn({4, 3, 2, 2}), gradient = randn({4, 3, 2, 2});
  Tensor rows = start.clone().set_requires_grad(),
         last = start.contiguous(MemoryFormat::channels_last).clone().set_requires_grad();
  REQUIRE(last.is_contiguous(MemoryFormat::channels_last));
  rows.set_grad(gradient);
  last.set_grad(gradient);  // in another order than its parameter
  Adam a({rows}, {.lr = 0.1}), b({last}, {.lr = 0.1});
  a.step();
  b.step();
  CHECK(rows.to_vector<float>() == last.to_vector<float>());
  CHECK(rows.to_vector<float>() != start.to_vector<float>());
}

TEST_CASE("Groups have their own rates and decays") {
  Tensor a = parameter({1.0}), b = parameter({1.0});
  SGD sgd({{.params = {a}, .lr = 0.5}, {.params = {b}, .weight_decay = 1.0}}, {.lr = 0.1});
  a.set_grad(ones({1}, {.dtype = f64}));
  b.set_grad(ones({1}, {.dtype = f64}));
  sgd.step();
  CHECK(a.item<double>() == Approx(0.5));
  CHECK(b.item<double>() == Approx(0.8));
  CHECK(sgd.lr() == 0.5);
  sgd.set_lr(0.25);
  CHECK(sgd.groups()[1].lr == 0.25);
  CHECK_THROWS_AS(sgd.set_lr(-1), ValueError);
}
