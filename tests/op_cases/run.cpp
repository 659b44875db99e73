#include "run.h"

#include <cmath>

#include "../catch.h"

namespace spool::test {

const OpTable& table() {
  static const OpTable t = [] {
    OpTable all;
    add_elementwise_cases(all);
    add_shape_cases(all);
    add_rearrange_cases(all);
    add_index_cases(all);
    add_reduce_cases(all);
    add_matmul_cases(all);
    add_conv_cases(all);
    add_pool_cases(all);
    add_norm_cases(all);
    add_softmax_cases(all);
    add_loss_cases(all);
    return all;
  }();
  return t;
}

std::string title(const OpCase& c) { return c.op + ": " + c.variant; }

Outcome run(const OpCase& c, const Tensors& inputs) {
  Outcome o;
  o.outputs = c.f(inputs);
  if (!c.differentiable) return o;
  Generator generator(7);
  Tensors roots, weights, wanted;
  for (const Tensor& y : o.outputs)
    if (y.requires_grad()) {
      roots.push_back(y);
      weights.push_back(randn(y.shape(), {.dtype = f64}, generator).to(y.dtype()).to(y.device()));
    }
  for (const Tensor& t : inputs)
    if (t.requires_grad()) wanted.push_back(t);
  REQUIRE_FALSE(roots.empty());
  o.gradients = grad(roots, wanted, {.allow_unused = true}, weights);
  return o;
}

double relative_error(const Tensor& got, const Tensor& want) {
  REQUIRE(got.shape() == want.shape());
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  double scale = 1e-30, worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(b[i])) scale = std::max(scale, std::abs(b[i]));
    if (std::isfinite(a[i]) && std::isfinite(b[i]))
      worst = std::max(worst, std::abs(a[i] - b[i]));
    else if (!(std::isnan(a[i]) && std::isnan(b[i])) && a[i] != b[i])
      return HUGE_VAL;
  }
  return worst / std::max(scale, 1e-3);
}

void compare(const Outcome& got, const Outcome& want, double tolerance) {
  REQUIRE(got.outputs.size() == want.outputs.size());
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    INFO("output " << i << "\ngot " << got.outputs[i] << "\nwant " << want.outputs[i]);
    CHECK(relative_error(got.outputs[i], want.outputs[i]) <= tolerance);
  }
  REQUIRE(got.gradients.size() == want.gradients.size());
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    REQUIRE(got.gradients[i].defined() == want.gradients[i].defined());
    if (!got.gradients[i].defined()) continue;
    INFO("gradient " << i << "\ngot " << got.gradients[i] << "\nwant " << want.gradients[i]);
    CHECK(relative_error(got.gradients[i], want.gradients[i]) <= tolerance);
  }
}

Tensor same(const Tensor& t) { return t; }

Tensor reversed(const Tensor& t) {
  std::vector<int> dims;
  for (int d = t.dim() - 1; d >= 0; --d) dims.push_back(d);
  return permute(permute(t, dims).clone().contiguous(), dims);
}

Tensor window(const Tensor& t) {
  if (t.dim() == 0) return t;
  const Tensor wide = stack({t, t, t}, t.dim());  // every element three times in a row
  return wide.select(t.dim(), 1);
}

}  // namespace spool::test
