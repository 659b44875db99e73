// Where NaN comes from and who overwrote what, by line. This file is compiled with -g in every build; see CMakeLists.txt.
#include "spool/autograd/anomaly.h"

#include <cmath>
#include <limits>
#include <thread>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

template <class F>
AnomalyError anomaly_of(F call) {
  try {
    call();
  } catch (const AnomalyError& e) {
    return e;
  }
  FAIL("no anomaly was found");
  throw 0;
}

std::string at(int line) { return "at autograd_anomaly_test.cpp:" + std::to_string(line) + ","; }

// Whether the text has `what`, and behind it the line; without libdw, only the first.
void check_line(const std::string& text, const std::string& what, int line) {
  INFO(text);
  CHECK(contains(text, what + (has_source_lines() ? at(line) : "at a line that is not known")));
}

struct LogNet : Module {
  Linear& hidden = add<Linear>("hidden", {.in_features = 4, .out_features = 8});
  Linear& out = add<Linear>("out", {.in_features = 8, .out_features = 2});
  static constexpr int log_line = __LINE__ + 2;
  Tensor forward(const Tensor& x) override {
    const Tensor h = log(hidden(x));
    return out(h);
  }
};

struct Root : Function<Root> {
  static constexpr const char* name = "root";
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save("x", x);
    return sqrt(x);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& grad) { return {grad / sqrt(ctx.saved("x")) / 2}; }
};

}  // namespace

TEST_CASE("Anomaly mode names the operation, layer and line of the first NaN of a forward pass") {
  manual_seed(0);
  LogNet net;
  const Tensor x = randn({16, 4});
  net(x);  // nobody looks
  const DetectAnomaly guard;
  const int call_line = __LINE__ + 1;
  const AnomalyError e = anomaly_of([&] { net(x).sum().backward(); });
  CHECK(e.op() == "log");
  CHECK(e.layer() == "LogNet");
  CHECK_FALSE(e.backward);
  CHECK(contains(e.what(), "log: the first NaN of the forward pass is in "));
  CHECK(contains(e.what(), " of the 128 elements of its output"));
  CHECK(contains(e.what(), "\n  output [16, 8] f32 cpu\n  layer LogNet   LogNet()"));
  check_line(e.what(), "\n  ", LogNet::log_line);
  if (has_source_lines()) {
    REQUIRE(e.frames.size() >= 2);
    CHECK(e.frames[0].function == "LogNet::forward");
    CHECK(e.frames[0].line == LogNet::log_line);
    CHECK(e.frames[1].line == call_line);
    check_line(e.what(), "\n  called ", call_line);
  }
  NoGrad no_grad;
  net(x);  // not recorded
}

TEST_CASE("Anomaly mode names the line of the operation whose gradient goes wrong, and goes on after an error") {
  Tensor w = tensor({0.f, 4.f}).set_requires_grad();
  w.set_name("w");
  const DetectAnomaly guard;
  const int line = __LINE__ + 1;
  const Tensor root = sqrt(w);
  const Tensor loss = root.sum();
  const AnomalyError e = anomaly_of([&] { loss.backward(); });
  CHECK(e.op() == "sqrt");
  CHECK(e.backward);
  CHECK(contains(
      e.what(), "sqrt: the first infinity of the backward pass is in 1 of the 2 elements of the gradient that it gave to 'w'\n"));
  check_line(e.what(), "\n  recorded ", line);
  CHECK_FALSE(w.grad().defined());
  CHECK(grad_enabled());
  const AnomalyError nan = anomaly_of([&] { (sqrt(square(w)) * 0).sum().backward(); });
  CHECK(contains(nan.what(), "sqrt: the first NaN of the backward pass"));
  CHECK(contains(nan.what(), "to its input, the output of square\n"));
  const AnomalyError own = anomaly_of([&] { Root::apply(w).sum().backward(); });
  check_line(own.what(), "\n  recorded ", __LINE__ - 1);
  CHECK(own.op() == "root");
  sqrt(w + 1).sum().backward();
  CHECK(w.grad().to_vector<float>()[0] == 0.5f);
}

TEST_CASE("Anomaly mode tells a NaN that an operation was given from one that it made") {
  Tensor w = tensor({1.f, 2.f}).set_requires_grad();
  const DetectAnomaly guard;
  CHECK(contains(anomaly_of([&] { w* tensor({1.f, nan_value}); }).what(), "it was in its input 'b' already"));
  CHECK(contains(anomaly_of([&] { w + tensor({1.f, nan_value}); }).what(), "an input that is not on the tape"));
  CHECK(contains(anomaly_of([&] { (w * 1).sum().backward(full({}, nan_value)); }).what(), "backward() was given it, or a hook"));
  Tensor bad = tensor({nan_value}).set_requires_grad();
  bad.set_name("bad");
  CHECK(contains(anomaly_of([&] { exp(bad); }).what(), "it was in its input 'bad' already"));
  CHECK_FALSE(contains(anomaly_of([&] { log(w * -1); }).what(), "already"));
}

TEST_CASE("An infinity is looked for where asked, and is named as the cause of a NaN") {
  Tensor w = tensor({1.f, 1000.f}).set_requires_grad();
  {
    const DetectAnomaly guard;
    const int line = __LINE__ + 1;
    const Tensor big = exp(w);
    const Tensor bigger = big * 2;
    const AnomalyError e = anomaly_of([&] { bigger - big; });
    check_line(e.what(), "\n  ", __LINE__ - 1);
    check_line(e.what(), "\n  it came of an infinity, first in the output of exp, which ran ", line);
    // A guard inside has its own options.
    const DetectAnomaly strict({.check_inf = true});
    CHECK(contains(anomaly_of([&] { exp(w); }).what(),
                   "exp: the first infinity of the forward pass is in 1 of the 2 elements of its output"));
  }
  exp(w);
}

TEST_CASE("A saved tensor that was overwritten names the lines that saved and overwrote it") {
  const auto message = [](auto&& overwrite) {
    Tensor x = ones({2, 3}).set_requires_grad(), factor = ones({2, 3});
    const Tensor y = x * factor;
    overwrite(factor);
    return message_of<GradError>([&] { y.sum().backward(); });
  };
  const int saved_line = __LINE__ - 4;
  const std::string plain = message([](Tensor& t) { t.add_(1); });
  CHECK(contains(plain, "mul: 'b', saved for the gradient, was overwritten in place"));
  CHECK(contains(plain, "To see the lines that saved and overwrote it, make a DetectAnomaly"));
  const DetectAnomaly guard;
  const auto check = [&](const std::string& text, const std::string& op, int line) {
    check_line(text, "\n  saved ", saved_line);
    check_line(text, "\n  overwritten by " + op + " ", line);
    CHECK_FALSE(contains(text, "make a DetectAnomaly"));
    CHECK(contains(text, "\n  b [2, 3] f32 cpu"));
  };
  check(message([](Tensor& t) { t.add_(1); }), "add_", __LINE__);
  check(message([](Tensor& t) { t.mul_(zeros({3})); }), "mul_", __LINE__);
  check(message([](Tensor& t) { t.zero_(); }), "fill_", __LINE__);
  check(message([](Tensor& t) { t[1].copy_(ones({3})); }), "copy_", __LINE__);
  // The first write after saving is the one to blame.
  int line = 0;
  const std::string twice = message([&](Tensor& t) {
    line = __LINE__ + 1;
    t.add_(1);
    t.sub_(t);
  });
  check(twice, "add_", line);
  // Writes before it are none of its business, nor are those to what lay in the same place.
  { ones({2, 3}).add_(1); }
  Tensor x = ones({2, 3}).set_requires_grad(), factor = ones({2, 3});
  factor.add_(1);
  const Tensor y = x * factor;
  y.sum().backward({}, {.retain_graph = true});
  {
    const DetectAnomaly inside;
    factor.div_(ones({}));
  }
  check_line(message_of<GradError>([&] { y.sum().backward(); }), "\n  overwritten by div_ ", __LINE__ - 2);
}

TEST_CASE("An optimizer that overwrites what a gradient needs is named with its line") {
  Linear fc({.in_features = 2, .out_features = 2, .bias = false});
  SGD sgd(fc.parameters(), {.lr = 0.1});
  const DetectAnomaly guard;
  const Tensor x = ones({1, 2}).set_requires_grad();
  const Tensor loss = fc(x).sum();
  loss.backward({}, {.retain_graph = true});
  const int line = __LINE__ + 1;
  sgd.step();
  const std::string text = message_of<GradError>([&] { loss.backward(); });
  check_line(text, "\n  saved ", line - 3);
  check_line(text, "\n  overwritten by SGD ", line);
}

TEST_CASE("Lines of operations stay with the tape; lines of writes are known while a guard is alive") {
  Tensor x = ones({3}).set_requires_grad(), factor = ones({3});
  Tensor y;
  {
    const DetectAnomaly guard;
    y = x * factor;
    factor.add_(1);
  }
  const int line = __LINE__ - 3;
  const std::string text = message_of<GradError>([&] { y.sum().backward(); });
  if (has_source_lines()) {
    check_line(text, "\n  saved ", line);
    CHECK(contains(text, "\n  overwritten where no DetectAnomaly was alive on this thread"));
  } else {
    CHECK(contains(text, "make a DetectAnomaly"));
  }
}

TEST_CASE("A second derivative that goes wrong names the line that asked for the first") {
  const Tensor x = tensor({0.0, 1.0}, {.dtype = f64, .requires_grad = true});
  const DetectAnomaly guard;
  const Tensor y = pow(x, 1.5).sum();
  const int line = __LINE__ + 1;
  const Tensor first = grad(y, x, {.create_graph = true});
  const AnomalyError e = anomaly_of([&] { first.sum().backward(); });
  CHECK(e.backward);
  CHECK(e.op() == "pow");
  check_line(e.what(), "\n  recorded ", line);
  // What the first derivative records belongs to the operation whose backward it is.
  const AnomalyError root = anomaly_of([&] { grad(sqrt(x).sum(), x, {.create_graph = true}); });
  CHECK(root.op() == "sqrt");
  CHECK(root.backward);
}

TEST_CASE("A stepper under anomaly mode stops for good where a gradient goes wrong") {
  Tensor w = tensor({0.f}).set_requires_grad();
  const DetectAnomaly guard;
  Stepper stepper(sqrt(w).sum());
  REQUIRE(stepper.step());
  CHECK(anomaly_of([&] { stepper.step(); }).op() == "sqrt");
  CHECK_THROWS_AS(stepper.step(), GradError);
}

TEST_CASE("Anomaly mode is on for the thread that has the guard", "[threads]") {
  const auto make = [] { return log(tensor({-1.f}).set_requires_grad()); };
  const int log_line = __LINE__ - 1;
  Tensor x = tensor({0.f}).set_requires_grad(), y;
  const DetectAnomaly guard;
  std::thread([&] {
    make();  // nobody looks here
    const DetectAnomaly here;
    const AnomalyError e = anomaly_of(make);
    check_line(e.what(), "\n  ", log_line);
    y = sqrt(x);
  }).join();
  const int line = __LINE__ - 2;
  check_line(anomaly_of([&] { y.sum().backward(); }).what(), "\n  recorded ", line);
  CHECK(anomaly_of(make).op() == "log");
}
