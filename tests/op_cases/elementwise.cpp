#include "op_case.h"

namespace spool::test {
namespace {

using Unary = Tensor (*)(const Tensor&);

void add_unary(OpTable& table, const char* op, Unary f, double low, double high, bool zero_gradient = false) {
  const auto call = [f](const Tensors& in) { return Tensors{f(in[0])}; };
  table.cases.push_back({.op = op,
                         .variant = "matrix",
                         .inputs =
                             [=] {
                               return Tensors{random({5, 7}, low, high)};
                             },
                         .f = call,
                         .zero_gradient = zero_gradient});
  table.cases.push_back({.op = op,
                         .variant = "one element",
                         .inputs = [=] { return Tensors{random({}, 0.2 * low, 0.2 * high, 3)}; },
                         .f = call,
                         .zero_gradient = zero_gradient});
  table.cases.push_back({.op = op,
                         .variant = "four dimensions, more than a vector",
                         .inputs =
                             [=] {
                               return Tensors{random({2, 3, 3, 2}, low, high, 4)};
                             },
                         .f = call,
                         .zero_gradient = zero_gradient});
  table.cases.push_back({.op = op,
                         .variant = "empty",
                         .inputs =
                             [=] {
                               return Tensors{random({0, 5})};
                             },
                         .f = call,
                         .zero_gradient = true});
}

using Binary = Tensor (*)(const Tensor&, const Tensor&);

void add_binary(OpTable& table, const char* op, Binary f, double low, double high, bool differentiable = true) {
  const auto add = [&](const char* variant, Shape a, Shape b) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs =
                               [=] {
                                 return Tensors{random(a, low, high, 1), random(b, low, high, 2)};
                               },
                           .f = [f](const Tensors& in) { return Tensors{f(in[0], in[1])}; },
                           .differentiable = differentiable});
  };
  add("equal shapes", {4, 5}, {4, 5});
  add("row broadcast", {4, 5}, {5});
  add("column broadcast", {4, 1}, {4, 5});
  add("both broadcast", {3, 1, 2}, {4, 1});
  add("with a 0-d tensor", {}, {2, 3});
  add("channels", {2, 3, 4, 2}, {1, 3, 1, 1});
  add("empty", {0, 3}, {3});
  table.errors.push_back({op,
                          "shapes",
                          [f] {
                            f(zeros({2, 3}), zeros({2, 4}));
                          },
                          {op, "broadcast", "3 and 4", "[2, 3]", "[2, 4]"}});
}

}  // namespace

void add_elementwise_cases(OpTable& table) {
  add_unary(table, "neg", neg, -2, 2);
  add_unary(table, "abs", abs, -2, 2);
  add_unary(table, "exp", exp, -2, 2);
  add_unary(table, "expm1", expm1, -2, 2);
  add_unary(table, "log", log, 0.2, 3);
  add_unary(table, "log1p", log1p, -0.5, 3);
  add_unary(table, "sqrt", sqrt, 0.2, 3);
  add_unary(table, "rsqrt", rsqrt, 0.3, 3);
  add_unary(table, "reciprocal", reciprocal, 0.4, 3);
  add_unary(table, "square", square, -2, 2);
  add_unary(table, "sin", sin, -3, 3);
  add_unary(table, "cos", cos, -3, 3);
  add_unary(table, "tanh", tanh, -2, 2);
  add_unary(table, "sigmoid", sigmoid, -3, 3);
  add_unary(table, "relu", relu, -2, 2);
  add_unary(table, "gelu", gelu, -3, 3);
  add_unary(table, "silu", silu, -3, 3);
  add_unary(table, "softplus", softplus, -3, 3);
  add_unary(table, "erf", erf, -2, 2);
  add_unary(
      table, "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); }, -2, 2);
  add_unary(
      table, "pow", [](const Tensor& x) { return pow(x, 2.5); }, 0.2, 2);
  add_unary(
      table, "pow", [](const Tensor& x) { return pow(x, 3); }, -2, 2);
  add_unary(
      table, "clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.7); }, -2, 2);
  add_unary(
      table, "clamp", [](const Tensor& x) { return clamp(x, {}, 0.7); }, -2, 2);
  // Values between whole numbers, where differences see the flat parts.
  add_unary(
      table, "floor", [](const Tensor& x) { return floor(x); }, 0.2, 0.8, true);
  add_unary(
      table, "ceil", [](const Tensor& x) { return ceil(x); }, 0.2, 0.8, true);
  add_unary(
      table, "round", [](const Tensor& x) { return round(x); }, 0.6, 1.4, true);
  add_unary(
      table, "sign", [](const Tensor& x) { return sign(x); }, 0.2, 2, true);

  add_binary(table, "add", add, -2, 2);
  add_binary(table, "sub", sub, -2, 2);
  add_binary(table, "mul", mul, -2, 2);
  add_binary(table, "div", div, 0.4, 2);
  add_binary(table, "pow", pow, 0.4, 2);
  add_binary(table, "maximum", maximum, -2, 2);
  add_binary(table, "minimum", minimum, -2, 2);
  add_binary(table, "eq", eq, -2, 2, false);
  add_binary(table, "ne", ne, -2, 2, false);
  add_binary(table, "lt", lt, -2, 2, false);
  add_binary(table, "le", le, -2, 2, false);
  add_binary(table, "gt", gt, -2, 2, false);
  add_binary(table, "ge", ge, -2, 2, false);
  add_binary(
      table, "isclose", [](const Tensor& a, const Tensor& b) { return isclose(a, b, 0.5, 0.5); }, -2, 2, false);
  add_binary(table, "logical_and", logical_and, -2, 2, false);
  add_binary(table, "logical_or", logical_or, -2, 2, false);
  add_binary(table, "logical_xor", logical_xor, -2, 2, false);

  const auto add_case = [&](const char* op, const char* variant, std::function<Tensors()> inputs,
                            std::function<Tensors(const Tensors&)> f, bool differentiable = true) {
    table.cases.push_back(
        {.op = op, .variant = variant, .inputs = std::move(inputs), .f = std::move(f), .differentiable = differentiable});
  };
  add_case(
      "add", "with numbers", [] { return Tensors{random({6})}; },
      [](const Tensors& in) {
        return Tensors{2 + in[0], in[0] - 1.5, 1 - in[0]};
      });
  add_case(
      "mul", "with numbers", [] { return Tensors{random({6}, 0.5, 2)}; },
      [](const Tensors& in) {
        return Tensors{in[0] * 3, in[0] / 7, 2 / in[0]};
      });
  add_case(
      "add", "one tensor twice", [] { return Tensors{random({6})}; },
      [](const Tensors& in) { return Tensors{(in[0] + in[0]) * in[0]}; });
  for (const char* op : {"logical_not", "isnan", "isfinite"}) {
    const std::string name = op;
    add_case(
        op, "matrix",
        [] {
          return Tensors{random({3, 4})};
        },
        [name](const Tensors& in) {
          return Tensors{name == "logical_not" ? logical_not(in[0]) : name == "isnan" ? isnan(in[0]) : isfinite(in[0])};
        },
        false);
  }
  const auto where_case = [&](const char* variant, Shape condition, Shape a, Shape b) {
    add_case(
        "where", variant,
        [=] {
          return Tensors{random(condition, -1, 1, 5) > 0, random(a), random(b, -1, 1, 2)};
        },
        [](const Tensors& in) { return Tensors{where(in[0], in[1], in[2])}; });
  };
  where_case("equal shapes", {3, 4}, {3, 4}, {3, 4});
  where_case("broadcast condition", {4}, {3, 4}, {3, 4});
  where_case("broadcast branches", {3, 4}, {3, 1}, {});
  table.errors.push_back(
      {"where", "condition type", [] { where(zeros({2}), zeros({2}), zeros({2})); }, {"where", "boolean", "f32"}});
  add_case(
      "masked_fill", "matrix",
      [] {
        return Tensors{random({3, 4}), random({3, 4}, -1, 1, 9) > 0.3};
      },
      [](const Tensors& in) { return Tensors{masked_fill(in[0], in[1], -2)}; });
  add_case(
      "masked_fill", "row mask",
      [] {
        return Tensors{random({3, 4}), random({4}, -1, 1, 9) > 0.3};
      },
      [](const Tensors& in) { return Tensors{masked_fill(in[0], in[1], 0.5)}; });
  table.errors.push_back({"masked_fill",
                          "mask shape",
                          [] {
                            masked_fill(zeros({2}), zeros({3, 2}, {.dtype = boolean}), 0);
                          },
                          {"masked_fill", "[3, 2]", "[2]"}});
  table.errors.push_back({"clamp", "bounds", [] { clamp(zeros({2}), 2, 1); }, {"clamp", "2", "above", "1"}});
}

}  // namespace spool::test
