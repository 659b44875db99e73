// Softmax and its logarithm.
#include "spool/kernels/softmax.h"

#include "spool/autograd/autocast.h"
#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"
#include "spool/autograd/ops.h"
#include "spool/autograd/ops/checks.h"
#include "spool/kernels/elementwise.h"

namespace spool {
namespace {

// The elements of t in the memory order of `like`.
Tensor laid_out_like(const Tensor& t, const Tensor& like) {
  if (t.strides() == like.strides()) return t;
  Tensor c = empty_like(like, t.dtype());
  kernels::copy(t, c);
  return c;
}

struct SoftmaxNode final : Node {
  Saved y{this, "output"};
  int dim = 0;
  bool log = false;
  SoftmaxNode() : Node("softmax") {}
  void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
    const Tensor output = y.get(), &g = grad_out[0];
    if (grad_enabled()) {
      grad_in[0] = log ? sub(g, mul(exp(output), sum(g, {dim}, true))) : mul(output, sub(g, sum(mul(g, output), {dim}, true)));
      return;
    }
    grad_in[0] = empty_like(output);
    kernels::softmax_backward(output, laid_out_like(g, output), grad_in[0], dim, log);
  }
};

Tensor normalised(const char* op, const Tensor& input, int along, bool log) {
  detail::check_same_floating(op, {{"input", input}});
  const int dim = wrap_dim(op, along, input.dim());
  const Tensor x = is_dense(input) ? input : contiguous(input);
  Tensor y = empty_like(x);
  kernels::softmax(x, y, dim, log);
  if (!needs_grad(x)) return y;
  auto node = record<SoftmaxNode>(x);
  node->op = op;
  node->y.save_output(y);
  node->dim = dim;
  node->log = log;
  return set_history(std::move(y), std::move(node));
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) { return normalised("softmax", detail::raised(x), dim, false); }
Tensor log_softmax(const Tensor& x, int dim) { return normalised("log_softmax", detail::raised(x), dim, true); }

}  // namespace spool
