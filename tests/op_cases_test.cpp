// Runs the table of op cases: every operation against finite differences, in every element type and memory order.
#include <fstream>
#include <regex>
#include <set>

#include "catch.h"
#include "op_cases/run.h"
#include "spool/autograd/function.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("Gradients agree with finite differences in double precision") {
  for (const OpCase& c : table().cases) {
    if (!c.differentiable) continue;
    INFO(title(c));
    const Tensors inputs = leaves(c, same);
    bool some = c.zero_gradient;
    for (const Tensor& g : run(c, inputs).gradients)
      if (g.defined())
        for (const double v : g.to_vector<double>()) some = some || v != 0;
    bool empty = false;
    for (const Tensor& t : inputs) empty = empty || (t.defined() && t.numel() == 0);
    CHECK((some || empty));
    CHECK_NOTHROW(gradcheck(c.f, inputs, {.second_order = c.second_order}));
  }
}

TEST_CASE("Single precision agrees with double") {
  for (const OpCase& c : table().cases) {
    INFO(title(c));
    const auto single = [](const Tensor& t) { return t.dtype() == f64 ? t.to(f32) : t; };
    compare(run(c, leaves(c, single)), run(c, leaves(c, [&](const Tensor& t) { return single(t).to(t.dtype()); })),
            c.f32_tolerance);
  }
}

TEST_CASE("bfloat16 agrees with double") {
  for (const OpCase& c : table().cases) {
    if (!c.bf16) continue;
    INFO(title(c));
    const auto half = [](const Tensor& t) { return t.dtype() == f64 ? t.to(bf16) : t; };
    compare(run(c, leaves(c, half)), run(c, leaves(c, [&](const Tensor& t) { return half(t).to(t.dtype()); })), c.bf16_tolerance);
  }
}

TEST_CASE("The order of elements in memory changes nothing") {
  for (const OpCase& c : table().cases) {
    INFO(title(c));
    const Outcome want = run(c, leaves(c, same));
    compare(run(c, leaves(c, reversed)), want, 1e-9);
    compare(run(c, leaves(c, [](const Tensor& t) { return t.dim() == 4 ? t.contiguous(MemoryFormat::channels_last) : t; })), want,
            1e-9);
  }
}

TEST_CASE("A window of a larger tensor gives what its copy gives") {
  for (const OpCase& c : table().cases) {
    INFO(title(c));
    compare(run(c, leaves(c, window)), run(c, leaves(c, same)), 1e-9);
  }
}

TEST_CASE("Illegal calls say what is wrong") {
  for (const OpErrorCase& c : table().errors) {
    INFO(c.op + ": " + c.variant);
    std::string message = "(nothing was thrown)";
    try {
      c.call();
    } catch (const Error& e) {
      message = e.what();
    }
    INFO(message);
    for (const std::string& word : c.words) CHECK(message.find(word) != std::string::npos);
  }
}

TEST_CASE("Every operation of ops.h has a row in the table") {
  std::set<std::string> rows;
  for (const OpCase& c : table().cases) rows.insert(c.op);
  std::ifstream header(SPOOL_SOURCE_DIR "/autograd/ops.h");
  REQUIRE(header.good());
  const std::regex declaration(R"(^(?:inline )?(?:Tensor|Sorted|std::vector<Tensor>) (\w+)\()");
  std::set<std::string> missing;
  std::smatch found;
  int declared = 0;
  for (std::string line; std::getline(header, line);)
    if (std::regex_search(line, found, declaration) && found[1].str().rfind("operator", 0) != 0) {
      ++declared;
      if (!rows.count(found[1])) missing.insert(found[1]);
    }
  CHECK(declared > 100);
  CHECK(missing == std::set<std::string>());
}

namespace {
struct WrongSquare : Function<WrongSquare> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save("x", x);
    return x * x;
  }
  // Right up to a term that cancels when the cotangent is constant and x sums to zero.
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) { return {g * ctx.saved("x") * 2.01}; }
};

struct SquareByLoops : Function<SquareByLoops> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save("x", x);
    return x * x;
  }
  // Right, but on no tape.
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) {
    const Tensor x = ctx.saved("x");
    Tensor dx = empty(x.shape(), {.dtype = x.dtype()});
    for (std::int64_t i = 0; i < x.numel(); ++i) dx.data<double>()[i] = 2 * g.data<double>()[i] * x.data<double>()[i];
    return {dx};
  }
};
}  // namespace

TEST_CASE("A wrong derivative fails the gradient check") {
  Tensor x = random({5}).set_requires_grad();
  CHECK_THROWS_AS(gradcheck([](const Tensors& in) { return Tensors{WrongSquare::apply(in[0])}; }, {x}), GradError);
}

TEST_CASE("A gradient that is on no tape fails the check of the second derivative only") {
  const auto square = [](const Tensors& in) { return Tensors{SquareByLoops::apply(in[0])}; };
  Tensor x = random({5}).set_requires_grad();
  CHECK_NOTHROW(gradcheck(square, {x}));
  CHECK_THROWS_AS(gradcheck(square, {x}, {.second_order = true}), GradError);
}
