#include <fmt/format.h>

#include <cmath>

#include "spool/autograd/autograd.h"
#include "spool/autograd/creation.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"

namespace spool {
namespace {

// sum of output * cotangent over all floating outputs.
double weighted(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents) {
  double total = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!cotangents[i].defined()) continue;
    const std::vector<double> y = outputs[i].to_vector<double>(), c = cotangents[i].to_vector<double>();
    for (std::size_t j = 0; j < y.size(); ++j) total += y[j] * c[j];
  }
  return total;
}

// Outputs outside of the graph are refused, or, with `constants`, taken to have the derivative zero, which is then checked as well.
void check_once(const TensorFunction& f, std::vector<Tensor>& inputs, const GradcheckOptions& options, Generator& generator,
                const char* what, bool constants) {
  std::vector<Tensor> wanted;
  for (Tensor& t : inputs)
    if (t.requires_grad()) wanted.push_back(t);
  const std::vector<Tensor> outputs = f(inputs);
  std::vector<Tensor> cotangents, differentiable, weights;
  for (const Tensor& y : outputs) {
    cotangents.emplace_back();
    if (!is_floating(y.dtype())) continue;
    cotangents.back() = randn(y.shape(), {.dtype = y.dtype()}, generator);
    if (!y.requires_grad() && constants) continue;
    if (!y.requires_grad())
      throw GradError("gradcheck", "an output of the function does not depend on any input that requires a gradient",
                      {{"output", y}});
    differentiable.push_back(y);
    weights.push_back(cotangents.back());
  }
  std::vector<Tensor> analytic(wanted.size());
  if (!differentiable.empty()) analytic = grad(differentiable, wanted, {.retain_graph = true, .allow_unused = true}, weights);
  std::size_t which = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Tensor& g = analytic[which++];
    const std::vector<double> computed =
        g.defined() ? g.to_vector<double>() : std::vector<double>(static_cast<std::size_t>(inputs[i].numel()), 0.0);
    NoGrad guard;
    const Tensor original = inputs[i].detach().clone();
    for (std::int64_t j = 0; j < original.numel(); ++j) {
      const auto shifted = [&](double by) {
        // The j-th element in row-major order, whatever the strides.
        Tensor moved = original.clone();
        std::int64_t at = 0, rest = j;
        for (int d = moved.dim() - 1; d >= 0; --d) {
          at += rest % moved.shape()[d] * moved.strides()[d];
          rest /= moved.shape()[d];
        }
        moved.data<double>()[at] += by;
        std::vector<Tensor> arguments = inputs;
        arguments[i] = moved;
        return weighted(f(arguments), cotangents);
      };
      const double numeric = (shifted(options.eps) - shifted(-options.eps)) / (2 * options.eps);
      const double error = std::abs(numeric - computed[static_cast<std::size_t>(j)]);
      if (!(error <= options.atol + options.rtol * std::abs(numeric)))
        throw GradError("gradcheck",
                        fmt::format("{} of input {} is wrong at element {}: computed {:.10g}, by differences {:.10g}", what, i, j,
                                    computed[static_cast<std::size_t>(j)], numeric),
                        {{"input", inputs[i]}});
    }
  }
}

}  // namespace

void gradcheck(const TensorFunction& f, std::vector<Tensor> inputs, GradcheckOptions options) {
  Generator generator(options.seed);
  bool any = false;
  for (const Tensor& t : inputs) {
    if (!t.requires_grad()) continue;
    any = true;
    if (t.dtype() != DType::f64)
      throw DTypeError("gradcheck", "inputs are checked in f64, where differences are precise enough: use to(f64)",
                       {{"input", t}});
  }
  if (!any) throw GradError("gradcheck", "no input requires a gradient: call set_requires_grad() on those to be checked");
  check_once(f, inputs, options, generator, "the gradient", false);
  if (!options.second_order) return;
  // The gradient as a function of the inputs and of the cotangents.
  std::vector<Tensor> arguments = inputs;
  for (const Tensor& y : f(inputs))
    arguments.push_back(is_floating(y.dtype()) ? randn(y.shape(), {.dtype = f64, .requires_grad = true}, generator) : Tensor());
  const std::size_t n = inputs.size();
  const auto gradients = [&](const std::vector<Tensor>& all) {
    EnableGrad guard;
    // Leaves of its own: under differences the arguments come in plain.
    std::vector<Tensor> in, out, weights, wanted;
    for (std::size_t i = 0; i < n; ++i) {
      in.push_back(inputs[i].requires_grad() && !all[i].requires_grad() ? all[i].detach().set_requires_grad() : all[i]);
      if (inputs[i].requires_grad()) wanted.push_back(in.back());
    }
    const std::vector<Tensor> outputs = f(in);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (is_floating(outputs[i].dtype())) {
        out.push_back(outputs[i]);
        weights.push_back(all[n + i].requires_grad() ? all[n + i] : all[n + i].detach().set_requires_grad());
      }
    std::vector<Tensor> results;
    for (Tensor& g : grad(out, wanted, {.create_graph = true, .allow_unused = true}, weights))
      if (g.defined()) results.push_back(g);
    return results;
  };
  check_once(gradients, arguments, options, generator, "the second derivative", true);
}

}  // namespace spool
