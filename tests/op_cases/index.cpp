#include "op_case.h"

namespace spool::test {
namespace {

using Indices = std::vector<std::int64_t>;

Tensor indices(const Indices& values, const Shape& shape) { return tensor(values, shape); }
// On the device of the inputs.
Tensor indices(const Tensors& in, const Indices& values, const Shape& shape) { return tensor(values, shape).to(in[0].device()); }

}  // namespace

void add_index_cases(OpTable& table) {
  const auto add = [&](const char* op, const char* variant, std::vector<Shape> shapes, std::function<Tensor(const Tensors&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs =
                               [=] {
                                 Tensors inputs;
                                 for (const Shape& s : shapes) inputs.push_back(random(s, -1, 1, inputs.size() + 1));
                                 return inputs;
                               },
                           .f = [f](const Tensors& in) { return Tensors{f(in)}; }});
  };
  add("index_select", "rows, one twice", {{4, 3}}, [](const Tensors& in) {
    return square(index_select(in[0], 0, indices(in, {2, 0, 2}, {3})));
  });
  add("index_select", "columns", {{2, 5}}, [](const Tensors& in) {
    return square(index_select(in[0], -1, indices(in, {4, 1}, {2})));
  });
  add("index_select", "channels", {{2, 3, 2, 2}}, [](const Tensors& in) {
    return square(index_select(in[0], 1, indices(in, {2, 2, 0, 1}, {4})));
  });
  add("index_select", "none", {{2, 3}}, [](const Tensors& in) {
    return cat({index_select(in[0], 0, indices(in, {}, {0})), in[0]});
  });
  add("index_select", "strided indices", {{4, 3}}, [](const Tensors& in) {
    return square(index_select(in[0], 0, indices(in, {3, 9, 1, 9}, {4}).slice(0, 0, {}, 2)));
  });
  add("gather", "rows", {{2, 3}}, [](const Tensors& in) { return square(gather(in[0], 1, indices(in, {0, 2, 2, 1}, {2, 2}))); });
  add("gather", "columns, fewer", {{4, 3}}, [](const Tensors& in) {
    return square(gather(in[0], 0, indices(in, {3, 0, 3, 1}, {2, 2})));
  });
  add("gather", "channels, transposed indices", {{2, 3, 2, 2}}, [](const Tensors& in) {
    return square(gather(in[0], 1, indices(in, {0, 2, 1, 1, 0, 2, 2, 0}, {2, 2, 1, 2}).permute({3, 2, 0, 1})));
  });
  add("gather", "none", {{2, 3}}, [](const Tensors& in) { return cat({gather(in[0], 1, indices(in, {}, {2, 0})), in[0]}, 1); });
  add("scatter_add", "rows, repeated", {{2, 3}, {2, 4}}, [](const Tensors& in) {
    return square(scatter_add(in[0], 1, indices(in, {0, 0, 2, 0, 1, 2, 1, 1}, {2, 4}), in[1]));
  });
  add("scatter_add", "columns", {{4, 3}, {2, 2}}, [](const Tensors& in) {
    return square(scatter_add(in[0], 0, indices(in, {3, 0, 3, 1}, {2, 2}), in[1]));
  });
  add("scatter_add", "pictures", {{1, 3, 2, 2}, {1, 2, 2, 2}}, [](const Tensors& in) {
    return square(scatter_add(in[0], 1, indices(in, {0, 1, 2, 0, 0, 1, 0, 0}, {1, 2, 2, 2}), in[1]));
  });
  add("scatter_add", "nothing", {{2, 3}, {2, 0}}, [](const Tensors& in) {
    return square(scatter_add(in[0], 1, indices(in, {}, {2, 0}), in[1]));
  });
  add("take_values", "as gather", {{2, 3}}, [](const Tensors& in) {
    return square(take_values(in[0], 1, indices(in, {0, 2, 2, 1}, {2, 2})));
  });
  add("embedding", "vector, one twice", {{4, 3}}, [](const Tensors& in) {
    return square(embedding(indices(in, {1, 1, 0}, {3}), in[0]));
  });
  add("embedding", "matrix of indices", {{4, 3}}, [](const Tensors& in) {
    return square(embedding(indices(in, {3, 1, 0, 3}, {2, 2}), in[0]));
  });
  add("embedding", "0-d", {{4, 3}}, [](const Tensors& in) { return square(embedding(indices(in, {3}, {}), in[0])); });
  table.cases.push_back({.op = "one_hot",
                         .variant = "matrix",
                         .inputs =
                             [] {
                               return Tensors{indices({1, 0, 3, 1}, {2, 2})};
                             },
                         .f =
                             [](const Tensors& in) {
                               return Tensors{one_hot(in[0]), one_hot(in[0], 6)};
                             },
                         .differentiable = false});
  const auto add_sorting = [&](const char* op, const char* variant, Shape shape, std::function<Sorted(const Tensor&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(shape)}; },
                           .f =
                               [f](const Tensors& in) {
                                 const Sorted s = f(in[0]);
                                 return Tensors{square(s.values), s.indices};
                               }});
  };
  add_sorting("sort", "last", {3, 5}, [](const Tensor& x) { return sort(x); });
  add_sorting("sort", "rows, descending", {5, 3}, [](const Tensor& x) { return sort(x, 0, true); });
  add_sorting("sort", "0-d", {}, [](const Tensor& x) { return sort(x); });
  add_sorting("sort", "empty", {2, 0}, [](const Tensor& x) { return sort(x); });
  add_sorting("topk", "largest", {3, 5}, [](const Tensor& x) { return topk(x, 2); });
  add_sorting("topk", "smallest, channels", {2, 5, 2, 1}, [](const Tensor& x) { return topk(x, 3, 1, false); });
  add_sorting("topk", "all", {4}, [](const Tensor& x) { return topk(x, 4); });

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  const Tensor x = zeros({2, 3});
  error("index_select", "index",
        [=] {
          index_select(x, 1, indices({0, 3}, {2}));
        },
        {"index_select", "index 3", "position [1]", "0 to 2"});
  error("index_select", "negative", [=] { index_select(x, 0, indices({-1}, {1})); },
        {"index_select", "index -1", "position [0]", "0 to 1"});
  error("index_select", "from nothing", [=] { index_select(zeros({0}), 0, indices({0}, {1})); },
        {"index_select", "index 0", "no element"});
  error("index_select", "type", [=] { index_select(x, 0, zeros({1})); }, {"index_select", "i64", "f32"});
  error("index_select", "matrix of indices",
        [=] {
          index_select(x, 0, indices({0}, {1, 1}));
        },
        {"index_select", "one dimension"});
  error("index_select", "0-d", [=] { index_select(zeros({}), 0, indices({0}, {1})); }, {"index_select", "0-d"});
  error("gather", "index",
        [=] {
          gather(x, 1, indices({0, 1, 2, 3}, {2, 2}));
        },
        {"gather", "index 3", "position [1, 1]", "0 to 2"});
  error("gather", "strided index",
        [=] {
          gather(x, 1, indices({0, 1, 5, 0}, {2, 2}).t());
        },
        {"gather", "index 5", "position [0, 1]"});
  error("gather", "dimensions", [=] { gather(x, 1, indices({0}, {1})); }, {"gather", "[2, 3]", "[1]"});
  error("gather", "size", [=] { gather(x, 1, indices({0, 0, 0}, {3, 1})); }, {"gather", "dimension 1", "[3, 1]"});
  error("scatter_add", "index",
        [=] {
          scatter_add(x, 0, indices({2}, {1, 1}), zeros({1, 1}));
        },
        {"scatter_add", "index 2", "position [0, 0]", "0 to 1"});
  error("scatter_add", "source",
        [=] {
          scatter_add(x, 0, indices({0}, {1, 1}), zeros({1, 2}));
        },
        {"scatter_add", "one shape", "[1, 2]"});
  error("scatter_add", "type",
        [=] {
          scatter_add(x, 0, indices({0}, {1, 1}), zeros({1, 1}, {.dtype = f64}));
        },
        {"scatter_add", "f32", "f64"});
  error("embedding", "index",
        [=] {
          embedding(indices({0, 1, 0, 2}, {2, 2}), x);
        },
        {"embedding", "index 2", "position [1, 1]", "0 to 1"});
  error("embedding", "weight", [=] { embedding(indices({0}, {1}), zeros({3})); }, {"embedding", "two dimensions", "[3]"});
  error("embedding", "type", [=] { embedding(zeros({1}), x); }, {"embedding", "i64", "f32"});
  error("one_hot", "label", [=] { one_hot(indices({0, 3}, {2}), 3); }, {"one_hot", "index 3", "position [1]", "0 to 2"});
  error("one_hot", "negative label", [=] { one_hot(indices({0, -1}, {2})); }, {"one_hot", "index -1"});
  error("one_hot", "nothing", [=] { one_hot(indices({}, {0})); }, {"one_hot", "number of classes"});
  error("one_hot", "type", [=] { one_hot(zeros({1})); }, {"one_hot", "i64", "f32"});
  error("sort", "dimension", [=] { sort(x, 2); }, {"sort", "dimension 2"});
  error("topk", "k", [=] { topk(x, 4); }, {"topk", "4", "3 elements"});
  error("topk", "negative", [=] { topk(x, -1); }, {"topk", "-1"});
}

}  // namespace spool::test
