#include "op_case.h"

namespace spool::test {

void add_matmul_cases(OpTable& table) {
  const auto product = [&](const char* op, const char* variant, Shape a, Shape b,
                           std::function<Tensor(const Tensor&, const Tensor&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs =
                               [=] {
                                 return Tensors{random(a, -1, 1, 1), random(b, -1, 1, 2)};
                               },
                           .f = [f](const Tensors& in) { return Tensors{f(in[0], in[1])}; },
                           .zero_gradient = a.numel() * b.numel() == 0});
  };
  const auto mm = [&](const char* variant, Shape a, Shape b) {
    product("matmul", variant, a, b, [](const Tensor& x, const Tensor& y) { return matmul(x, y); });
  };
  mm("matrices", {3, 4}, {4, 5});
  mm("vectors", {4}, {4});
  mm("matrix and vector", {3, 4}, {4});
  mm("vector and matrix", {4}, {4, 3});
  mm("one row, one column", {1, 5}, {5, 1});
  mm("outer product", {3, 1}, {1, 4});
  mm("batch and matrix", {2, 3, 4}, {4, 5});
  mm("matrix and batch", {3, 4}, {2, 4, 5});
  mm("batches that broadcast", {2, 1, 3, 4}, {3, 4, 2});
  mm("batch and vector", {2, 3, 4}, {4});
  mm("vector and batch", {3}, {2, 3, 4});
  mm("no rows", {0, 4}, {4, 3});
  mm("nothing to sum over", {3, 0}, {0, 2});
  mm("empty batch", {0, 3, 4}, {4, 2});
  product("matmul", "transposed", {4, 3}, {5, 4}, [](const Tensor& x, const Tensor& y) { return matmul(x.t(), y.t()); });
  product("matmul", "stretched", {1, 4}, {4, 3}, [](const Tensor& x, const Tensor& y) { return matmul(x.expand({5, 4}), y); });
  product("bmm", "batch", {2, 3, 4}, {2, 4, 2}, [](const Tensor& x, const Tensor& y) { return bmm(x, y); });
  product("bmm", "transposed", {2, 4, 3}, {2, 2, 4},
          [](const Tensor& x, const Tensor& y) { return bmm(x.transpose(1, 2), y.transpose(1, 2)); });

  const auto lin = [&](const char* variant, Shape x, Shape weight, bool bias) {
    table.cases.push_back({.op = "linear",
                           .variant = variant,
                           .inputs =
                               [=] {
                                 Tensors in{random(x, -1, 1, 1), random(weight, -1, 1, 2)};
                                 if (bias) in.push_back(random({weight[0]}, -1, 1, 3));
                                 return in;
                               },
                           .f = [](const Tensors& in) { return Tensors{linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor())}; },
                           .zero_gradient = x.numel() == 0});
  };
  lin("rows", {3, 4}, {5, 4}, true);
  lin("no bias", {3, 4}, {5, 4}, false);
  lin("a vector", {4}, {5, 4}, true);
  lin("sequences", {2, 3, 4}, {5, 4}, true);
  lin("one feature in, one out", {3, 1}, {1, 1}, true);
  lin("no rows", {0, 4}, {5, 4}, true);
  lin("no features", {3, 0}, {2, 0}, true);

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  error("matmul", "inner sizes",
        [] {
          matmul(zeros({3, 4}), zeros({5, 2}));
        },
        {"matmul", "inner sizes differ", "4", "5", "[3, 4]", "[5, 2]"});
  error("matmul", "vectors", [] { matmul(zeros({3}), zeros({4})); }, {"inner sizes differ", "3", "4"});
  error("matmul", "0-d", [] { matmul(zeros({}), zeros({4})); }, {"0-d", "mul()"});
  error("matmul", "batches", [] { matmul(zeros({2, 3, 4}), zeros({3, 4, 5})); }, {"leading dimensions [2] and [3]"});
  error("matmul", "types", [] { matmul(zeros({2, 2}), zeros({2, 2}, {.dtype = f64})); }, {"f32", "f64", "to(dtype)"});
  error("matmul", "integers", [] { matmul(zeros({2, 2}, {.dtype = i64}), zeros({2, 2}, {.dtype = i64})); }, {"i64", "to(f32)"});
  error("bmm", "dimensions", [] { bmm(zeros({3, 4}), zeros({2, 4, 2})); }, {"bmm", "first has 2 dimensions", "[B, m, k]"});
  error("bmm", "batches", [] { bmm(zeros({1, 3, 4}), zeros({2, 4, 2})); }, {"sizes 1 and 2", "matmul()"});
  error("linear", "features",
        [] {
          linear(zeros({128, 4096}), zeros({256, 3136}));
        },
        {"linear: input has 4096 features, weight expects 3136", "input [128, 4096] f32 cpu", "weight [256, 3136] f32 cpu"});
  error("linear", "bias", [] { linear(zeros({2, 3}), zeros({4, 3}), zeros({3})); }, {"bias has shape [3], expected [4]"});
  error("linear", "weight", [] { linear(zeros({2, 3}), zeros({3})); }, {"weight has 1 dimensions", "[out, in]"});
  error("linear", "0-d", [] { linear(zeros({}), zeros({3, 3})); }, {"0-d"});
}

}  // namespace spool::test
