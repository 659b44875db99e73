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
               Tensor mean = random({x[1]}, -1, 1, 4).to(in[0].dtype()).to(in[0].device()),
                      var = random({x[1]}, 0.5, 1.5, 5).to(in[0].dtype()).to(in[0].device());
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

  // `call` gets x, weight, bias, running statistics, options and, where there is to be one, a residual.
  const auto fused = [&](const char* op, const char* variant, Shape x, bool affine, bool training, bool residual, auto call,
                         double least_weight = 0.5) {
    table.cases.push_back({.op = op,
                           .variant = variant,
                           .inputs =
                               [=] {
                                 Tensors in{random(x, -1, 1, 1) * 2 + 0.5};
                                 if (affine) {
                                   in.push_back(random({x[1]}, least_weight, 1.5, 2));
                                   in.push_back(random({x[1]}, -0.5, 0.5, 3));
                                 }
                                 if (residual) in.push_back(random(x, -1, 1, 6));
                                 return in;
                               },
                           .f =
                               [=](const Tensors& in) {
                                 Tensor mean = random({x[1]}, -1, 1, 4).to(in[0].dtype()).to(in[0].device()),
                                        var = random({x[1]}, 0.5, 1.5, 5).to(in[0].dtype()).to(in[0].device());
                                 const Tensor none;
                                 return Tensors{call(in[0], affine ? in[1] : none, affine ? in[2] : none, mean, var,
                                                     BatchNormOptions{.training = training}, residual ? in.back() : none)};
                               },
                           .bf16_tolerance = 8e-2});
  };
  const auto with_relu = [](const Tensor& x, const Tensor& w, const Tensor& b, Tensor& m, Tensor& v, const BatchNormOptions& o,
                            const Tensor& residual) { return batch_norm_relu(x, w, b, m, v, o, residual); };
  const char* op = "batch_norm_relu";
  fused(op, "images, training", {3, 4, 3, 2}, true, true, false, with_relu);
  fused(op, "images, 33 channels, weights of both signs", {2, 33, 2, 2}, true, true, false, with_relu, -1.5);
  fused(op, "images, without weight, residual", {2, 3, 3, 3}, false, true, true, with_relu);
  fused(op, "rows, residual", {6, 5}, true, true, true, with_relu);
  fused(op, "sequences", {3, 2, 4}, true, true, false, with_relu);
  fused(op, "images, running statistics, residual", {2, 3, 4, 2}, true, false, true, with_relu);
  const auto with_pool = [](const MaxPool2dOptions& pool) {
    return [pool](const Tensor& x, const Tensor& w, const Tensor& b, Tensor& m, Tensor& v, const BatchNormOptions& o,
                  const Tensor&) { return batch_norm_relu_max_pool2d(x, w, b, m, v, pool, o); };
  };
  op = "batch_norm_relu_max_pool2d";
  fused(op, "2x2, training", {2, 4, 4, 6}, true, true, false, with_pool({.kernel_size = 2}));
  fused(op, "2x2, odd sizes, 17 channels, weights of both signs", {2, 17, 3, 5}, true, true, false, with_pool({.kernel_size = 2}),
        -1.5);
  fused(op, "3x2, without weight", {2, 3, 7, 4}, false, true, false, with_pool({.kernel_size = {3, 2}}));
  fused(op, "2x2, running statistics", {2, 3, 4, 5}, true, false, false, with_pool({.kernel_size = 2}));
  fused(op, "overlapping windows, padded", {2, 3, 5, 5}, true, true, false,
        with_pool({.kernel_size = 3, .stride = 2, .padding = 1}));

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

  const auto error = [&](const char* name, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({name, variant, std::move(call), std::move(words)});
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
  error("batch_norm_relu", "residual",
        [] {
          Tensor none;
          batch_norm_relu(zeros({4, 3}), {}, {}, none, none, {.training = true}, zeros({3}));
        },
        {"residual must have the shape", "[4, 3]", "[3]"});
  error("batch_norm_relu_max_pool2d", "pool",
        [] {
          Tensor none;
          batch_norm_relu_max_pool2d(zeros({2, 3, 4, 4}), {}, {}, none, none, {.kernel_size = 5}, {.training = true});
        },
        {"max_pool2d", "5", "height"});
  error("layer_norm", "shape", [] { layer_norm(zeros({4, 3}), {4}); }, {"normalized_shape [4]", "[4, 3]"});
  error("layer_norm", "weight", [] { layer_norm(zeros({4, 3}), {3}, zeros({4})); }, {"weight has shape [4]", "[3]"});
  error("group_norm", "groups", [] { group_norm(zeros({4, 3}), 2); }, {"3 channels", "2 groups"});
  error("dropout", "negative", [] { dropout(zeros({4}), -0.1); }, {"between 0 and 1, not -0.1"});
  error("dropout", "above 1", [] { dropout(zeros({4}), 1.1); }, {"between 0 and 1, not 1.1"});
  error("dropout", "integers", [] { dropout(zeros({4}, {.dtype = i64})); }, {"i64", "to(f32)"});
}

}  // namespace spool::test
