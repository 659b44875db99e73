// Table of contents of every operation on tensors. Names, argument order and semantics are PyTorch's.
//
// Unless said otherwise: tensors may have any strides; all tensors of a call are on one device (else DeviceError); the operation is differentiable in
// its floating-point tensors, any number of times; results are new tensors. Elementwise operations broadcast (sizes are matched from the last
// dimension; 1 stretches) and compute in the later of the two types of bool < u8 < i32 < i64 < bf16 < f32 < f64. Negative dimensions count
// from the end. Bad sizes throw ShapeError, bad types DTypeError, dimensions and indices out of range IndexError, options out of range ValueError.
//
// Four-dimensional results of convolution, pooling and batch norm lie channels-last in memory; elementwise operations keep their operand's order.
#pragma once
#include <span>
#include <vector>

#include "spool/core/generator.h"
#include "spool/core/size2.h"
#include "spool/core/tensor.h"

namespace spool {

// --- arithmetic (ops/binary.cpp) ---------------------------------------------------------------------------------------------
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);  // integers are divided as f32
Tensor pow(const Tensor& a, const Tensor& b);  // the derivative in b is 0 where a is 0 and b >= 0; integers are converted to f32
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN wins; at ties each side gets half of the gradient
Tensor minimum(const Tensor& a, const Tensor& b);
// With a number: an integer tensor stays integer with an integer, and becomes f32 with a fraction.
Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }

// Comparisons give boolean tensors, and are not differentiable.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
Tensor ne(const Tensor& a, Scalar b);
Tensor lt(const Tensor& a, Scalar b);
Tensor le(const Tensor& a, Scalar b);
Tensor gt(const Tensor& a, Scalar b);
Tensor ge(const Tensor& a, Scalar b);
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);
Tensor isnan(const Tensor& a);
Tensor isfinite(const Tensor& a);
// |a - b| <= atol + rtol |b|, element by element. Infinities are close to themselves, NaN to nothing. Throws ValueError for negative tolerances.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
// Whether isclose() holds everywhere, the shapes being equal or broadcast; whether shapes and elements are equal. Both wait for the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
bool equal(const Tensor& a, const Tensor& b);
// a where `condition` (boolean), else b. The side not taken gets a gradient of exactly 0, whatever it holds.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);

// --- unary (ops/unary.cpp): y[i] = f(x[i]) -----------------------------------------------------------------------------------
// Integer tensors are converted to f32, except by neg, abs, square, relu, clamp, sign, floor, ceil and round, which keep their type.
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);  // gradient 0 at 0
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);  // gradient 0 at 0; NaN stays NaN
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor gelu(const Tensor& x);  // exact, by erf
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x);  // log(1 + exp(x)), without overflow
Tensor erf(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor clamp(const Tensor& x, std::optional<double> min = {},
             std::optional<double> max = {});  // the gradient passes at the bounds
Tensor floor(const Tensor& x);                 // gradient 0, as of ceil, round and sign
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // ties to even
Tensor sign(const Tensor& x);

// --- shapes (ops/shape.cpp): views share the elements of x ---------------------------------------------------------------------
// One size may be -1 and is inferred. A view where the strides allow it, else a copy.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor view(const Tensor& x, const Shape& shape);  // throws ShapeError where only a copy would do
Tensor flatten(const Tensor& x, int start_dim = 0, int end_dim = -1);
Tensor transpose(const Tensor& x, int dim0, int dim1);
Tensor permute(const Tensor& x, std::span<const int> dims);
inline Tensor permute(const Tensor& x, Dims dims) { return permute(x, std::span<const int>(dims.begin(), dims.size())); }
Tensor squeeze(const Tensor& x);  // drops every dimension of size 1
Tensor squeeze(const Tensor& x, int dim);
Tensor unsqueeze(const Tensor& x, int dim);
Tensor expand(const Tensor& x, const Shape& shape);  // -1 keeps a size
Tensor select(const Tensor& x, int dim, std::int64_t index);
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length);
// start and end are clamped to the dimension, negative ones count from the end; step is at least 1.
Tensor slice(const Tensor& x, int dim, std::optional<std::int64_t> start = {}, std::optional<std::int64_t> end = {},
             std::int64_t step = 1);
std::vector<Tensor> chunk(const Tensor& x, int chunks, int dim = 0);
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int dim = 0);
std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes,
                          int dim = 0);                                              // sizes add up to the dimension's
Tensor contiguous(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous);  // x itself where it already is
Tensor clone(const Tensor& x);
Tensor to(const Tensor& x, DType dtype);  // x itself where nothing changes
Tensor to(const Tensor& x, Device device);
// Sums x down to `shape`, which must broadcast to x's: the derivative of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
// The shape both broadcast to. `op` is named in the ShapeError.
Shape broadcast_shapes(const char* op, const Tensor& a, const Tensor& b);

// --- joining and rearranging (ops/rearrange.cpp) ---------------------------------------------------------------------------------
Tensor cat(std::span<const Tensor> tensors, int dim = 0);
inline Tensor cat(std::initializer_list<Tensor> tensors, int dim = 0) {
  return cat(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}
Tensor stack(std::span<const Tensor> tensors, int dim = 0);
inline Tensor stack(std::initializer_list<Tensor> tensors, int dim = 0) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}
// Pairs (before, after) from the last dimension backwards; negative ones crop.
Tensor pad(const Tensor& x, std::span<const std::int64_t> padding, double value = 0);
inline Tensor pad(const Tensor& x, std::initializer_list<std::int64_t> padding, double value = 0) {
  return pad(x, std::span<const std::int64_t>(padding.begin(), padding.size()), value);
}
Tensor flip(const Tensor& x, Dims dims);
Tensor roll(const Tensor& x, std::int64_t shift, int dim);
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);  // zero above the diagonal of the last two dimensions
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

// --- indexing (ops/index.cpp): indices are i64; each is checked before anything is read --------------------------------------------
Tensor index_select(const Tensor& x, int dim, const Tensor& index);  // index [k]
Tensor gather(const Tensor& x, int dim, const Tensor& index);        // index and result have one shape
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index,
                   const Tensor& source);                             // x plus source at index; repeated indices add up
Tensor embedding(const Tensor& indices, const Tensor& weight);        // [*] -> [*, D] from weight [V, D]
Tensor one_hot(const Tensor& labels, std::int64_t num_classes = -1);  // [*] -> [*, C], i64; -1: the largest label + 1
struct Sorted {
  Tensor values, indices;
};
Tensor take_values(const Tensor& x, int dim, const Tensor& index);  // gather without the check, for indices Spool itself computed
Sorted sort(const Tensor& x, int dim = -1, bool descending = false);  // stable; NaN sorts last (first when descending)
Sorted topk(const Tensor& x, std::int64_t k, int dim = -1, bool largest = true);  // sorted

// --- reductions (ops/reduce.cpp) --------------------------------------------------------------------------------------------------
// Over `dims`, or over all where none are given; keepdim leaves them with size 1. Integers and bool sum to i64; mean, var, std, norm and logsumexp
// take floating point only. Sums are pairwise or wider, so that a long f32 sum keeps its digits.
Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, Dims dims, bool keepdim = false);
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, Dims dims, bool keepdim = false);
// Divided by n - correction; two passes, so that a large mean does not cancel it.
Tensor var(const Tensor& x, Dims dims = {}, double correction = 1, bool keepdim = false);
// The gradient is 0 where the deviation is 0. Under `using namespace spool` write x.std() or spool::std(x): std alone is the library's namespace.
Tensor std(const Tensor& x, Dims dims = {}, double correction = 1, bool keepdim = false);
Tensor prod(const Tensor& x);
Tensor prod(const Tensor& x, int dim, bool keepdim = false);  // exact gradient with zeros among the factors
Tensor norm(const Tensor& x, double p = 2, Dims dims = {},
            bool keepdim = false);  // p >= 0 or infinity; gradient 0 at a zero vector
Tensor prod(const Tensor& x, Dims dims, bool keepdim = false);
Tensor logsumexp(const Tensor& x, int dim, bool keepdim = false);
Tensor logsumexp(const Tensor& x, Dims dims, bool keepdim = false);
Tensor cumsum(const Tensor& x, int dim);
// Extremes: NaN wins. Of all elements, the gradient is shared equally among ties; along a dimension the first one gets it.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
Sorted max(const Tensor& x, int dim, bool keepdim = false);
Sorted min(const Tensor& x, int dim, bool keepdim = false);
// The same over several dimensions, values only.
Tensor amax(const Tensor& x, Dims dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, Dims dims = {}, bool keepdim = false);
// The first index of the extreme, i64, NaN wins; of the flattened tensor where no dimension is given.
Tensor argmax(const Tensor& x);
Tensor argmax(const Tensor& x, int dim, bool keepdim = false);
Tensor argmin(const Tensor& x);
Tensor argmin(const Tensor& x, int dim, bool keepdim = false);
Tensor any(const Tensor& x);  // boolean
Tensor any(const Tensor& x, int dim, bool keepdim = false);
Tensor any(const Tensor& x, Dims dims, bool keepdim = false);
Tensor all(const Tensor& x);
Tensor all(const Tensor& x, int dim, bool keepdim = false);
Tensor all(const Tensor& x, Dims dims, bool keepdim = false);

// --- linear algebra (ops/matmul.cpp) ------------------------------------------------------------------------------------------------
// [n]·[n] -> [], [m, k]·[k, n] -> [m, n], vectors as in PyTorch; leading dimensions of more are a batch and broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);  // [b, m, k]·[b, k, n]
// x [*, in], weight [out, in], bias [out] or undefined -> [*, out]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// --- convolution (ops/conv.cpp): x [N, C, H, W], weight [O, C / groups, kH, kW], bias [O] or undefined ---------------------------------
struct ConvOptions {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  std::int64_t groups = 1;
};
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
struct ConvTransposeOptions {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 output_padding = 0;  // smaller than the stride or the dilation
  std::int64_t groups = 1;
  Size2 dilation = 1;
};
// x [N, C, H, W], weight [C, O / groups, kH, kW]: the gradient of conv2d with respect to its input.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvTransposeOptions& options = {});

// --- pooling (ops/pool.cpp): x [N, C, H, W] -----------------------------------------------------------------------------------------------
struct MaxPool2dOptions {
  Size2 kernel_size = 2;
  OptionalSize2 stride = {};  // the kernel size where not given
  Size2 padding = 0;          // at most half of the kernel; counts as -infinity
  Size2 dilation = 1;
  bool ceil_mode = false;
};
Tensor max_pool2d(const Tensor& x, const MaxPool2dOptions& options);  // the first of equal values gets the gradient; NaN wins
struct AvgPool2dOptions {
  Size2 kernel_size = 2;
  OptionalSize2 stride = {};
  Size2 padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
};
Tensor avg_pool2d(const Tensor& x, const AvgPool2dOptions& options);
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output_size);

// --- normalisation (ops/batch_norm.cpp, ops/norm.cpp) -------------------------------------------------------------------------------------------------------------
struct BatchNormOptions {
  bool training = false;
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * batch
  double eps = 1e-5;      // inside the square root
};
// x [N, C, ...]; weight, bias, running_mean, running_var [C], each may be undefined. In training the statistics of the batch are used (variance over n; at least
// two values per channel, else ValueError) and the running ones are updated in place (variance over n - 1); else the running ones are used.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var,
                  const BatchNormOptions& options = {});
// relu(batch_norm(x, ...) + residual) with fewer passes over memory, and less of it held for backward(). residual has x's shape or is undefined.
Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var,
                       const BatchNormOptions& options = {}, const Tensor& residual = {});
// max_pool2d(relu(batch_norm(x, ...)), pool), likewise, for x [N, C, H, W]. Pools whose windows overlap, are padded or have more than 254 elements come after batch_norm_relu
// as an operation of their own.
Tensor batch_norm_relu_max_pool2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean,
                                  Tensor& running_var, const MaxPool2dOptions& pool, const BatchNormOptions& options = {});
// Over the last dimensions, whose sizes are `normalized_shape`; weight and bias have that shape or are undefined.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// x [N, C, ...]; weight and bias [C].
Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Zeroes each element with probability p and divides the rest by 1 - p; the identity when not training.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true, Generator& generator = default_generator());

// --- softmax and losses (ops/softmax.cpp, ops/loss.cpp) -----------------------------------------------------------------------------------
Tensor softmax(const Tensor& x, int dim);
Tensor log_softmax(const Tensor& x, int dim);
// Losses never broadcast: both arguments must have one shape.
enum class Reduction { mean, sum, none };
struct CrossEntropyOptions {
  Tensor weight = {};                // [C], of each class
  std::int64_t ignore_index = -100;  // targets of this value do not count
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  // in [0, 1]
};
// From logits [N, C] or [N, C, d1, ...] and class indices i64 [N] or [N, d1, ...]. Throws IndexError naming a label outside 0 .. C-1. The mean counts kept
// targets (by their weights); with none kept it is NaN, and every gradient is 0.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});
struct NllLossOptions {
  Tensor weight = {};
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllLossOptions& options = {});
struct LossOptions {
  Reduction reduction = Reduction::mean;
};
Tensor mse_loss(const Tensor& input, const Tensor& target, LossOptions options = {});
Tensor l1_loss(const Tensor& input, const Tensor& target, LossOptions options = {});
struct SmoothL1LossOptions {
  double beta = 1;
  Reduction reduction = Reduction::mean;
};
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, SmoothL1LossOptions options = {});
struct BceOptions {
  Tensor pos_weight = {};  // broadcast against the logits
  Reduction reduction = Reduction::mean;
};
// Stable at any logit: max(x, 0) - x t + log1p(exp(-|x|)), gradient sigmoid(x) - t. Infinite logits give 0 or infinity, never NaN.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options = {});

}  // namespace spool
