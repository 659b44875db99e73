// Kernels of the optimizers. They take every parameter at once, so that a GPU needs one launch for the norm and one for the update.
//
// All tensors of an entry have the parameter's type (floating point) and lie densely in memory in one order, which is what lets the kernels
// see flat arrays. Entries whose gradient is undefined are skipped. The lists are not empty.
#pragma once
#include <cmath>
#include <limits>
#include <span>

#include "spool/kernels/dispatch.h"

namespace spool::kernels {

// What happens to a gradient g before it is used: g * scale, then * min(1, max_norm / (norm + 1e-6)), then clamped to [-clip_value, clip_value].
struct GradTransform {
  double scale = 1;
  double max_norm = std::numeric_limits<double>::infinity();
  double clip_value = std::numeric_limits<double>::infinity();
  // On a device: a norm that is not finite leaves everything unchanged, and is reported when the host next waits. On the CPU the caller looks at the norm before.
  bool refuse_nonfinite = false;
};

// norm[0] = scale * (sum of |g|^p over all elements)^(1/p), p > 0 or infinity; f64, of one element. NaN travels. The sum is in double, in blocks of
// a fixed size, so that it does not depend on the number of threads.
SPOOL_KERNEL(grad_norm, (std::span<const Tensor> grads, double p, double scale, Tensor& norm), (grads, p, scale, norm), norm)

// g = transform(g), in place. `norm` is read where max_norm is finite, or refuse_nonfinite set.
SPOOL_KERNEL(transform_gradients, (std::span<const Tensor> grads, const GradTransform& transform, const Tensor& norm),
             (grads, transform, norm), grads[0])

struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
};
struct SgdEntry {
  Tensor param, grad;
  Tensor momentum_buffer;  // undefined without momentum
  std::int64_t step;       // 1 for the first one, in which the buffer is set to the gradient
  std::size_t bytes() const { return total_bytes(param, grad, momentum_buffer); }
};
// SgdUpdate for every element.
SPOOL_KERNEL(sgd, (std::span<const SgdEntry> entries, const SgdStep& step, const GradTransform& transform, const Tensor& norm),
             (entries, step, transform, norm), entries[0].param)

struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;  // AdamW: the weight decays by itself, not through the gradient
};
struct AdamEntry {
  Tensor param, grad, exp_avg, exp_avg_sq;
  Tensor max_exp_avg_sq;  // undefined without amsgrad
  std::int64_t step;      // 1 for the first one
  std::size_t bytes() const { return total_bytes(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq); }
};
// AdamUpdate for every element.
SPOOL_KERNEL(adam, (std::span<const AdamEntry> entries, const AdamStep& step, const GradTransform& transform, const Tensor& norm),
             (entries, step, transform, norm), entries[0].param)

// --- the formulas, for one element computed in A (float or double)

template <class A>
struct ClipGradient {
  A factor, limit;
  // `norm` is that of the scaled gradients.
  SPOOL_HD ClipGradient(const GradTransform& t, double norm) : limit(static_cast<A>(t.clip_value)) {
    const double coefficient = t.max_norm / (norm + 1e-6);
    // Written so that a NaN norm gives a NaN factor, as in PyTorch.
    factor = static_cast<A>(t.max_norm == std::numeric_limits<double>::infinity() || coefficient >= 1 ? t.scale
                                                                                                      : t.scale * coefficient);
  }
  SPOOL_HD A operator()(A g) const {
    g *= factor;
    return g > limit ? limit : g < -limit ? -limit : g;
  }
};

// Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013), in PyTorch's form.
template <class A>
struct SgdUpdate {
  A lr, momentum, weight, decay;  // weight: of the gradient in the momentum buffer
  bool nesterov;
  SPOOL_HD SgdUpdate(const SgdStep& s, std::int64_t step)
      : lr(static_cast<A>(s.lr)),
        momentum(step == 1 ? A(0) : static_cast<A>(s.momentum)),
        weight(step == 1 ? A(1) : static_cast<A>(1 - s.dampening)),
        decay(static_cast<A>(s.weight_decay)),
        nesterov(s.nesterov),
        lookahead(static_cast<A>(s.momentum)) {}
  SPOOL_HD void operator()(A& p, A g, A& buffer) const {
    g += decay * p;
    buffer = momentum * buffer + weight * g;
    p -= lr * (nesterov ? g + lookahead * buffer : buffer);
  }
  SPOOL_HD void operator()(A& p, A g) const { p -= lr * (g + decay * p); }

 private:
  A lookahead;
};

// Kingma and Ba, "Adam" (2014); Loshchilov and Hutter, "Decoupled weight decay regularization" (2017); Reddi et al. (2018) for amsgrad.
template <class A>
struct AdamUpdate {
  A step_size, weight1, beta2, weight2, inverse_root, eps, decay, keep;
  SPOOL_HD AdamUpdate(const AdamStep& s, std::int64_t step)
      : step_size(static_cast<A>(s.lr / (1 - std::pow(s.beta1, static_cast<double>(step))))),
        weight1(static_cast<A>(1 - s.beta1)),
        beta2(static_cast<A>(s.beta2)),
        weight2(static_cast<A>(1 - s.beta2)),
        inverse_root(static_cast<A>(1 / std::sqrt(1 - std::pow(s.beta2, static_cast<double>(step))))),
        eps(static_cast<A>(s.eps)),
        decay(static_cast<A>(s.decoupled ? 0 : s.weight_decay)),
        keep(static_cast<A>(s.decoupled ? 1 - s.lr * s.weight_decay : 1)) {}
  SPOOL_HD void operator()(A& p, A g, A& m, A& v) const {
    begin(p, g, m, v);
    finish(p, m, v);
  }
  SPOOL_HD void operator()(A& p, A g, A& m, A& v, A& v_max) const {
    begin(p, g, m, v);
    v_max = v_max > v ? v_max : v;
    finish(p, m, v_max);
  }

 private:
  SPOOL_HD void begin(A& p, A g, A& m, A& v) const {
    p *= keep;
    g += decay * p;
    m += weight1 * (g - m);
    v = beta2 * v + weight2 * g * g;
  }
  SPOOL_HD void finish(A& p, A m, A v) const {
    using std::sqrt;
    p -= step_size * m / (sqrt(v) * inverse_root + eps);
  }
};

}  // namespace spool::kernels
