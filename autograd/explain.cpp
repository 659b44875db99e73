#include "spool/autograd/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "spool/core/errors.h"

namespace spool {
namespace {

const char* const kNothing = "nothing";

// clang-format off
const Explanation kExplanations[] = {
    // --- arithmetic
    {"add", "y = a + b", "ga = g, gb = g", kNothing},
    {"sub", "y = a - b", "ga = g, gb = -g", kNothing},
    {"mul", "y = a * b", "ga = g * b, gb = g * a", "a, because gb reads it, and b, because ga does, each only where that gradient is wanted; nothing where b is a number"},
    {"div", "y = a / b", "ga = g / b, gb = -(g / b) * y", "b, because both read it; output, where gb is wanted, which saves dividing by b twice"},
    {"pow", "y = a ^ b", "ga = g * b * a ^ (b - 1), gb = g * y * log(a)",
     "base and exponent, because both gradients read them; output, where gb is wanted; where the exponent is a number only input, which is a"},
    {"maximum", "y = max(a, b)", "ga = g where a > b, g / 2 where a = b, else 0; gb the rest of g", "a and b, to compare them again"},
    {"minimum", "y = min(a, b)", "ga = g where a < b, g / 2 where a = b, else 0; gb the rest of g", "a and b, to compare them again"},
    {"where", "y = a where the condition holds, else b", "ga = g where the condition holds, else 0; gb = g elsewhere", "condition, which says who gave each element"},
    {"neg", "y = -x", "gx = -g", kNothing},
    {"abs", "y = |x|", "gx = g * sign(x)", "input, for its sign"},
    {"exp", "y = exp(x)", "gx = g * y", "output, because it is the derivative"},
    {"expm1", "y = exp(x) - 1", "gx = g * (y + 1)", "output, from which the derivative follows without another exp"},
    {"log", "y = log(x)", "gx = g / x", "input, because the derivative is 1 / x"},
    {"log1p", "y = log(1 + x)", "gx = g / (1 + x)", "input, because the derivative is 1 / (1 + x)"},
    {"sqrt", "y = sqrt(x)", "gx = g / (2 * y)", "output, from which the derivative follows without another root"},
    {"rsqrt", "y = 1 / sqrt(x)", "gx = -g * y^3 / 2", "output, from which the derivative follows without another root"},
    {"reciprocal", "y = 1 / x", "gx = -g * y^2", "output, from which the derivative follows without dividing again"},
    {"square", "y = x^2", "gx = g * 2 * x", "input, because the derivative is 2 * x"},
    {"sin", "y = sin(x)", "gx = g * cos(x)", "input, for its cosine"},
    {"cos", "y = cos(x)", "gx = -g * sin(x)", "input, for its sine"},
    {"tanh", "y = tanh(x)", "gx = g * (1 - y^2)", "output, from which the derivative follows without another tanh"},
    {"sigmoid", "y = 1 / (1 + exp(-x))", "gx = g * y * (1 - y)", "output, from which the derivative follows without another exp"},
    {"erf", "y = erf(x)", "gx = g * 2 / sqrt(pi) * exp(-x^2)", "input, where the bell curve is read"},
    {"floor", "y = the largest whole number <= x", "gx = 0: a step function is flat but where it jumps", kNothing},
    {"ceil", "y = the smallest whole number >= x", "gx = 0: a step function is flat but where it jumps", kNothing},
    {"round", "y = the nearest whole number, at ties the even one", "gx = 0: a step function is flat but where it jumps", kNothing},
    {"sign", "y = -1, 0 or 1", "gx = 0: a step function is flat but where it jumps", kNothing},
    {"clamp", "y = min(max(x, low), high)", "gx = g where low <= x <= high, else 0", "input, to see which elements were cut off"},
    // --- activations
    {"relu", "y = max(x, 0)", "gx = g where y > 0, else 0", "output, which is positive just where the input is; the input can be given back"},
    {"leaky_relu", "y = x where x > 0, else slope * x", "gx = g where x > 0, else slope * g", "input, for its sign"},
    {"gelu", "y = x * P(x), where P(x) = (1 + erf(x / sqrt(2))) / 2", "gx = g * (P(x) + x * p(x)), where p(x) = exp(-x^2 / 2) / sqrt(2 pi)", "input, because the derivative cannot be had from the output"},
    {"silu", "y = x * s, where s = sigmoid(x)", "gx = g * s * (1 + x * (1 - s))", "input, because the derivative cannot be had from the output"},
    {"softplus", "y = log(1 + exp(x))", "gx = g * sigmoid(x)", "input, for its sigmoid"},
    {"softmax", "y[i] = exp(x[i]) / sum over j of exp(x[j]), along a dimension", "gx[i] = y[i] * (g[i] - sum over j of g[j] * y[j])", "output, of which alone the derivative is made"},
    {"log_softmax", "y[i] = x[i] - log(sum over j of exp(x[j])), along a dimension", "gx[i] = g[i] - exp(y[i]) * sum over j of g[j]", "output, whose exponential is the softmax"},
    {"dropout", "y = x * mask / (1 - p), where the mask is 0 with probability p, else 1", "gx = g * mask / (1 - p)", "mask, because the same elements must be dropped"},
    // --- shapes
    {"view", "y = x in another shape (reshape, flatten, squeeze, unsqueeze); no element moves", "gx = g in the shape of x", kNothing},
    {"permute", "y = x with its dimensions in another order (transpose); no element moves", "gx = g with the dimensions put back", kNothing},
    {"expand", "y = x, repeated along its dimensions of size 1 without a copy", "gx = g summed over what was repeated", kNothing},
    {"slice", "y = every step-th element of x from start to end along a dimension (narrow, select, split); no element moves", "gx = zeros with g written at the places that were taken", kNothing},
    {"slice_grad", "y = zeros with x written at some places: what slice does backward", "gx = g at those places", kNothing},
    {"contiguous", "y = x, copied into another order in memory", "gx = g", kNothing},
    {"clone", "y = a copy of x", "gx = g", kNothing},
    {"to", "y = x in another type or on another device", "gx = g in the type and on the device of x", kNothing},
    {"cat", "y = the inputs one behind the other along a dimension (stack)", "each input gets its part of g", kNothing},
    {"pad", "y = x with a border of one value", "gx = g without the border", kNothing},
    {"flip", "y = x in reverse order along some dimensions", "gx = g in reverse order along them", kNothing},
    {"roll", "y = x shifted along a dimension; what leaves at one end enters at the other", "gx = g shifted back", kNothing},
    // --- reductions
    {"sum", "y = sum of x over some dimensions", "gx = g, repeated over them", kNothing},
    {"sum_to", "y = x summed to a shape that broadcasts to its own", "gx = g, repeated to the shape of x", kNothing},
    {"mean", "y = sum of x / n over some dimensions of n elements", "gx = g / n, repeated over them", kNothing},
    {"var", "y = sum of (x - mean)^2 / f, where f is the number of elements less the correction", "gx = g * 2 * (x - mean) / f", "input, whose mean is computed again"},
    {"std", "y = sqrt(sum of (x - mean)^2 / f), where f is the number of elements less the correction", "gx = g * (x - mean) / (f * y), and 0 where y is 0", "input, whose mean is computed again; output, because the root's derivative divides by it"},
    {"prod", "y = product of x along a dimension", "gx[i] = g * product of all other elements", "input, whose partial products are multiplied, not divided, so that zeros do no harm"},
    {"cumsum", "y[i] = x[0] + ... + x[i] along a dimension", "gx[i] = g[i] + g[i + 1] + ... to the end", kNothing},
    {"max", "y = the largest element, of all or along a dimension", "gx = g at the place of the largest, else 0; of all, ties share g equally",
     "along a dimension: indices, the places that won; of all: input and output, which are equal there"},
    {"min", "y = the smallest element, of all or along a dimension", "gx = g at the place of the smallest, else 0; of all, ties share g equally",
     "along a dimension: indices, the places that won; of all: input and output, which are equal there"},
    {"norm", "y = (sum of |x|^p)^(1 / p) over some dimensions", "gx = g * sign(x) * (|x| / y)^(p - 1), for p = 2: g * x / y; 0 where y is 0", "input and output, whose ratio is the direction of steepest ascent"},
    {"logsumexp", "y = log(sum of exp(x)) along a dimension", "gx = g * softmax(x)", "input, whose softmax is computed again: it loses fewer digits than exp(x - y)"},
    // --- indexing
    {"gather", "y[i] = x[indices[i]] along a dimension", "gx = zeros with g[i] added at indices[i]", "indices, the places that were read"},
    {"gather_grad", "y = zeros with x[i] added at indices[i]: what gather does backward", "gx[i] = g[indices[i]]", "indices, the places that were added to"},
    {"index_select", "y = the slices of x that the indices name", "gx = zeros with the slices of g added at those places", "indices, the places that were read"},
    {"embedding", "y[i] = the row of the weight that indices[i] names", "gw = zeros with g[i] added to row indices[i]", "indices, the rows that were read"},
    {"scatter_add", "y = x with source[i] added at indices[i]", "gx = g, gsource[i] = g[indices[i]]", "indices, the places that were added to, where the gradient of the source is wanted"},
    {"sort", "y = x in order along a dimension", "gx = g, each element back at the place it came from", "indices, the places they came from"},
    {"topk", "y = the k largest or smallest elements along a dimension", "gx = zeros with g at the places they came from", "indices, the places they came from"},
    // --- matrices
    {"matmul", "y = a b, the matrix product", "ga = g b^T, gb = a^T g", "a, because gb reads it, and b, because ga does, each only where that gradient is wanted"},
    {"bmm", "y[i] = a[i] b[i], a matrix product for each i", "ga[i] = g[i] b[i]^T, gb[i] = a[i]^T g[i]", "a, because gb reads it, and b, because ga does, each only where that gradient is wanted"},
    {"linear", "y = x w^T + bias", "gx = g w, gw = g^T x, gbias = sum of g over the rows", "input, because gw reads it, and weight, because gx does, each only where that gradient is wanted"},
    // --- convolution and pooling
    {"conv2d", "y[n, o, i, j] = bias[o] + sum over c, p, q of x[n, c, i * stride + p * dilation - padding, j * stride + q * dilation - padding] * w[o, c, p, q]",
     "gx += g[n, o, i, j] * w[o, c, p, q] at each x that was read, gw[o, c, p, q] += g[n, o, i, j] * that x, gbias = sum of g over n, i, j",
     "input, because gw reads it, and weight, because gx does, each only where that gradient is wanted"},
    {"conv_transpose2d", "y = x spread by w: y[n, o, i * stride + p * dilation - padding, ...] += x[n, c, i, ...] * w[c, o, p, q]; the input gradient of a conv2d",
     "gx = conv2d(g, w), gw = the weight gradient of that conv2d, with g as its input and x as its gradient", "grad, which is the input x, because gw reads it, and weight, because gx does, each only where that gradient is wanted"},
    {"conv2d_input_grad", "y = x spread back by w: what conv2d does to its input's gradient", "gx = conv2d(g, w), gw = the weight gradient of a conv2d with input g and gradient x",
     "grad, which is x, because gw reads it, and weight, because gx does, each only where that gradient is wanted"},
    {"conv2d_weight_grad", "y = sum over pictures and places of a * x, where a is the gradient of a conv2d and x its input: its weight's gradient", "gx = a spread back by g, ga = conv2d(x, g)",
     "input, because ga reads it, and grad, which is a, because gx does, each only where that gradient is wanted"},
    {"max_pool2d", "y = the largest element of each window", "gx = g added at the place of each window's largest element, else 0", "index, the place of the largest in its window, in a byte where windows are small"},
    {"max_pool2d_grad", "y = zeros with x added at the place of each window's largest element: what max_pool2d does backward", "gx = g at those places", "index, the places of the largest"},
    {"avg_pool2d", "y = the mean of each window (adaptive_avg_pool2d too)", "gx = g / the size of the window, added to each of its elements", kNothing},
    {"avg_pool2d_grad", "y = x / the size of the window, added to each of its elements: what avg_pool2d does backward", "gx = the mean of g in each window", kNothing},
    // --- normalisation
    {"batch_norm", "y = n * w + bias, where n = (x - mean) / sqrt(var + eps), with mean and var of each channel",
     "gx = w / sqrt(var + eps) * (g - mean of g - n * mean of g * n), in eval mode without the two means; gw = sum of g * n, gbias = sum of g, of each channel",
     "input, mean and inv_std, which is 1 / sqrt(var + eps), from which n is computed again; weight, because gx reads it"},
    {"batch_norm_relu", "y = max(n * w + bias + residual, 0), where n = (x - mean) / sqrt(var + eps), with mean and var of each channel; the residual may be missing",
     "h = g where y > 0, else 0; gresidual = h; then as batch_norm, with h for g",
     "input, mean, inv_std, weight and bias, from which n is computed again; output, for where it is positive; residual, for second derivatives; the sum before the relu is not kept"},
    {"batch_norm_relu_max_pool2d", "y = the largest element in each window of max(n * w + bias, 0), where n = (x - mean) / sqrt(var + eps), with mean and var of each channel",
     "h = g at the place of each window's largest element where y > 0, else 0; then as batch_norm, with h for g",
     "input, mean, inv_std, weight and bias, from which n is computed again; index, the place of the largest in its window; output, for where it is positive; the picture before the pooling is not kept"},
    {"layer_norm", "y = n * w + bias, where n = (x - mean) / sqrt(var + eps), with mean and var of each row (of each group in group_norm)",
     "gx = (h - mean of h - n * mean of h * n) / sqrt(var + eps), where h = g * w; gw = sum of g * n, gbias = sum of g, over the rows",
     "input, mean and inv_std, which is 1 / sqrt(var + eps), from which n is computed again; weight, because gx reads it"},
    // --- losses
    {"cross_entropy", "y = mean (or sum) over rows of -log(softmax(x)[target]); class weights and label smoothing weigh the classes",
     "gx = g * (softmax(x) - onehot(target)) / rows", "input, whose softmax is computed again, which takes less memory than keeping it; target"},
    {"nll_loss", "y = mean (or sum) over rows of -x[target], where x are log-probabilities", "gx = -g / rows at the target of each row, else 0", "target; of the input the derivative needs nothing"},
    {"nll_loss_grad", "y = -x / rows at the target of each row, else 0: what nll_loss does backward", "gx = sum of -g / rows at the targets", "nothing of its own; the labels are those of the loss"},
    // --- others
    {"function", "an operation of your own without a name", "what its backward() says", "what its forward() saves"},
};
// clang-format on

// Insertions, deletions and replacements that make one word of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row.back();
}

// The closest five; a name that contains the word comes before all others.
std::vector<std::string_view> nearest(std::string_view word) {
  std::vector<std::pair<std::size_t, std::string_view>> all;
  for (const Explanation& e : kExplanations) {
    const std::string_view op = e.op;
    const bool contained = word.size() > 1 && op.find(word) != op.npos;
    all.emplace_back(contained ? 0 : distance(word, op), op);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < 5; ++i) names.push_back(all[i].second);
  return names;
}

}  // namespace

std::span<const Explanation> explanations() noexcept { return kExplanations; }

const Explanation* find_explanation(std::string_view op) noexcept {
  const auto at =
      std::find_if(std::begin(kExplanations), std::end(kExplanations), [&](const Explanation& e) { return e.op == op; });
  return at == std::end(kExplanations) ? nullptr : at;
}

std::string explain(const std::string& op) {
  const Explanation* e = find_explanation(op);
  if (!e)
    throw ValueError("explain", fmt::format("no operation of the tape is named '{}'; the nearest names are {}", op,
                                            fmt::join(nearest(op), ", ")));
  return fmt::format("{}\n  forward   {}\n  backward  {}\n  saves     {}\n", e->op, e->forward, e->backward, e->saved);
}

}  // namespace spool
