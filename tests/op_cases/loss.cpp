#include "op_case.h"

namespace spool::test {

void add_loss_cases(OpTable& table) {
  const auto add = [&](const char* op, const char* variant, Shape shape, std::function<Tensor(const Tensor&, const Tensor&)> f) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs =
                               [=] {
                                 return Tensors{random(shape, -1.5, 1.5, 1), random(shape, 0, 1, 2)};
                               },
                           .f = [f](const Tensors& in) { return Tensors{f(in[0], in[1])}; }});
  };
  const auto add_reductions = [&](const char* op, auto f) {
    add(op, "mean", {4, 3}, [f](const Tensor& x, const Tensor& t) { return f(x, t, Reduction::mean); });
    add(op, "sum of pictures", {2, 3, 2, 2}, [f](const Tensor& x, const Tensor& t) { return f(x, t, Reduction::sum); });
    add(op, "none", {5}, [f](const Tensor& x, const Tensor& t) { return f(x, t, Reduction::none); });
    add(op, "0-d", {}, [f](const Tensor& x, const Tensor& t) { return f(x, t, Reduction::mean); });
    add(op, "sum of nothing", {0, 3}, [f](const Tensor& x, const Tensor& t) { return f(x, t, Reduction::sum); });
  };
  add_reductions("mse_loss", [](const Tensor& x, const Tensor& t, Reduction r) { return mse_loss(x, t, {.reduction = r}); });
  add_reductions("l1_loss", [](const Tensor& x, const Tensor& t, Reduction r) { return l1_loss(x, t, {.reduction = r}); });
  add_reductions("smooth_l1_loss", [](const Tensor& x, const Tensor& t, Reduction r) {
    return smooth_l1_loss(x, t, {.beta = 0.7, .reduction = r});
  });
  add("smooth_l1_loss", "beta 0", {4, 3}, [](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t, {.beta = 0}); });
  add_reductions("binary_cross_entropy_with_logits", [](const Tensor& x, const Tensor& t, Reduction r) {
    return binary_cross_entropy_with_logits(x, t, {.reduction = r});
  });
  add("binary_cross_entropy_with_logits", "pos_weight", {4, 3}, [](const Tensor& x, const Tensor& t) {
    return binary_cross_entropy_with_logits(x, t,
                                            {.pos_weight = tensor({0.5, 1, 3}, {.dtype = x.dtype(), .device = x.device()})});
  });

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  error("mse_loss", "column against vector",
        [] {
          mse_loss(zeros({4, 1}), zeros({4}));
        },
        {"mse_loss", "one shape", "[4, 1]", "[4]"});
  error("l1_loss", "transposed", [] { l1_loss(zeros({2, 3}), zeros({3, 2})); }, {"l1_loss", "[2, 3]", "[3, 2]"});
  error("smooth_l1_loss", "0-d target", [] { smooth_l1_loss(zeros({2, 3}), zeros({})); }, {"smooth_l1_loss", "[2, 3]", "[]"});
  error("smooth_l1_loss", "beta", [] { smooth_l1_loss(zeros({2}), zeros({2}), {.beta = -1}); }, {"smooth_l1_loss", "beta", "-1"});
  error("binary_cross_entropy_with_logits", "column against vector",
        [] {
          binary_cross_entropy_with_logits(zeros({4, 1}), zeros({4}));
        },
        {"binary_cross_entropy_with_logits", "[4, 1]", "[4]"});
  error("binary_cross_entropy_with_logits", "pos_weight",
        [] {
          binary_cross_entropy_with_logits(zeros({4, 2}), zeros({4, 2}), {.pos_weight = zeros({3})});
        },
        {"binary_cross_entropy_with_logits", "pos_weight", "[3]"});
  error("mse_loss", "integers", [] { mse_loss(zeros({4}, {.dtype = i64}), zeros({4}, {.dtype = i64})); },
        {"mse_loss", "floating point", "i64"});
}

}  // namespace spool::test
