#include "op_case.h"

namespace spool::test {

void add_softmax_cases(OpTable& table) {
  const auto both = [&](const char* variant, Shape x, int dim) {
    table.cases.push_back({.op = "softmax",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(x, -3, 3)}; },
                           .f = [dim](const Tensors& in) { return Tensors{softmax(in[0], dim)}; }});
    table.cases.push_back({.op = "log_softmax",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(x, -3, 3)}; },
                           .f = [dim](const Tensors& in) { return Tensors{log_softmax(in[0], dim)}; }});
  };
  both("rows", {3, 5}, 1);
  both("columns", {4, 3}, 0);
  both("channels of images", {2, 3, 2, 2}, 1);
  both("last of three", {2, 3, 20}, -1);
  both("vector", {4}, 0);
  both("no rows", {0, 3}, 1);

  const auto labels = [](std::vector<std::int64_t> values, Shape shape) { return tensor(values, shape); };
  const auto entropy = [&](const char* variant, Shape x, Tensor target, CrossEntropyOptions o) {
    table.cases.push_back({.op = "cross_entropy",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(x, -3, 3)}; },
                           .f =
                               [=](const Tensors& in) {
                                 CrossEntropyOptions there = o;
                                 if (o.weight.defined()) there.weight = o.weight.to(in[0].device());
                                 return Tensors{cross_entropy(in[0], target.to(in[0].device()), there)};
                               }});
    if (o.label_smoothing > 0) return;
    table.cases.push_back({.op = "nll_loss",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(x, -3, -1)}; },
                           .f =
                               [=](const Tensors& in) {
                                 const Device device = in[0].device();
                                 const Tensor y = nll_loss(in[0], target.to(device),
                                                           {.weight = o.weight.defined() ? o.weight.to(device) : o.weight,
                                                            .ignore_index = o.ignore_index,
                                                            .reduction = o.reduction});
                                 return Tensors{y * y};
                               }});
  };
  const Tensor four = labels({0, 2, 1, 2}, {4});
  const Tensor weights = tensor(std::vector<float>{0.5F, 2, 1.25F}, {3});
  entropy("mean", {4, 3}, four, {});
  entropy("sum", {4, 3}, four, {.reduction = Reduction::sum});
  entropy("none", {4, 3}, four, {.reduction = Reduction::none});
  entropy("weights", {4, 3}, four, {.weight = weights});
  entropy("weights, none", {4, 3}, four, {.weight = weights, .reduction = Reduction::none});
  entropy("ignored labels", {4, 3}, labels({0, -100, 1, -100}, {4}), {});
  entropy("a class ignored", {4, 3}, four, {.ignore_index = 2});
  entropy("smoothing", {4, 3}, four, {.label_smoothing = 0.1});
  entropy("smoothing, weights, ignored", {4, 3}, labels({0, -100, 1, 2}, {4}), {.weight = weights, .label_smoothing = 0.3});
  entropy("images", {2, 3, 2, 2}, labels({0, 2, 1, 2, 1, 1, 0, -100}, {2, 2, 2}), {});
  entropy("images, none", {2, 3, 2, 1}, labels({0, 2, 1, 2}, {2, 2, 1}), {.reduction = Reduction::none});
  entropy("one sample", {3}, labels({1}, {}), {});
  entropy("one class", {3, 1}, labels({0, 0, 0}, {3}), {});
  table.cases[table.cases.size() - 2].zero_gradient = true;
  entropy("no samples, sum", {0, 3}, labels({}, {0}), {.reduction = Reduction::sum});

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  error("softmax", "dimension", [] { softmax(zeros({2, 3}), 2); }, {"softmax", "dimension 2", "-2 to 1"});
  error("softmax", "integers", [] { softmax(zeros({2, 3}, {.dtype = i64}), 1); }, {"i64", "to(f32)"});
  error("cross_entropy", "label too large",
        [=] {
          cross_entropy(zeros({4, 3}), labels({0, 1, 3, 7}, {4}));
        },
        {"cross_entropy", "label 3 at position [2]", "0 to 2"});
  error("cross_entropy", "label of an image",
        [=] {
          cross_entropy(zeros({1, 3, 2, 2}), labels({0, 1, -1, 2}, {1, 2, 2}));
        },
        {"label -1 at position [0, 1, 0]", "0 to 2", "-100"});
  error("nll_loss", "label",
        [=] {
          nll_loss(zeros({2, 3}), labels({0, -101}, {2}));
        },
        {"nll_loss", "label -101 at position [1]"});
  error("cross_entropy", "target's shape",
        [=] {
          cross_entropy(zeros({4, 3}), labels({0, 1, 2}, {3}));
        },
        {"target has shape [3], expected [4]"});
  error("cross_entropy", "target of one column",
        [=] {
          cross_entropy(zeros({2, 3}), labels({0, 1}, {2, 1}));
        },
        {"[2, 1]", "expected [2]"});
  error("cross_entropy", "probabilities", [] { cross_entropy(zeros({4, 3}), zeros({4, 3})); }, {"i64", "f32", "probabilities"});
  error("cross_entropy", "weight's shape",
        [=] {
          cross_entropy(zeros({2, 3}), labels({0, 1}, {2}), {.weight = ones({2})});
        },
        {"weight has shape [2], expected [3]"});
  error("cross_entropy", "weight that wants a gradient",
        [=] {
          cross_entropy(zeros({2, 3}), labels({0, 1}, {2}), {.weight = ones({3}).set_requires_grad()});
        },
        {"class weights", "detach()"});
  error("cross_entropy", "smoothing",
        [=] {
          cross_entropy(zeros({2, 3}), labels({0, 1}, {2}), {.label_smoothing = 1.5});
        },
        {"label_smoothing", "1.5"});
  error("cross_entropy", "no classes", [=] { cross_entropy(zeros({2, 0}), labels({0, 0}, {2})); }, {"no classes"});
}

}  // namespace spool::test
