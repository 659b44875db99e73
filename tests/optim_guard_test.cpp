// What step() refuses, gradient accumulation, and resuming.
#include <cmath>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

Tensor weight(double value = 1, const char* name = "") {
  Tensor w = full({1}, value, {.dtype = f64}).set_requires_grad();
  w.set_name(name);
  return w;
}

}  // namespace

TEST_CASE("A step without a backward before it is refused, with what to do") {
  Tensor w = weight();
  SGD sgd({w}, {.lr = 0.1});
  CHECK(contains(message_of<GradError>([&] { sgd.step(); }), "call backward()"));
  sum(w * 2).backward();
  sgd.step();
  CHECK(w.item<double>() == Approx(0.8));
  CHECK(contains(message_of<GradError>([&] { sgd.step(); }), "twice without a backward()"));
  CHECK(w.item<double>() == Approx(0.8));
  sgd.zero_grad();
  CHECK(contains(message_of<GradError>([&] { sgd.step(); }), "call backward()"));
  sum(w * 2).backward();
  sgd.step();
  CHECK(w.item<double>() == Approx(0.6));
}

TEST_CASE("Gradients that an earlier step used are refused: zero_grad was forgotten") {
  Tensor a = weight(1, "net.a"), b = weight(1, "net.b");
  SGD sgd({a, b}, {.lr = 0.1});
  sum(a + b).backward();
  sgd.step();
  sum(a + b).backward();
  CHECK(contains(message_of<GradError>([&] { sgd.step(); }), "'net.a' still holds what the last step() used: call zero_grad()"));
  sgd.zero_grad();
  sum(a + b).backward();
  sgd.step();
  b.set_grad({});
  a.set_grad({});
  sum(a + b).backward();
  sgd.step();

  a.set_grad({});  // b keeps its used gradient, and this loss does not reach it
  sum(a * 3).backward();
  CHECK(contains(message_of<GradError>([&] { sgd.step(); }), "'net.b' is left over"));
  CHECK(b.item<double>() == Approx(0.7));
}

TEST_CASE("Parameters that never get a gradient are left alone") {
  Tensor a = weight(), idle = weight(5);
  AdamW adam({a, idle}, {.lr = 0.1, .weight_decay = 0.5});
  sum(a).backward();
  adam.step();
  CHECK(idle.item<double>() == 5);
  CHECK(find_tensor(adam.state_dict(), "1.step")->item<std::int64_t>() == 0);
  CHECK_FALSE(find_tensor(adam.state_dict(), "1.exp_avg"));
}

TEST_CASE("A norm that is not finite is an error when asked for, and nothing is changed") {
  Tensor a = weight(1, "net.a"), b = weight(2, "net.b");
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Adam adam({a, b}, {.lr = 0.1, .error_if_nonfinite = true});
    a.set_grad(full({1}, 1.0, {.dtype = f64}));
    b.set_grad(full({1}, bad, {.dtype = f64}));
    const std::string text = message_of<GradError>([&] { adam.step(); });
    CHECK(contains(text, "'net.b'"));
    CHECK(a.item<double>() == 1);
    CHECK(find_tensor(adam.state_dict(), "net.a.step")->item<std::int64_t>() == 0);
    CHECK(contains(message_of<GradError>([&] { clip_grad_norm_({a, b}, 1, {.error_if_nonfinite = true}); }), "'net.b'"));
    CHECK(a.grad().item<double>() == 1);
    b.set_grad(full({1}, 1.0, {.dtype = f64}));
    adam.step();  // the next good gradients are used as if nothing had been
    CHECK(find_tensor(adam.state_dict(), "net.a.step")->item<std::int64_t>() == 1);
    a.set_grad({});
    b.set_grad({});
    NoGrad guard;
    a.fill_(1);
  }
  b.set_grad(full({1}, std::nan(""), {.dtype = f64}));
  a.set_grad(full({1}, 1.0, {.dtype = f64}));
  SGD sgd({a, b}, {.lr = 0.1, .clip_norm = 1.0});
  sgd.step();  // without the option NaN travels, as in PyTorch
  CHECK(std::isnan(a.item<double>()));
}

TEST_CASE("What cannot be optimized, and options out of range, are refused when the optimizer is made") {
  const Tensor w = weight(1, "net.w");
  const auto says = [](auto make, const char* part) { CHECK(contains(message_of<ValueError>(make), part)); };
  says([&] { SGD(std::vector<Tensor>{}, {.lr = 0.1}); }, "model.parameters()");
  says([&] { SGD({w, w}, {.lr = 0.1}); }, "'net.w' is listed twice");
  says([&] { SGD({w, Tensor()}, {.lr = 0.1}); }, "undefined");
  says([&] { SGD({ones({2, 2}).t().narrow(0, 0, 1)}, {.lr = 0.1}); }, "clone()");
  says([&] { SGD({w}, {.lr = -1}); }, "lr must be finite and at least 0, not -1");
  says([&] { SGD({w}, {.lr = std::nan("")}); }, "lr");
  says([&] { SGD({w}, {.momentum = 2}); }, "momentum");
  says([&] { SGD({w}, {.nesterov = true}); }, "nesterov");
  says([&] { SGD({w}, {.weight_decay = -1}); }, "weight_decay");
  says([&] { Adam({w}, {.betas = {1.0, 0.9}}); }, "betas.first");
  says([&] { Adam({w}, {.eps = -1}); }, "eps");
  says([&] { Adam({w}, {.clip_norm = 0}); }, "clip_norm");
  says([&] { AdamW({w}, {.clip_value = -1}); }, "clip_value");
  CHECK_THROWS_AS(SGD({w * 2}, {.lr = 0.1}), GradError);
  CHECK_THROWS_AS(SGD({ones({1}, {.dtype = i64})}, {.lr = 0.1}), DTypeError);
}

TEST_CASE("Accumulated gradients are averaged over the backwards, also in an incomplete last window") {
  Tensor w = weight();
  SGD sgd({w}, {.lr = 0.1});
  StepLR schedule(sgd, {.step_size = 100});
  std::vector<double> weights;
  const int batches = 5, accumulate = 2;
  int pending = 0;
  for (int batch = 1; batch <= batches; ++batch) {
    sum(w * batch).backward();
    if (++pending < accumulate && batch < batches) continue;
    sgd.step({.average_over = pending});
    schedule.step();
    sgd.zero_grad();
    weights.push_back(w.item<double>());
    pending = 0;
  }
  REQUIRE(weights.size() == 3);
  CHECK(weights[0] == Approx(0.85));
  CHECK(weights[1] == Approx(0.5));
  CHECK(weights[2] == Approx(0.0).margin(1e-12));
  CHECK(schedule.last_epoch() == 3);
  CHECK_THROWS_AS(sgd.step({.average_over = 0}), ValueError);

  SGD clipped({w}, {.lr = 1, .clip_norm = 1.0});
  sum(w * 3).backward();
  sum(w * 3).backward();
  clipped.step({.average_over = 2});  // the norm clipped is that of the average
  CHECK(clipped.last_grad_norm().item<double>() == Approx(3));
  CHECK(w.item<double>() == Approx(-1));
}

TEST_CASE("Adam resumes with its moments and step count, bit for bit") {
  const std::vector<double> gradients{0.5, -0.25, 0.125, 0.3, -0.2, 0.1};
  const auto step = [&](Adam& adam, Tensor& w, std::size_t i) {
    w.set_grad(full({1}, gradients[i], {.dtype = f64}));
    adam.step();
    return w.item<double>();
  };
  std::vector<double> straight;
  Tensor w = weight(1, "w");
  Adam adam({w}, {.lr = 0.1});
  StateDict saved;
  double at_save = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    straight.push_back(step(adam, w, i));
    if (i != 3) continue;
    at_save = w.item<double>();
    for (const NamedTensor& t : adam.state_dict()) saved.push_back({t.name, t.tensor.clone()});
  }
  CHECK(straight[3] == Approx(0.7876375).margin(1e-7));
  CHECK(straight[4] == Approx(0.7620492).margin(1e-7));
  CHECK(straight[5] == Approx(0.7325875).margin(1e-7));

  const std::string path = std::string(SPOOL_BINARY_DIR) + "/adam.safetensors";
  save_safetensors(path, saved);
  Tensor again = weight(at_save, "w");
  Adam resumed({again}, {.lr = 7});  // the saved rate wins
  resumed.load_state_dict(load_safetensors(path).tensors);
  CHECK(resumed.lr() == 0.1);
  CHECK(step(resumed, again, 4) == straight[4]);
  CHECK(step(resumed, again, 5) == straight[5]);
}

TEST_CASE("A state that does not fit an optimizer is refused whole, listing everything") {
  Tensor a = weight(1, "a"), b = weight(1, "b");
  Adam adam({a, b}, {.lr = 0.1});
  sum(a + b).backward();
  adam.step();
  StateDict state;
  for (const NamedTensor& t : adam.state_dict()) state.push_back({t.name, t.tensor.clone()});
  const double lr_before = adam.lr();
  for (NamedTensor& t : state) {
    if (t.name == "group0.lr") t.tensor.fill_(9.0);
    if (t.name == "a.exp_avg") t.tensor = zeros({2});
    if (t.name == "b.exp_avg_sq") t.name = "c.exp_avg_sq";
  }
  const std::string text = message_of<ValueError>([&] { adam.load_state_dict(state); });
  for (const char* part :
       {"this Adam", "missing: b.exp_avg_sq", "unexpected: c.exp_avg_sq", "a.exp_avg should be [1] and is [2]"})
    CHECK(contains(text, part));
  CHECK(adam.lr() == lr_before);
  Tensor c = weight(1, "c");
  SGD sgd({c}, {.momentum = 0.9});
  CHECK_THROWS_AS(sgd.load_state_dict(adam.state_dict()), ValueError);
  sum(c).backward();
  sgd.step();
  SGD other({c}, {.momentum = 0.9});
  other.load_state_dict(sgd.state_dict());
  CHECK(find_tensor(other.state_dict(), "c.momentum_buffer")->item<double>() == 1);
}

TEST_CASE("A step makes tensors that were saved for a gradient stale") {
  Tensor w = weight(2);
  SGD sgd({w}, {.lr = 0.1});
  const Tensor y = sum(w * w);
  y.backward({}, {.retain_graph = true});
  sgd.step();
  sgd.zero_grad();
  CHECK(contains(message_of<GradError>([&] { y.backward(); }), "overwritten in place"));
}

TEST_CASE("A step that is to check its gradients refuses ones that are not finite, and measures them") {
  const Tensor p = ones({3}).set_requires_grad();
  Adam adam({p}, {.lr = 0.1});
  sum(log(p - 1.0)).backward();  // 1 / 0
  CHECK_THROWS_AS(adam.step({.check_finite = true}), GradError);
  CHECK(p.to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(find_tensor(adam.state_dict(), "0.step")->item<std::int64_t>() == 0);
  adam.zero_grad();
  sum(p * 2.0).backward();
  adam.step({.check_finite = true});
  CHECK(adam.last_grad_norm().item<double>() == Approx(std::sqrt(12.0)));
}
