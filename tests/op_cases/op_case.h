// The table of op cases: one row says how to call an operation, and tests/op_cases_test.cpp does everything else with it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "spool/spool.h"

namespace spool::test {

using Tensors = std::vector<Tensor>;

struct OpCase {
  std::string op;       // the function of ops.h: "conv2d"
  std::string variant;  // what this row tries: "stride 2, groups"
  // Fresh inputs. Floating ones are f64; the harness makes f32, bf16, transposed and channels-last versions of them, and checks gradients of each.
  std::function<Tensors()> inputs;
  // The call. Must not depend on anything but its arguments (a random operation makes its own Generator).
  std::function<Tensors(const Tensors&)> f;

  bool differentiable = true;  // false: results are integers or booleans; only values are checked
  bool second_order = true;    // check the gradient's gradient as well
  bool bf16 = true;            // run in bf16 too
  bool zero_gradient =
      false;  // the gradient is 0 everywhere (floor); else a gradient of nothing but zeros fails, as it checks nothing
  double f32_tolerance = 1e-4;  // relative to the largest value of each result and gradient, against f64
  double bf16_tolerance = 4e-2;
};

// An illegal call and what its message must contain, each of the words.
struct OpErrorCase {
  std::string op;
  std::string variant;
  std::function<void()> call;
  std::vector<std::string> words;
};

struct OpTable {
  std::vector<OpCase> cases;
  std::vector<OpErrorCase> errors;
};

// Random f64 numbers, away from the kinks of relu and the like: uniform in [low, high), the i-th tensor of a seed.
Tensor random(const Shape& shape, double low = -1, double high = 1, std::uint64_t seed = 1);

// One function a family, each in the file of its name.
void add_elementwise_cases(OpTable& table);
void add_shape_cases(OpTable& table);
void add_rearrange_cases(OpTable& table);
void add_index_cases(OpTable& table);
void add_reduce_cases(OpTable& table);
void add_matmul_cases(OpTable& table);
void add_conv_cases(OpTable& table);
void add_pool_cases(OpTable& table);
void add_norm_cases(OpTable& table);
void add_softmax_cases(OpTable& table);
void add_loss_cases(OpTable& table);

}  // namespace spool::test
