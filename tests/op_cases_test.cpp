// Runs the table of op cases: every operation against finite differences, in every element type and memory order.
#include <cmath>
#include <fstream>
#include <regex>
#include <set>

#include "catch.h"
#include "op_cases/op_case.h"
#include "spool/autograd/function.h"

using namespace spool;
using namespace spool::test;

namespace {

const OpTable& table() {
  static const OpTable t = [] {
    OpTable all;
    add_elementwise_cases(all);
    add_shape_cases(all);
    add_rearrange_cases(all);
    add_index_cases(all);
    add_reduce_cases(all);
    add_matmul_cases(all);
    add_conv_cases(all);
    add_pool_cases(all);
    add_norm_cases(all);
    add_softmax_cases(all);
    add_loss_cases(all);
    return all;
  }();
  return t;
}

std::string title(const OpCase& c) { return c.op + ": " + c.variant; }

// Fresh leaves: the case's inputs after `change`, floating ones asking for gradients.
template <class F>
Tensors leaves(const OpCase& c, F change) {
  Tensors inputs = c.inputs();
  for (Tensor& t : inputs) {
    if (!t.defined()) continue;
    t = change(t).detach();
    if (is_floating(t.dtype()) && c.differentiable) t.set_requires_grad();
  }
  return inputs;
}

struct Outcome {
  Tensors outputs, gradients;
};

// Results and gradients, for the cotangent drawn from a fixed seed.
Outcome run(const OpCase& c, const Tensors& inputs) {
  Outcome o;
  o.outputs = c.f(inputs);
  if (!c.differentiable) return o;
  Generator generator(7);
  Tensors roots, weights, wanted;
  for (const Tensor& y : o.outputs)
    if (y.requires_grad()) {
      roots.push_back(y);
      weights.push_back(randn(y.shape(), {.dtype = f64}, generator).to(y.dtype()));
    }
  for (const Tensor& t : inputs)
    if (t.requires_grad()) wanted.push_back(t);
  REQUIRE_FALSE(roots.empty());
  o.gradients = grad(roots, wanted, {.allow_unused = true}, weights);
  return o;
}

// Largest difference relative to the largest finite value; infinities and NaN must agree place by place.
double relative_error(const Tensor& got, const Tensor& want) {
  REQUIRE(got.shape() == want.shape());
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  double scale = 1e-30, worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(b[i])) scale = std::max(scale, std::abs(b[i]));
    if (std::isfinite(a[i]) && std::isfinite(b[i]))
      worst = std::max(worst, std::abs(a[i] - b[i]));
    else if (!(std::isnan(a[i]) && std::isnan(b[i])) && a[i] != b[i])
      return HUGE_VAL;
  }
  return worst / std::max(scale, 1e-3);
}

void compare(const Outcome& got, const Outcome& want, double tolerance) {
  REQUIRE(got.outputs.size() == want.outputs.size());
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    INFO("output " << i << "\ngot " << got.outputs[i] << "\nwant " << want.outputs[i]);
    CHECK(relative_error(got.outputs[i], want.outputs[i]) <= tolerance);
  }
  REQUIRE(got.gradients.size() == want.gradients.size());
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    REQUIRE(got.gradients[i].defined() == want.gradients[i].defined());
    if (!got.gradients[i].defined()) continue;
    INFO("gradient " << i << "\ngot " << got.gradients[i] << "\nwant " << want.gradients[i]);
    CHECK(relative_error(got.gradients[i], want.gradients[i]) <= tolerance);
  }
}

Tensor same(const Tensor& t) { return t; }

// The same elements, last dimension outermost in memory.
Tensor reversed(const Tensor& t) {
  std::vector<int> dims;
  for (int d = t.dim() - 1; d >= 0; --d) dims.push_back(d);
  return permute(permute(t, dims).clone().contiguous(), dims);
}

}  // namespace

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
    const auto window = [](const Tensor& t) {
      if (t.dim() == 0) return t;
      Tensor wide = stack({t, t, t}, t.dim());  // every element three times in a row
      return wide.select(t.dim(), 1);
    };
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
}  // namespace

TEST_CASE("A wrong derivative fails the gradient check") {
  Tensor x = random({5}).set_requires_grad();
  CHECK_THROWS_AS(gradcheck([](const Tensors& in) { return Tensors{WrongSquare::apply(in[0])}; }, {x}), GradError);
}
