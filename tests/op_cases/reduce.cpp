#include <limits>

#include "op_case.h"

namespace spool::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void add_reduce_cases(OpTable& table) {
  // Over several dimensions at once.
  const auto several = [&](const char* op, std::function<Tensor(const Tensor&)> f, bool differentiable = true) {
    table.cases.push_back({.op = op,
                           .variant = "several dimensions",
                           .inputs =
                               [] {
                                 return Tensors{random({2, 3, 4, 2})};
                               },
                           .f = [f](const Tensors& in) { return Tensors{f(in[0])}; },
                           .differentiable = differentiable});
  };
  several("prod", [](const Tensor& x) { return prod(x, {0, -1}); });
  several("logsumexp", [](const Tensor& x) { return logsumexp(x, {1, 2}, true); });
  several("amax", [](const Tensor& x) { return amax(x, {0, 2}); });
  several("amin", [](const Tensor& x) { return amin(x, {3, 1}, true); });
  several("amax", [](const Tensor& x) { return amax(x); });
  several(
      "any",
      [](const Tensor& x) {
        return any(x > 0.9, {0, 2});
      },
      false);
  several(
      "all",
      [](const Tensor& x) {
        return all(x > -0.9, {0, 2}, true);
      },
      false);
  table.errors.push_back({"amax", "dimension twice", [] { amax(zeros({2, 3}), {0, -2}); }, {"amax", "-2", "twice"}});

  const auto add = [&](const char* op, const char* variant, Shape shape, std::function<Tensor(const Tensor&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(shape)}; },
                           .f = [f](const Tensors& in) { return Tensors{f(in[0])}; }});
  };
  const auto add_plain = [&](const char* op, const char* variant, Shape shape, std::function<Tensor(const Tensor&)> f) {
    add(op, variant, shape, f);
    table.cases.back().differentiable = false;
  };
  // A sum is linear: squared, so that its second derivative is not nothing.
  add("sum", "all", {3, 4}, [](const Tensor& x) { return square(sum(x)); });
  add("sum", "rows", {3, 4}, [](const Tensor& x) { return square(sum(x, {0})); });
  add("sum", "last, kept", {3, 4}, [](const Tensor& x) { return square(sum(x, {-1}, true)); });
  add("sum", "channels of images", {2, 3, 4, 5}, [](const Tensor& x) { return square(sum(x, {0, 2, 3})); });
  add("sum", "middle and first", {3, 2, 4}, [](const Tensor& x) { return square(sum(x, {1, 0})); });
  add("sum", "many columns", {5, 150}, [](const Tensor& x) { return sum(x, {0}); });
  add("sum", "0-d", {}, [](const Tensor& x) { return square(sum(x)); });
  add("sum", "empty", {0, 3}, [](const Tensor& x) { return sum(x, {0}); });
  add("sum_to", "ones kept, two fewer dimensions", {2, 3, 4, 2}, [](const Tensor& x) { return square(sum_to(x, {1, 2})); });
  add("sum_to", "channels", {2, 3, 4, 2}, [](const Tensor& x) { return square(sum_to(x, {1, 3, 1, 1})); });
  add("mean", "all", {3, 4}, [](const Tensor& x) { return square(mean(x)); });
  add("mean", "columns, kept", {3, 4}, [](const Tensor& x) { return square(mean(x, {1}, true)); });
  add("mean", "pictures", {2, 3, 4, 5}, [](const Tensor& x) { return square(mean(x, {2, 3})); });
  add("var", "all", {3, 4}, [](const Tensor& x) { return var(x); });
  add("var", "rows, biased, kept", {3, 4}, [](const Tensor& x) { return var(x, {0}, 0, true); });
  add("var", "channels", {2, 3, 2, 2}, [](const Tensor& x) { return var(x, {0, 2, 3}); });
  add("std", "all", {3, 4}, [](const Tensor& x) { return spool::std(x); });
  add("std", "columns", {3, 4}, [](const Tensor& x) { return spool::std(x, {-1}); });
  add("std", "biased, kept", {3, 4}, [](const Tensor& x) { return spool::std(x, {0}, 0, true); });
  add("prod", "all", {5}, [](const Tensor& x) { return prod(x); });
  add("prod", "of a matrix", {2, 3}, [](const Tensor& x) { return prod(x); });
  add("prod", "middle", {2, 5, 3}, [](const Tensor& x) { return prod(x, 1); });
  add("prod", "last, kept", {3, 4}, [](const Tensor& x) { return prod(x, -1, true); });
  add("prod", "one factor", {3, 1}, [](const Tensor& x) { return square(prod(x, 1)); });
  const auto add_prod_with_zeros = [&](const char* variant, std::initializer_list<NestedValues> mask, bool zero_gradient) {
    const Tensor zeros = tensor(mask, {.dtype = f64});
    table.cases.push_back({.op = "prod",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random({5}) * zeros}; },
                           .f = [](const Tensors& in) { return Tensors{prod(in[0])}; },
                           .zero_gradient = zero_gradient});
  };
  add_prod_with_zeros("one zero", {1, 0, 1, 1, 1}, false);
  add_prod_with_zeros("two zeros, whose second derivative is not zero", {1, 0, 1, 1, 0}, true);
  add("norm", "2", {3, 4}, [](const Tensor& x) { return norm(x); });
  add("norm", "2 of rows", {3, 4}, [](const Tensor& x) { return norm(x, 2, {1}); });
  add("norm", "1", {3, 4}, [](const Tensor& x) { return square(norm(x, 1, {0}, true)); });
  add("norm", "3", {3, 4}, [](const Tensor& x) { return norm(x, 3, {1}, true); });
  add("norm", "1.5", {3, 4}, [](const Tensor& x) { return norm(x, 1.5, {0}); });
  add("norm", "infinity", {3, 4}, [](const Tensor& x) { return square(norm(x, kInfinity, {1})); });
  add("norm", "0", {3, 4}, [](const Tensor& x) { return norm(x, 0, {1}); });
  table.cases.back().zero_gradient = true;
  add("logsumexp", "rows", {3, 4}, [](const Tensor& x) { return logsumexp(x * 3, 0); });
  add("logsumexp", "last, kept", {2, 3, 4}, [](const Tensor& x) { return logsumexp(x, -1, true); });
  add("cumsum", "rows", {3, 4}, [](const Tensor& x) { return square(cumsum(x, 0)); });
  add("cumsum", "last", {3, 4}, [](const Tensor& x) { return square(cumsum(x, -1)); });
  add("cumsum", "channels", {2, 3, 2, 2}, [](const Tensor& x) { return square(cumsum(x, 1)); });
  add("cumsum", "empty", {0, 2}, [](const Tensor& x) { return cumsum(x, 0); });

  add("max", "all", {3, 4}, [](const Tensor& x) { return square(max(x)); });
  add("max", "rows", {3, 4}, [](const Tensor& x) { return square(max(x, 0).values); });
  add("max", "last, kept", {3, 40}, [](const Tensor& x) { return square(max(x, -1, true).values); });
  add("max", "channels", {2, 3, 2, 2}, [](const Tensor& x) { return square(max(x, 1).values); });
  add("min", "all", {3, 4}, [](const Tensor& x) { return square(min(x)); });
  add("min", "columns", {3, 4}, [](const Tensor& x) { return square(min(x, 1).values); });
  add_plain("argmax", "all", {3, 4}, [](const Tensor& x) { return argmax(x); });
  add_plain("argmax", "rows", {3, 40}, [](const Tensor& x) { return argmax(x, 1); });
  add_plain("argmax", "channels, kept", {2, 3, 2, 2}, [](const Tensor& x) { return argmax(x, 1, true); });
  add_plain("argmin", "all", {3, 4}, [](const Tensor& x) { return argmin(x); });
  add_plain("argmin", "columns", {40, 3}, [](const Tensor& x) { return argmin(x, 0); });
  add_plain("any", "all", {3, 4}, [](const Tensor& x) { return any(x > 0.5); });
  add_plain("any", "rows", {3, 4}, [](const Tensor& x) { return any(x > 0.5, 0); });
  add_plain("all", "all", {3, 4}, [](const Tensor& x) { return all(x); });
  add_plain("all", "columns, kept", {3, 4}, [](const Tensor& x) { return all(x > -0.5, -1, true); });

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  error("sum", "dimension", [] { sum(zeros({2, 3}), {2}); }, {"sum", "dimension 2", "-2 to 1"});
  error("sum", "twice", [] { sum(zeros({2, 3}), {1, -1}); }, {"sum", "-1", "twice"});
  error("sum_to", "does not broadcast", [] { sum_to(zeros({2, 3}), {2}); }, {"sum_to", "[2]", "[2, 3]"});
  error("sum_to", "more dimensions", [] { sum_to(zeros({3}), {1, 3}); }, {"sum_to", "[1, 3]", "[3]"});
  error("mean", "integers", [] { mean(zeros({2}, {.dtype = i64})); }, {"mean", "i64", "to(f32)"});
  error("var", "integers", [] { var(zeros({2}, {.dtype = i64})); }, {"var", "i64"});
  error("std", "dimension", [] { spool::std(zeros({2}), {-2}); }, {"std", "dimension -2"});
  error("norm", "order", [] { norm(zeros({2}), -1); }, {"norm", "-1", "at least 0"});
  error("norm", "boolean", [] { norm(zeros({2}, {.dtype = boolean})); }, {"norm", "bool"});
  error("norm", "infinity of nothing", [] { norm(zeros({0}), kInfinity); }, {"norm", "no element"});
  error("logsumexp", "integers", [] { logsumexp(zeros({2}, {.dtype = i32}), 0); }, {"logsumexp", "i32"});
  error("prod", "dimension", [] { prod(zeros({2}), 1); }, {"prod", "dimension 1"});
  error("cumsum", "dimension", [] { cumsum(zeros({2}), 1); }, {"cumsum", "dimension 1"});
  error("max", "empty", [] { max(zeros({0, 2})); }, {"max", "no element", "[0, 2]"});
  error("min", "empty dimension", [] { min(zeros({2, 0}), 1); }, {"min", "dimension 1", "size 0"});
  error("argmax", "empty", [] { argmax(zeros({0})); }, {"argmax", "no element"});
  error("argmin", "empty dimension", [] { argmin(zeros({2, 0}), 1); }, {"argmin", "size 0"});
  error("argmax", "dimension", [] { argmax(zeros({2, 3}), 2); }, {"argmax", "dimension 2"});
  error("any", "dimension", [] { any(zeros({2, 3}), -3); }, {"any", "dimension -3"});
}

}  // namespace spool::test
