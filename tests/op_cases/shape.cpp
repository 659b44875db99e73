#include "op_case.h"

namespace spool::test {

void add_shape_cases(OpTable& table) {
  // The results are multiplied so that their gradient depends on where each element went.
  const auto add_case = [&](const char* op, const char* variant, Shape shape, std::function<Tensor(const Tensor&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(shape)}; },
                           .f =
                               [f](const Tensors& in) {
                                 const Tensor y = f(in[0]);
                                 return Tensors{y * y};
                               }});
  };
  add_case("reshape", "split and merge", {4, 6}, [](const Tensor& x) { return reshape(x, {3, -1, 2}); });
  add_case("reshape", "to 0-d", {1, 1}, [](const Tensor& x) { return reshape(x, {}); });
  add_case("reshape", "of a transpose, copies", {4, 6}, [](const Tensor& x) { return reshape(x.t(), {-1}); });
  add_case("reshape", "empty", {0, 4}, [](const Tensor& x) { return reshape(x, {2, 0}); });
  table.cases.push_back({.op = "view",
                         .variant = "row-major",
                         .inputs =
                             [] {
                               return Tensors{random({4, 6})};
                             },
                         .f =
                             [](const Tensors& in) {
                               const Tensor y = view(in[0].contiguous(), {2, 12});
                               return Tensors{y * y};
                             }});
  add_case("flatten", "images", {2, 3, 2, 2}, [](const Tensor& x) { return flatten(x, 1); });
  add_case("flatten", "middle", {2, 3, 2, 2}, [](const Tensor& x) { return flatten(x, 1, -2); });
  add_case("transpose", "negative dimensions", {2, 3, 4}, [](const Tensor& x) { return transpose(x, -1, 0); });
  add_case("permute", "three dimensions", {2, 3, 4}, [](const Tensor& x) { return permute(x, {2, 0, 1}); });
  add_case("squeeze", "all", {1, 3, 1, 2}, [](const Tensor& x) { return squeeze(x); });
  add_case("squeeze", "one", {1, 3, 1, 2}, [](const Tensor& x) { return squeeze(x, -2); });
  add_case("unsqueeze", "last", {3, 2}, [](const Tensor& x) { return unsqueeze(x, -1); });
  add_case("expand", "both ways", {3, 1}, [](const Tensor& x) { return expand(x, {2, -1, 4}); });
  add_case("select", "row", {3, 4}, [](const Tensor& x) { return select(x, 0, -1); });
  add_case("select", "channel", {2, 3, 2, 2}, [](const Tensor& x) { return select(x, 1, 2); });
  add_case("narrow", "columns", {3, 6}, [](const Tensor& x) { return narrow(x, 1, 2, 3); });
  add_case("narrow", "empty", {3, 6}, [](const Tensor& x) { return cat({narrow(x, 1, 6, 0), x}, 1); });
  add_case("slice", "step", {3, 7}, [](const Tensor& x) { return slice(x, 1, 1, -1, 2); });
  add_case("slice", "channels", {2, 4, 2, 2}, [](const Tensor& x) { return slice(x, 1, 1, 4, 2); });
  add_case("chunk", "uneven", {5, 3}, [](const Tensor& x) {
    const auto c = chunk(x, 2);
    return sum(c[0] * 2) * sum(c[1]);
  });
  add_case("split", "sizes", {5, 3}, [](const Tensor& x) {
    const auto c = split(x, {1, 4}, 0);
    return sum(c[0] * 2) * sum(c[1].square());
  });
  add_case("split", "uneven", {5, 3}, [](const Tensor& x) {
    const auto c = split(x, 2);
    return c[0] * c[1] + c[2];
  });
  add_case("contiguous", "of a transpose", {4, 6}, [](const Tensor& x) { return contiguous(x.t()); });
  add_case("contiguous", "channels-last", {2, 3, 4, 2},
           [](const Tensor& x) { return contiguous(x, MemoryFormat::channels_last); });
  add_case("clone", "matrix", {4, 6}, [](const Tensor& x) { return clone(x); });
  add_case("sum_to", "rows", {3, 4}, [](const Tensor& x) { return sum_to(x, {4}); });
  add_case("sum_to", "ones kept", {2, 3, 4}, [](const Tensor& x) { return sum_to(x, {3, 1}); });
  table.cases.push_back({.op = "to",
                         .variant = "f64",
                         .inputs = [] { return Tensors{random({4})}; },
                         .f = [](const Tensors& in) { return Tensors{to(in[0], f64).square()}; }});

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  error("reshape", "does not fit", [] { reshape(zeros({10}), {3, -1}); }, {"reshape", "10 elements", "[3, -1]"});
  error("reshape", "two unknown", [] { reshape(zeros({10}), {-1, -1}); }, {"reshape", "only one", "-1"});
  error("reshape", "negative", [] { reshape(zeros({10}), {-2, 5}); }, {"reshape", "-2", "negative"});
  error("reshape", "ambiguous", [] { reshape(zeros({4, 0}), {0, -1}); }, {"reshape", "ambiguous", "[0, -1]"});
  error("view", "needs a copy", [] { view(zeros({3, 4}).t(), {12}); }, {"view", "reshape()"});
  error("permute", "twice", [] { permute(zeros({2, 3}), {0, 0}); }, {"permute", "0", "twice"});
  error("transpose", "dimension", [] { transpose(zeros({2, 3}), 0, 2); }, {"transpose", "dimension 2", "-2 to 1"});
  error("expand", "size", [] { expand(zeros({2, 3}), {2, 4}); }, {"expand", "3", "4"});
  error("select", "index", [] { select(zeros({2, 3}), 1, 3); }, {"select", "index 3", "-3 to 2"});
  error("select", "0-d", [] { select(zeros({}), 0, 0); }, {"select", "0-d"});
  error("narrow", "range", [] { narrow(zeros({5}), 0, 3, 3); }, {"narrow", "3 elements from 3", "5"});
  error("slice", "step", [] { slice(zeros({5}), 0, {}, {}, 0); }, {"slice", "step", "0"});
  error("split", "sizes", [] { split(zeros({5}), {2, 2}, 0); }, {"split", "4", "5"});
  error("split", "size", [] { split(zeros({5}), 0); }, {"split", "at least 1"});
  error("to", "device", [] { to(zeros({5}), Device::cuda(63)); }, {"cuda:63"});
}

}  // namespace spool::test
