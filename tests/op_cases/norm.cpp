#include "op_case.h"

namespace spool::test {

void add_norm_cases(OpTable& table) {
  // Running statistics are made by the call: it changes them.
  const auto batch = [&](const char* variant, Shape x, bool affine, bool training) {
    table.cases.push_back(
        {.op = "batch_norm",
         .variant = variant,
         .inputs =
             [=] {
               Tensors in{random(x, -1, 1, 1) * 2 + 0.5};
               if (affine) {
                 in.push_back(random({x[1]}, 0.5, 1.5, 2));
                 in.push_back(random({x[1]}, -1, 1, 3));
               }
               return in;
             },
         .f =
             [=](const Tensors& in) {
               Tensor mean = random({x[1]}, -1, 1, 4).to(in[0].dtype()), var = random({x[1]}, 0.5, 1.5, 5).to(in[0].dtype());
               const Tensor none;
               return Tensors{batch_norm(in[0], affine ? in[1] : none, affine ? in[2] : none, mean, var, {.training = training})};
             },
         .zero_gradient = x.numel() == 0,
         .bf16_tolerance = 6e-2});
  };
  batch("images, training", {3, 4, 3, 2}, true, true);
  batch("images, without weight", {2, 3, 4, 4}, false, true);
  batch("rows, training", {6, 5}, true, true);
  batch("rows, 33 channels", {4, 33}, true, true);
  batch("sequences, training", {3, 2, 4}, true, true);
  batch("volumes, training", {2, 2, 2, 2, 3}, true, true);
  batch("images, running statistics", {2, 3, 4, 2}, true, false);
  batch("rows, running statistics, without weight", {4, 3}, false, false);
  batch("sequences, running statistics", {3, 2, 4}, true, false);
  batch("no images, running statistics", {0, 3, 2, 2}, true, false);
  table.cases.push_back({.op = "batch_norm",
                         .variant = "without running statistics, weight alone",
                         .inputs =
                             [] {
                               return Tensors{random({5, 3}), random({3}, 0.5, 1.5, 2)};
                             },
                         .f =
                             [](const Tensors& in) {
                               Tensor none;
                               return Tensors{batch_norm(in[0], in[1], {}, none, none, {.training = true})};
                             },
                         .bf16_tolerance = 6e-2});

  const auto layer = [&](const char* variant, Shape x, Shape normalized, bool affine) {
    table.cases.push_back({.op = "layer_norm",
                           .variant = variant,
                           .inputs =
                               [=] {
                                 Tensors in{random(x, -1, 1, 1) * 2 + 0.5};
                                 if (affine) {
                                   in.push_back(random(normalized, 0.5, 1.5, 2));
                                   in.push_back(random(normalized, -1, 1, 3));
                                 }
                                 return in;
                               },
                           .f =
                               [=](const Tensors& in) {
                                 return Tensors{affine ? layer_norm(in[0], normalized, in[1], in[2])
                                                       : layer_norm(in[0], normalized)};
                               },
                           .zero_gradient = x.numel() == 0,
                           .bf16_tolerance = 6e-2});
  };
  layer("rows", {3, 5}, {5}, true);
  layer("without weight", {3, 5}, {5}, false);
  layer("two dimensions", {2, 3, 4}, {3, 4}, true);
  layer("33 columns", {2, 2, 33}, {33}, true);
  layer("no rows", {0, 4}, {4}, true);

  const auto group = [&](const char* variant, Shape x, std::int64_t groups, bool affine) {
    table.cases.push_back({.op = "group_norm",
                           .variant = variant,
                           .inputs =
                               [=] {
                                 Tensors in{random(x, -1, 1, 1) * 2 + 0.5};
                                 if (affine) {
                                   in.push_back(random({x[1]}, 0.5, 1.5, 2));
                                   in.push_back(random({x[1]}, -1, 1, 3));
                                 }
                                 return in;
                               },
                           .f =
                               [=](const Tensors& in) {
                                 return Tensors{affine ? group_norm(in[0], groups, in[1], in[2]) : group_norm(in[0], groups)};
                               },
                           .bf16_tolerance = 6e-2});
  };
  group("images", {2, 4, 3, 2}, 2, true);
  group("each channel by itself", {2, 3, 4}, 3, true);
  group("rows, one group", {3, 6}, 1, false);

  const auto drop = [&](const char* variant, Shape x, double p, bool training) {
    table.cases.push_back({.op = "dropout",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(x)}; },
                           .f =
                               [=](const Tensors& in) {
                                 Generator generator(3);
                                 return Tensors{square(dropout(in[0], p, training, generator))};
                               },
                           .zero_gradient = p == 1});
  };
  drop("half", {5, 7}, 0.5, true);
  drop("images", {2, 3, 4, 5}, 0.3, true);
  drop("nothing", {4}, 0, true);
  drop("everything", {4}, 1, true);
  drop("not training", {4}, 0.5, false);

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  const auto batch_error = [&](const char* variant, Shape x, Shape weight, Shape running, BatchNormOptions o,
                               std::vector<std::string> words) {
    error(
        "batch_norm", variant,
        [=] {
          Tensor mean = zeros(running), var = ones(running);
          batch_norm(zeros(x), ones(weight), {}, mean, var, o);
        },
        std::move(words));
  };
  batch_error("one value per channel", {1, 3}, {3}, {3}, {.training = true}, {"at least two values per channel", "has 1"});
  batch_error("one dimension", {3}, {3}, {3}, {}, {"1 dimensions", "[N, C, ...]"});
  batch_error("weight", {4, 3}, {2}, {3}, {}, {"weight has shape [2]", "[3]"});
  batch_error("running_mean", {4, 3}, {3}, {2}, {}, {"running_mean has shape [2]", "[3]"});
  batch_error("eps", {4, 3}, {3}, {3}, {.eps = -1}, {"eps must be at least 0, not -1"});
  error("batch_norm", "no statistics",
        [] {
          Tensor none;
          batch_norm(zeros({4, 3}), {}, {}, none, none);
        },
        {"running statistics are needed"});
  error("layer_norm", "shape", [] { layer_norm(zeros({4, 3}), {4}); }, {"normalized_shape [4]", "[4, 3]"});
  error("layer_norm", "weight", [] { layer_norm(zeros({4, 3}), {3}, zeros({4})); }, {"weight has shape [4]", "[3]"});
  error("group_norm", "groups", [] { group_norm(zeros({4, 3}), 2); }, {"3 channels", "2 groups"});
  error("dropout", "negative", [] { dropout(zeros({4}), -0.1); }, {"between 0 and 1, not -0.1"});
  error("dropout", "above 1", [] { dropout(zeros({4}), 1.1); }, {"between 0 and 1, not 1.1"});
  error("dropout", "integers", [] { dropout(zeros({4}, {.dtype = i64})); }, {"i64", "to(f32)"});
}

}  // namespace spool::test
