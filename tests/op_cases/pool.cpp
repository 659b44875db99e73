#include "op_case.h"

namespace spool::test {

void add_pool_cases(OpTable& table) {
  // Distinct values, so that no maximum changes under a small step: a shuffled range.
  const auto distinct = [](const Shape& shape) {
    Generator generator(5);
    return reshape(randperm(shape.numel(), generator).to(f64), shape) * (1 / static_cast<double>(shape.numel()));
  };
  const auto maximum = [&](const char* variant, Shape x, MaxPool2dOptions o) {
    // Squared: a maximum is linear, and would have nothing to differentiate twice.
    table.cases.push_back({.op = "max_pool2d",
                           .variant = variant,
                           .inputs = [=] { return Tensors{distinct(x)}; },
                           .f = [o](const Tensors& in) { return Tensors{square(max_pool2d(in[0], o))}; }});
  };
  maximum("2x2", {2, 3, 4, 6}, {.kernel_size = 2});
  maximum("rows and columns left over", {2, 3, 5, 7}, {.kernel_size = {2, 3}});
  maximum("overlapping, padded", {1, 2, 5, 6}, {.kernel_size = 3, .stride = 2, .padding = 1});
  maximum("stride of two sizes", {1, 2, 5, 6}, {.kernel_size = 2, .stride = {2, 1}});
  maximum("stride 1", {1, 2, 4, 4}, {.kernel_size = {1, 3}, .stride = 1});
  maximum("gaps", {1, 2, 7, 7}, {.kernel_size = 2, .stride = 3});
  maximum("dilated", {1, 2, 6, 7}, {.kernel_size = 2, .stride = 1, .dilation = {2, 3}});
  maximum("ceil_mode", {1, 2, 5, 6}, {.kernel_size = 2, .stride = 2, .ceil_mode = true});
  maximum("ceil_mode, padded and overlapping", {1, 2, 6, 5}, {.kernel_size = 3, .stride = 2, .padding = 1, .ceil_mode = true});
  maximum("a kernel of more than 256", {1, 1, 18, 18}, {.kernel_size = 17, .stride = 1});
  maximum("20 channels", {1, 20, 4, 4}, {.kernel_size = 2});
  maximum("no images", {0, 2, 4, 4}, {.kernel_size = 2});

  const auto average = [&](const char* variant, Shape x, AvgPool2dOptions o) {
    table.cases.push_back({.op = "avg_pool2d",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(x)}; },
                           .f = [o](const Tensors& in) { return Tensors{square(avg_pool2d(in[0], o))}; }});
  };
  average("2x2", {2, 3, 4, 6}, {.kernel_size = 2});
  average("overlapping, padded", {1, 2, 5, 6}, {.kernel_size = {3, 2}, .stride = Size2{2, 1}, .padding = 1});
  average("padding not counted", {1, 2, 5, 6}, {.kernel_size = 3, .stride = 2, .padding = 1, .count_include_pad = false});
  average("ceil_mode", {1, 2, 5, 6}, {.kernel_size = 3, .stride = 2, .padding = 1, .ceil_mode = true});
  average("ceil_mode, padding not counted", {1, 18, 6, 5},
          {.kernel_size = 3, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  average("no images", {0, 2, 4, 4}, {.kernel_size = 2});

  const auto adaptive = [&](const char* variant, Shape x, Size2 size) {
    table.cases.push_back({.op = "adaptive_avg_pool2d",
                           .variant = variant,
                           .inputs = [=] { return Tensors{random(x)}; },
                           .f = [size](const Tensors& in) { return Tensors{square(adaptive_avg_pool2d(in[0], size))}; }});
  };
  adaptive("to one pixel", {2, 3, 4, 5}, 1);
  adaptive("windows of unequal size", {1, 2, 5, 7}, {3, 2});
  adaptive("to more pixels than there are", {1, 2, 3, 2}, {5, 4});
  adaptive("no images", {0, 2, 4, 4}, 2);

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  const auto x = [](Shape s) { return zeros(s); };
  error("max_pool2d", "kernel larger than its input",
        [=] {
          max_pool2d(x({1, 1, 2, 2}), {.kernel_size = 3});
        },
        {"max_pool2d", "kernel is larger", "height is 3", "input's is 2"});
  error("max_pool2d", "dilated kernel too large",
        [=] {
          max_pool2d(x({1, 1, 1, 8}), {.kernel_size = 3, .stride = 4, .padding = 1, .dilation = 2, .ceil_mode = true});
        },
        {"kernel is larger", "5 (kernel 3 with dilation 2)", "1 with 1 of padding"});
  error("max_pool2d", "dilated window that steps over its input",
        [=] {
          max_pool2d(x({1, 1, 1, 9}), {.kernel_size = {2, 1}, .stride = 1, .padding = {1, 0}, .dilation = 2});
        },
        {"covers nothing of the input", "kernel 2x1"});
  error("max_pool2d", "padding beyond half of the kernel",
        [=] {
          max_pool2d(x({1, 1, 1, 1}), {.kernel_size = 3, .padding = 3});
        },
        {"padding 3x3", "half of the kernel 3x3"});
  error("max_pool2d", "stride",
        [=] {
          max_pool2d(x({1, 1, 4, 4}), {.kernel_size = 2, .stride = 0});
        },
        {"stride must be at least 1", "0x0"});
  error("max_pool2d", "three dimensions",
        [=] {
          max_pool2d(x({1, 4, 4}), {.kernel_size = 2});
        },
        {"input has 3 dimensions", "[N, C, H, W]"});
  error("max_pool2d", "integers", [=] { max_pool2d(zeros({1, 1, 4, 4}, {.dtype = u8}), {.kernel_size = 2}); }, {"u8", "to(f32)"});
  error("avg_pool2d", "padding beyond half of the kernel",
        [=] {
          avg_pool2d(x({1, 1, 1, 1}), {.kernel_size = 3, .padding = 3});
        },
        {"padding 3x3", "half of the kernel 3x3"});
  error("avg_pool2d", "kernel",
        [=] {
          avg_pool2d(x({1, 1, 4, 4}), {.kernel_size = {0, 2}});
        },
        {"kernel_size must be at least 1", "0x2"});
  error("avg_pool2d", "kernel larger than its input",
        [=] {
          avg_pool2d(x({1, 1, 4, 2}), {.kernel_size = 3});
        },
        {"kernel is larger", "width is 3", "2"});
  error("adaptive_avg_pool2d", "output size",
        [=] {
          adaptive_avg_pool2d(x({1, 1, 4, 4}), {2, 0});
        },
        {"output_size must be at least 1", "2x0"});
  error("adaptive_avg_pool2d", "no pixels", [=] { adaptive_avg_pool2d(x({1, 1, 0, 4}), 2); }, {"no pixels"});
}

}  // namespace spool::test
