#include "op_case.h"

namespace spool::test {

void add_conv_cases(OpTable& table) {
  const auto conv = [&](const char* variant, Shape x, Shape weight, bool bias, ConvOptions o) {
    table.cases.push_back(
        {.op = "conv2d",
         .variant = variant,
         .inputs =
             [=] {
               Tensors in{random(x, -1, 1, 1), random(weight, -1, 1, 2)};
               if (bias) in.push_back(random({weight[0]}, -1, 1, 3));
               return in;
             },
         .f = [o](const Tensors& in) { return Tensors{conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), o)}; },
         .zero_gradient = x.numel() == 0});
  };
  conv("3x3, padding 1", {2, 3, 5, 4}, {4, 3, 3, 3}, true, {.padding = 1});
  conv("no bias", {1, 2, 4, 4}, {3, 2, 2, 2}, false, {});
  conv("1x1", {2, 3, 3, 3}, {2, 3, 1, 1}, true, {});
  conv("stride that does not divide", {1, 2, 6, 7}, {2, 2, 3, 2}, true, {.stride = 2});
  conv("stride, padding and dilation of two sizes", {1, 2, 7, 8}, {3, 2, 2, 3}, true,
       {.stride = {2, 3}, .padding = {1, 2}, .dilation = {3, 2}});
  conv("groups", {2, 4, 4, 4}, {6, 2, 3, 3}, true, {.padding = 1, .groups = 2});
  conv("groups, dilation and stride", {1, 4, 6, 6}, {4, 2, 2, 2}, true, {.stride = 2, .dilation = 2, .groups = 2});
  conv("depthwise", {1, 3, 4, 4}, {3, 1, 3, 3}, false, {.padding = 1, .groups = 3});
  conv("as large as its input", {2, 2, 3, 3}, {2, 2, 3, 3}, true, {});
  conv("padding of the kernel's size", {1, 1, 2, 2}, {1, 1, 2, 2}, true, {.padding = 2});
  conv("one column", {1, 2, 6, 1}, {2, 2, 3, 1}, true, {.padding = {1, 0}});
  conv("no images", {0, 2, 4, 4}, {3, 2, 3, 3}, true, {});
  conv("17 channels", {1, 17, 3, 3}, {19, 17, 2, 2}, true, {});

  const auto transposed = [&](const char* variant, Shape x, Shape weight, bool bias, ConvTransposeOptions o) {
    table.cases.push_back(
        {.op = "conv_transpose2d",
         .variant = variant,
         .inputs =
             [=] {
               Tensors in{random(x, -1, 1, 1), random(weight, -1, 1, 2)};
               if (bias) in.push_back(random({weight[1] * o.groups}, -1, 1, 3));
               return in;
             },
         .f = [o](const Tensors& in) { return Tensors{conv_transpose2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), o)}; },
         .zero_gradient = x.numel() == 0});
  };
  transposed("plain", {2, 3, 3, 2}, {3, 2, 2, 3}, true, {});
  transposed("stride 2, output padding", {1, 2, 3, 3}, {2, 3, 3, 3}, true, {.stride = 2, .padding = 1, .output_padding = 1});
  transposed("output padding beyond the stride", {1, 2, 3, 2}, {2, 2, 2, 2}, false,
             {.padding = 1, .output_padding = {2, 1}, .dilation = 3});
  transposed("groups and dilation", {1, 4, 3, 3}, {4, 2, 2, 2}, true, {.stride = {1, 2}, .groups = 2, .dilation = {2, 1}});
  transposed("no images", {0, 2, 3, 3}, {2, 3, 2, 2}, true, {});

  const auto error = [&](const char* op, const char* variant, std::function<void()> call, std::vector<std::string> words) {
    table.errors.push_back({op, variant, std::move(call), std::move(words)});
  };
  const auto x = [](Shape s) { return zeros(s); };
  error("conv2d", "kernel larger than its input",
        [=] {
          conv2d(x({1, 1, 2, 2}), x({1, 1, 3, 3}));
        },
        {"conv2d", "kernel is larger", "height is 3", "input's is 2"});
  error("conv2d", "kernel larger than its input, stride 2",
        [=] {
          conv2d(x({1, 1, 2, 2}), x({1, 1, 3, 3}), {}, {.stride = 2});
        },
        {"kernel is larger", "3", "2"});
  error("conv2d", "2x2 on one pixel",
        [=] {
          conv2d(x({1, 1, 1, 1}), x({1, 1, 2, 2}), {}, {.stride = 2});
        },
        {"kernel is larger", "height is 2", "1"});
  error("conv2d", "dilated kernel too large",
        [=] {
          conv2d(x({1, 1, 4, 4}), x({1, 1, 3, 3}), {}, {.dilation = 2});
        },
        {"5 (kernel 3 with dilation 2)", "4"});
  error("conv2d", "wide kernel with padding",
        [=] {
          conv2d(x({1, 1, 9, 1}), x({1, 1, 3, 5}), {}, {.padding = 1});
        },
        {"width is 5", "1 with 1 of padding"});
  error("conv2d", "channels",
        [=] {
          conv2d(x({1, 3, 8, 8}), x({4, 2, 3, 3}));
        },
        {"input has 3 channels, weight expects 2", "[1, 3, 8, 8]", "[4, 2, 3, 3]"});
  error("conv2d", "channels of groups",
        [=] {
          conv2d(x({1, 3, 8, 8}), x({4, 2, 3, 3}), {}, {.groups = 2});
        },
        {"weight expects 4 (2 in each of 2 groups)"});
  error("conv2d", "outputs of groups",
        [=] {
          conv2d(x({1, 4, 8, 8}), x({5, 2, 3, 3}), {}, {.groups = 2});
        },
        {"5 output channels", "2 groups"});
  error("conv2d", "bias", [=] { conv2d(x({1, 1, 4, 4}), x({2, 1, 3, 3}), x({3})); }, {"bias has shape [3]", "[2]"});
  error("conv2d", "three dimensions",
        [=] {
          conv2d(x({1, 4, 4}), x({2, 1, 3, 3}));
        },
        {"input has 3 dimensions", "[N, C, H, W]", "unsqueeze"});
  error("conv2d", "stride",
        [=] {
          conv2d(x({1, 1, 4, 4}), x({2, 1, 3, 3}), {}, {.stride = {1, 0}});
        },
        {"stride must be at least 1", "1x0"});
  error("conv2d", "padding",
        [=] {
          conv2d(x({1, 1, 4, 4}), x({2, 1, 3, 3}), {}, {.padding = -1});
        },
        {"padding must be at least 0", "-1x-1"});
  error("conv2d", "dilation",
        [=] {
          conv2d(x({1, 1, 4, 4}), x({2, 1, 3, 3}), {}, {.dilation = std::int64_t{1} << 62});
        },
        {"dilation must be at most"});
  error("conv2d", "groups",
        [=] {
          conv2d(x({1, 1, 4, 4}), x({2, 1, 3, 3}), {}, {.groups = 0});
        },
        {"groups must be at least 1, not 0"});
  error("conv2d", "types",
        [=] {
          conv2d(x({1, 1, 4, 4}), zeros({2, 1, 3, 3}, {.dtype = f64}));
        },
        {"input is f32 and weight is f64", "to(dtype)"});
  error("conv2d", "integers",
        [=] {
          conv2d(zeros({1, 1, 4, 4}, {.dtype = u8}), zeros({2, 1, 3, 3}, {.dtype = u8}));
        },
        {"u8", "to(f32)"});
  error("conv_transpose2d", "output padding",
        [=] {
          conv_transpose2d(x({1, 2, 4, 4}), x({2, 1, 3, 3}), {}, {.stride = 2, .output_padding = 2});
        },
        {"output_padding 2x2", "stride 2x2"});
  error("conv_transpose2d", "channels",
        [=] {
          conv_transpose2d(x({1, 3, 4, 4}), x({2, 1, 3, 3}));
        },
        {"input has 3 channels, weight expects 2"});
  error("conv_transpose2d", "groups",
        [=] {
          conv_transpose2d(x({1, 3, 4, 4}), x({3, 1, 3, 3}), {}, {.groups = 2});
        },
        {"3 input channels", "2 groups"});
  error("conv_transpose2d", "nothing left",
        [=] {
          conv_transpose2d(x({1, 1, 1, 1}), x({1, 1, 1, 1}), {}, {.padding = 1});
        },
        {"-1x-1", "padding 1x1"});
}

}  // namespace spool::test
