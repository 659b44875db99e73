// Convolution by cuDNN. All of its calls are in this file: they are those of the interface that NVIDIA calls legacy, which its graph interface can replace here one by one.
//
// Images and weights go in channels-last. An algorithm is chosen once for each kind of call, by cuDNN's heuristic or, with set_cudnn_benchmark(true), by trying.
#include "spool/kernels/conv.h"

#include <map>

#include "spool/core/cuda.h"
#include "spool/core/cuda/context.cuh"
#include "spool/kernels/cuda/conv_direct.cuh"
#include "spool/kernels/elementwise.h"
#include "spool/kernels/reduce.h"

namespace spool::kernels::cuda {
namespace {

using spool::cuda::begin;
using spool::cuda::Context;
using spool::cuda::Scratch;

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

enum class Pass : std::uint8_t { forward, input_grad, weight_grad };

// Everything that the choice of an algorithm can depend on.
struct Key {
  Pass pass;
  DType dtype;
  bool bias, tf32, deterministic, benchmark;
  std::int64_t sizes[12];  // of x, weight and y
  std::int64_t params[7];
  auto operator<=>(const Key&) const = default;
};

struct Plan {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  cudnnActivationDescriptor_t identity = nullptr;
  int algorithm = -1;  // of the pass; -1: cuDNN has none
  std::size_t workspace = 0;
  bool fused_bias = false;
};

cudnnDataType_t type_of(DType t) { return t == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

cudnnTensorDescriptor_t image(DType t, const std::int64_t* s) {
  cudnnTensorDescriptor_t d = nullptr;
  SPOOL_CUDA(cudnnCreateTensorDescriptor(&d));
  SPOOL_CUDA(cudnnSetTensor4dDescriptor(d, CUDNN_TENSOR_NHWC, type_of(t), static_cast<int>(s[0]), static_cast<int>(s[1]),
                                        static_cast<int>(s[2]), static_cast<int>(s[3])));
  return d;
}

cudnnMathType_t math_of(const Key& key) {
  if (key.dtype == DType::bf16) return CUDNN_TENSOR_OP_MATH;
  return key.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

// Whether a call was done; what cuDNN does not support is not an error here, but left to the kernels of conv_direct.cu.
bool done(cudnnStatus_t status, const char* call) {
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  spool::cuda::check(status, call);
  return true;
}
#define SPOOL_DONE(call) done((call), #call)

// Takes the first algorithm that works and is allowed.
template <class Result>
void choose(Plan& p, const Key& key, const Result* results, int n) {
  for (int i = 0; i < n; ++i) {
    const Result& r = results[i];
    if (r.status != CUDNN_STATUS_SUCCESS || r.memory > kMostWorkspace) continue;
    if (key.deterministic && r.determinism != CUDNN_DETERMINISTIC) continue;
    if (key.dtype == DType::f32 && !key.tf32 && r.mathType != CUDNN_FMA_MATH && r.mathType != CUDNN_DEFAULT_MATH) continue;
    p.algorithm = static_cast<int>(r.algo);
    p.workspace = r.memory;
    return;
  }
}

Plan make_plan(Context& c, const Key& key) {
  Plan p;
  const std::int64_t *x = key.sizes, *w = key.sizes + 4, *y = key.sizes + 8, *q = key.params;
  const auto integer = [](std::int64_t v) { return static_cast<int>(v); };
  p.x = image(key.dtype, x);
  p.y = image(key.dtype, y);
  SPOOL_CUDA(cudnnCreateFilterDescriptor(&p.weight));
  SPOOL_CUDA(cudnnSetFilter4dDescriptor(p.weight, type_of(key.dtype), CUDNN_TENSOR_NHWC, integer(w[0]), integer(w[1]),
                                        integer(w[2]), integer(w[3])));
  SPOOL_CUDA(cudnnCreateConvolutionDescriptor(&p.conv));
  SPOOL_CUDA(cudnnSetConvolution2dDescriptor(p.conv, integer(q[2]), integer(q[3]), integer(q[0]), integer(q[1]), integer(q[4]),
                                             integer(q[5]), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  SPOOL_CUDA(cudnnSetConvolutionGroupCount(p.conv, integer(q[6])));
  SPOOL_CUDA(cudnnSetConvolutionMathType(p.conv, math_of(key)));
  constexpr int most = 10;
  int n = 0;
  if (key.pass == Pass::forward) {
    cudnnConvolutionFwdAlgoPerf_t results[most];
    if (key.benchmark
            ? SPOOL_DONE(cudnnFindConvolutionForwardAlgorithm(c.dnn(), p.x, p.weight, p.conv, p.y, most, &n, results))
            : SPOOL_DONE(cudnnGetConvolutionForwardAlgorithm_v7(c.dnn(), p.x, p.weight, p.conv, p.y, most, &n, results)))
      choose(p, key, results, n);
  } else if (key.pass == Pass::input_grad) {
    cudnnConvolutionBwdDataAlgoPerf_t results[most];
    if (key.benchmark
            ? SPOOL_DONE(cudnnFindConvolutionBackwardDataAlgorithm(c.dnn(), p.weight, p.y, p.conv, p.x, most, &n, results))
            : SPOOL_DONE(cudnnGetConvolutionBackwardDataAlgorithm_v7(c.dnn(), p.weight, p.y, p.conv, p.x, most, &n, results)))
      choose(p, key, results, n);
  } else {
    cudnnConvolutionBwdFilterAlgoPerf_t results[most];
    if (key.benchmark
            ? SPOOL_DONE(cudnnFindConvolutionBackwardFilterAlgorithm(c.dnn(), p.x, p.y, p.conv, p.weight, most, &n, results))
            : SPOOL_DONE(cudnnGetConvolutionBackwardFilterAlgorithm_v7(c.dnn(), p.x, p.y, p.conv, p.weight, most, &n, results)))
      choose(p, key, results, n);
  }
  if (!key.bias) return p;
  const std::int64_t per_channel[] = {1, y[1], 1, 1};
  p.bias = image(key.dtype, per_channel);
  SPOOL_CUDA(cudnnCreateActivationDescriptor(&p.identity));
  SPOOL_CUDA(cudnnSetActivationDescriptor(p.identity, CUDNN_ACTIVATION_IDENTITY, CUDNN_PROPAGATE_NAN, 0));
  // The only algorithm that adds a bias without an activation.
  p.fused_bias = p.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  return p;
}

Plan& plan_for(Context& c, Pass pass, const Tensor& x, const Tensor& weight, const Tensor& y, bool bias, const ConvParams& p) {
  Key key{pass,
          y.dtype(),
          bias,
          allow_tf32(),
          cudnn_deterministic(),
          cudnn_benchmark(),
          {},
          {p.stride.h, p.stride.w, p.padding.h, p.padding.w, p.dilation.h, p.dilation.w, p.groups}};
  for (int d = 0; d < 4; ++d) {
    key.sizes[d] = x.shape()[d];
    key.sizes[4 + d] = weight.shape()[d];
    key.sizes[8 + d] = y.shape()[d];
  }
  static std::map<Key, Plan>* plans = new std::map<Key, Plan>[64];
  auto& known = plans[c.device];
  auto it = known.find(key);
  if (it == known.end()) it = known.emplace(key, make_plan(c, key)).first;
  return it->second;
}

// cuDNN knows f32 and bf16, sizes of 31 bits, and only as many outputs as fit.
bool takes(const Tensor& x, const Tensor& weight, const Tensor& y, const ConvParams& p) {
  const auto fits = [](std::int64_t in, std::int64_t k, std::int64_t stride, std::int64_t padding, std::int64_t dilation) {
    return (in + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
  };
  return y.dtype() != DType::f64 && x.numel() < (std::int64_t{1} << 31) && y.numel() < (std::int64_t{1} << 31) &&
         y.shape()[2] == fits(x.shape()[2], weight.shape()[2], p.stride.h, p.padding.h, p.dilation.h) &&
         y.shape()[3] == fits(x.shape()[3], weight.shape()[3], p.stride.w, p.padding.w, p.dilation.w);
}

Tensor channels_last(const Tensor& weight) {
  if (weight.is_contiguous(MemoryFormat::channels_last)) return weight;
  Tensor t = empty(weight.shape(), {.dtype = weight.dtype(), .device = weight.device()}, MemoryFormat::channels_last);
  copy(weight, t);
  return t;
}

constexpr float kOne = 1, kZero = 0;

}  // namespace

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p) {
  if (y.numel() == 0) return;
  if (weight.numel() == 0 || !takes(x, weight, y, p)) return direct::conv2d(x, weight, bias, y, p);
  const Tensor w = channels_last(weight);
  Context& c = begin("conv2d", {&x, &w, &bias, &y});
  std::lock_guard lock(c.mutex);
  Plan& plan = plan_for(c, Pass::forward, x, w, y, bias.defined(), p);
  const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(plan.algorithm);
  const Scratch workspace(c, plan.workspace);
  if (plan.fused_bias) {
    if (SPOOL_DONE(cudnnConvolutionBiasActivationForward(
            c.dnn(), &kOne, plan.x, x.raw_data(), plan.weight, w.raw_data(), plan.conv, algorithm, workspace.as<void>(),
            workspace.bytes(), &kZero, plan.y, y.raw_data(), plan.bias, bias.raw_data(), plan.identity, plan.y, y.raw_data())))
      return spool::cuda::finish(c);
    plan.fused_bias = false;
  }
  if (plan.algorithm < 0 ||
      !SPOOL_DONE(cudnnConvolutionForward(c.dnn(), &kOne, plan.x, x.raw_data(), plan.weight, w.raw_data(), plan.conv, algorithm,
                                          workspace.as<void>(), workspace.bytes(), &kZero, plan.y, y.raw_data()))) {
    plan.algorithm = -1;
    return direct::conv2d(x, weight, bias, y, p);
  }
  if (bias.defined()) {
    begin("conv2d", {&bias, &y, &y});
    SPOOL_CUDA(cudnnAddTensor(c.dnn(), &kOne, plan.bias, bias.raw_data(), &kOne, plan.y, y.raw_data()));
  }
  spool::cuda::finish(c);
}

void conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p) {
  if (gx.numel() == 0) return;
  if (gy.numel() == 0) return fill(gx, 0);
  if (!takes(gx, weight, gy, p)) return direct::conv2d_input_grad(gy, weight, gx, p);
  const Tensor w = channels_last(weight);
  Context& c = begin("conv2d", {&gy, &w, &gx});
  std::lock_guard lock(c.mutex);
  Plan& plan = plan_for(c, Pass::input_grad, gx, w, gy, false, p);
  const Scratch workspace(c, plan.workspace);
  if (plan.algorithm < 0 ||
      !SPOOL_DONE(cudnnConvolutionBackwardData(c.dnn(), &kOne, plan.weight, w.raw_data(), plan.y, gy.raw_data(), plan.conv,
                                               static_cast<cudnnConvolutionBwdDataAlgo_t>(plan.algorithm), workspace.as<void>(),
                                               workspace.bytes(), &kZero, plan.x, gx.raw_data()))) {
    plan.algorithm = -1;
    return direct::conv2d_input_grad(gy, weight, gx, p);
  }
  spool::cuda::finish(c);
}

void conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p) {
  if (gb.defined()) cuda::reduce(Reduce::sum, gy, 0b1101, gb);
  if (gw.numel() == 0) return;
  if (x.numel() == 0 || gy.numel() == 0) return fill(gw, 0);
  if (!takes(x, gw, gy, p)) return direct::conv2d_weight_grad(x, gy, gw, p);
  Tensor w = gw;
  if (!gw.is_contiguous(MemoryFormat::channels_last))
    w = empty(gw.shape(), {.dtype = gw.dtype(), .device = gw.device()}, MemoryFormat::channels_last);
  Context& c = begin("conv2d", {&x, &gy, &w});
  {
    std::lock_guard lock(c.mutex);
    Plan& plan = plan_for(c, Pass::weight_grad, x, w, gy, false, p);
    const Scratch workspace(c, plan.workspace);
    if (plan.algorithm < 0 ||
        !SPOOL_DONE(cudnnConvolutionBackwardFilter(c.dnn(), &kOne, plan.x, x.raw_data(), plan.y, gy.raw_data(), plan.conv,
                                                   static_cast<cudnnConvolutionBwdFilterAlgo_t>(plan.algorithm),
                                                   workspace.as<void>(), workspace.bytes(), &kZero, plan.weight, w.raw_data()))) {
      plan.algorithm = -1;
      return direct::conv2d_weight_grad(x, gy, gw, p);
    }
    spool::cuda::finish(c);
  }
  if (w.storage() != gw.storage()) copy(w, gw);
}

}  // namespace spool::kernels::cuda
