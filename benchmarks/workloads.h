// The networks that the benchmarks train and run.
#pragma once
#include "../examples/cifar10/convnet.h"

// Four linear layers, 64-64-64-64-10: small enough for what surrounds the arithmetic to show.
struct Mlp : spool::Module {
  spool::Linear& fc1 = add<spool::Linear>("fc1", {.in_features = 64, .out_features = 64});
  spool::Linear& fc2 = add<spool::Linear>("fc2", {.in_features = 64, .out_features = 64});
  spool::Linear& fc3 = add<spool::Linear>("fc3", {.in_features = 64, .out_features = 64});
  spool::Linear& fc4 = add<spool::Linear>("fc4", {.in_features = 64, .out_features = 10});
  spool::Tensor forward(const spool::Tensor& x) override { return fc4(relu(fc3(relu(fc2(relu(fc1(x))))))); }
};

// He et al., "Deep residual learning for image recognition" (2015), with the first layer that suits 32x32 pictures.
struct BasicBlock : spool::Module {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(add<spool::Conv2d>(
            "conv1", {.in_channels = in, .out_channels = out, .kernel_size = 3, .stride = stride, .padding = 1, .bias = false})),
        bn1(add<spool::BatchNorm2d>("bn1", {.num_features = out})),
        conv2(add<spool::Conv2d>("conv2",
                                 {.in_channels = out, .out_channels = out, .kernel_size = 3, .padding = 1, .bias = false})),
        bn2(add<spool::BatchNorm2d>("bn2", {.num_features = out})) {
    if (stride == 1 && in == out) return;
    shortcut = &add<spool::Sequential>("shortcut");
    shortcut->append<spool::Conv2d>({.in_channels = in, .out_channels = out, .kernel_size = 1, .stride = stride, .bias = false});
    shortcut->append<spool::BatchNorm2d>({.num_features = out});
  }
  spool::Tensor forward(const spool::Tensor& x) override {
    return bn2.add_relu(conv2(bn1.relu(conv1(x))), shortcut ? (*shortcut)(x) : x);
  }
  spool::Conv2d& conv1;
  spool::BatchNorm2d& bn1;
  spool::Conv2d& conv2;
  spool::BatchNorm2d& bn2;
  spool::Sequential* shortcut = nullptr;
};

struct ResNet18 : spool::Module {
  spool::Conv2d& conv1 =
      add<spool::Conv2d>("conv1", {.in_channels = 3, .out_channels = 64, .kernel_size = 3, .padding = 1, .bias = false});
  spool::BatchNorm2d& bn1 = add<spool::BatchNorm2d>("bn1", {.num_features = 64});
  spool::Sequential& blocks = add<spool::Sequential>("blocks");
  spool::Linear& fc = add<spool::Linear>("fc", {.in_features = 512, .out_features = 10});
  ResNet18() {
    std::int64_t in = 64;
    for (const std::int64_t out : {64, 128, 256, 512})
      for (const std::int64_t stride : {out == 64 ? 1 : 2, 1}) {
        blocks.append<BasicBlock>(in, out, stride);
        in = out;
      }
  }
  spool::Tensor forward(const spool::Tensor& x) override {
    return fc(flatten(adaptive_avg_pool2d(blocks(bn1.relu(conv1(x))), 1), 1));
  }
};
