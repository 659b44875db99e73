#include "op_case.h"

namespace spool::test {

void add_rearrange_cases(OpTable& table) {
  // The results are squared so that their gradient depends on where each element went.
  const auto add = [&](const char* op, const char* variant, Shape shape, std::function<Tensor(const Tensor&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(shape)}; },
                           .f = [f](const Tensors& in) { return Tensors{square(f(in[0]))}; }});
  };
  const auto add_join = [&](const char* op, const char* variant, std::vector<Shape> shapes,
                            std::function<Tensor(const Tensors&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs =
                               [=] {
                                 Tensors inputs;
                                 for (const Shape& s : shapes) inputs.push_back(random(s, -1, 1, inputs.size() + 1));
                                 return inputs;
                               },
                           .f = [f](const Tensors& in) { return Tensors{square(f(in))}; }});
  };
  add_join("cat", "rows", {{2, 3}, {1, 3}}, [](const Tensors& in) { return cat(in); });
  add_join("cat", "last of three", {{2, 3}, {2, 1}, {2, 2}}, [](const Tensors& in) { return cat(in, -1); });
  add_join("cat", "channels", {{2, 3, 2, 2}, {2, 1, 2, 2}}, [](const Tensors& in) { return cat(in, 1); });
  add_join("cat", "with an empty one", {{0, 3}, {2, 3}}, [](const Tensors& in) { return cat(in); });
  add_join("cat", "the same one twice", {{2, 3}}, [](const Tensors& in) { return cat({in[0], in[0]}, 1); });
  add_join("stack", "first", {{2, 3}, {2, 3}}, [](const Tensors& in) { return stack(in); });
  add_join("stack", "last", {{2, 3}, {2, 3}, {2, 3}}, [](const Tensors& in) { return stack(in, -1); });
  add_join("stack", "0-d", {{}, {}}, [](const Tensors& in) { return stack(in); });
  add("pad", "last", {2, 3}, [](const Tensor& x) { return pad(x, {1, 2}); });
  add("pad", "pictures", {2, 2, 3, 3}, [](const Tensor& x) { return pad(x, {1, 1, 2, 0}, 0.5); });
  add("pad", "crops", {3, 5}, [](const Tensor& x) { return pad(x, {-1, 2, 1, -2}, -1); });
  add("pad", "nothing", {3}, [](const Tensor& x) { return pad(x, {0, 0}); });
  add("flip", "last", {2, 5}, [](const Tensor& x) { return flip(x, {-1}); });
  add("flip", "both", {2, 5}, [](const Tensor& x) { return flip(x, {0, 1}); });
  add("flip", "pictures", {2, 3, 2, 4}, [](const Tensor& x) { return flip(x, {3}); });
  add("flip", "no dimension", {3}, [](const Tensor& x) { return flip(x, {}); });
  add("flip", "empty", {0, 3}, [](const Tensor& x) { return flip(x, {0}); });
  add("roll", "forwards", {2, 5}, [](const Tensor& x) { return roll(x, 2, 1); });
  add("roll", "backwards, more than once around", {5, 2}, [](const Tensor& x) { return roll(x, -12, 0); });
  add("roll", "by nothing", {5}, [](const Tensor& x) { return roll(x, 5, 0); });
  add("tril", "square", {4, 4}, [](const Tensor& x) { return tril(x); });
  add("tril", "below, wide", {3, 5}, [](const Tensor& x) { return tril(x, -1); });
  add("triu", "batch", {2, 3, 3}, [](const Tensor& x) { return triu(x); });
  add("triu", "above, tall", {5, 3}, [](const Tensor& x) { return triu(x, 1); });

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  error("cat", "nothing", [] { cat(std::span<const Tensor>()); }, {"cat", "no tensor"});
  error("cat", "0-d", [] { cat({zeros({}), zeros({})}); }, {"cat", "0-d", "stack()"});
  error("cat", "sizes", [] { cat({zeros({2, 3}), zeros({2, 4})}); }, {"cat", "tensor 1", "[2, 3]", "[2, 4]"});
  error("cat", "dimensions", [] { cat({zeros({2, 3}), zeros({2})}); }, {"cat", "tensor 1", "[2]"});
  error("cat", "dimension", [] { cat({zeros({2, 3})}, 2); }, {"cat", "dimension 2"});
  error("stack", "shapes", [] { stack({zeros({2}), zeros({3})}); }, {"stack", "one shape", "[2]", "[3]"});
  error("stack", "nothing", [] { stack(std::span<const Tensor>()); }, {"stack", "no tensor"});
  error("stack", "dimension", [] { stack({zeros({2})}, 2); }, {"stack", "dimension 2"});
  error("pad", "odd", [] { pad(zeros({2}), {1}); }, {"pad", "pairs", "1"});
  error("pad", "too many", [] { pad(zeros({2}), {1, 1, 1, 1}); }, {"pad", "2 pairs", "1 dimension"});
  error("pad", "crops too much", [] { pad(zeros({2}), {-3, 4}); }, {"pad", "size 2", "-3", "4"});
  error("flip", "twice", [] { flip(zeros({2, 2}), {1, -1}); }, {"flip", "twice"});
  error("flip", "dimension", [] { flip(zeros({2}), {1}); }, {"flip", "dimension 1"});
  error("roll", "dimension", [] { roll(zeros({2}), 1, 1); }, {"roll", "dimension 1"});
  error("tril", "vector", [] { tril(zeros({2})); }, {"tril", "matrices", "1 dim"});
  error("triu", "0-d", [] { triu(zeros({})); }, {"triu", "matrices"});
}

}  // namespace spool::test
