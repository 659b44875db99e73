// The network of the example: two convolutions and two linear layers, 1,070,986 parameters.
#pragma once
#include <spool/spool.h>

struct ConvNet : spool::Module {
  spool::Conv2d& conv1 = add<spool::Conv2d>("conv1", {.in_channels = 3, .out_channels = 32, .kernel_size = 3, .padding = 1});
  spool::BatchNorm2d& bn1 = add<spool::BatchNorm2d>("bn1", {.num_features = 32});
  spool::Conv2d& conv2 = add<spool::Conv2d>("conv2", {.in_channels = 32, .out_channels = 64, .kernel_size = 3, .padding = 1});
  spool::BatchNorm2d& bn2 = add<spool::BatchNorm2d>("bn2", {.num_features = 64});
  spool::Linear& fc1 = add<spool::Linear>("fc1", {.in_features = 64 * 8 * 8, .out_features = 256});
  spool::Linear& fc2 = add<spool::Linear>("fc2", {.in_features = 256, .out_features = 10});

  // x [N, 3, 32, 32] -> logits [N, 10]
  spool::Tensor forward(const spool::Tensor& x) override {
    spool::Tensor h = bn1.relu_max_pool2d(conv1(x), {.kernel_size = 2});
    h = bn2.relu_max_pool2d(conv2(h), {.kernel_size = 2});
    return fc2(relu(fc1(flatten(h, 1))));
  }
};
