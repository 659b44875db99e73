// The calls of cuDNN that Spool makes, written from its documentation: convolution of channels-last images and its gradients, in f32 and bf16. Algorithms come with the
// properties that matter to a caller (determinism, workspace, what is not supported), and must be given what they asked for.
#include <cudnn.h>

#include "library.h"

using namespace emulator;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  int n, c, h, w;
};
struct cudnnFilterStruct {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  int k, c, h, w;
};
struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode;
};

namespace {

constexpr std::size_t kWorkspace = 8192;

bool element_of(cudnnDataType_t t, Element& e) {
  if (t == CUDNN_DATA_FLOAT)
    e = Element::f32;
  else if (t == CUDNN_DATA_BFLOAT16)
    e = Element::bf16;
  else
    return false;
  return true;
}

std::size_t count(const cudnnTensorStruct& t) {
  return std::size_t(t.n) * std::size_t(t.c) * std::size_t(t.h) * std::size_t(t.w);
}
std::size_t count(const cudnnFilterStruct& f) {
  return std::size_t(f.k) * std::size_t(f.c) * std::size_t(f.h) * std::size_t(f.w);
}

// A convolution whose descriptors fit each other.
struct Problem {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct p;
  Element element = Element::f32;
};

cudnnStatus_t make_problem(const cudnnTensorStruct& x, const cudnnFilterStruct& w, const cudnnConvolutionStruct& p,
                           const cudnnTensorStruct& y, Problem& out) {
  out = {x, y, w, p};
  if (x.type != w.type || x.type != y.type || !element_of(x.type, out.element)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (x.format != CUDNN_TENSOR_NHWC || y.format != CUDNN_TENSOR_NHWC || w.format != CUDNN_TENSOR_NHWC)
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (p.math == CUDNN_TENSOR_OP_MATH && out.element == Element::f32) return CUDNN_STATUS_NOT_SUPPORTED;
  const int h = (x.h + 2 * p.pad_h - p.dilation_h * (w.h - 1) - 1) / p.stride_h + 1;
  const int v = (x.w + 2 * p.pad_w - p.dilation_w * (w.w - 1) - 1) / p.stride_w + 1;
  if (x.c != w.c * p.groups || w.k % p.groups || y.n != x.n || y.c != w.k || y.h != h || y.w != v) return CUDNN_STATUS_BAD_PARAM;
  return CUDNN_STATUS_SUCCESS;
}

// Calls f(place in x, place in y, place of the tap in the weights of output 0, group) for every pair of pixels that a tap joins.
template <class F>
void for_each_tap(const Problem& q, int n, const F& f) {
  const cudnnConvolutionStruct& p = q.p;
  for (int i = 0; i < q.y.h; ++i)
    for (int j = 0; j < q.y.w; ++j)
      for (int u = 0; u < q.w.h; ++u)
        for (int v = 0; v < q.w.w; ++v) {
          const int h = i * p.stride_h + u * p.dilation_h - p.pad_h, w = j * p.stride_w + v * p.dilation_w - p.pad_w;
          if (h < 0 || h >= q.x.h || w < 0 || w >= q.x.w) continue;
          const std::size_t in = std::size_t((n * q.x.h + h) * q.x.w + w) * std::size_t(q.x.c),
                            out = std::size_t((n * q.y.h + i) * q.y.w + j) * std::size_t(q.y.c);
          f(in, out, std::size_t(u * q.w.w + v));
        }
}

// Weights [K, taps, C] as [taps, C, K], so that the innermost loop runs along the outputs.
std::vector<double> by_output(const Problem& q, const std::vector<double>& w) {
  std::vector<double> t(w.size());
  const std::size_t taps = std::size_t(q.w.h * q.w.w), c = std::size_t(q.w.c), k = std::size_t(q.w.k);
  for (std::size_t o = 0; o < k; ++o)
    for (std::size_t i = 0; i < taps * c; ++i) t[i * k + o] = w[o * taps * c + i];
  return t;
}

void forward(const Problem& q, const void* x, const void* w, void* y, double alpha, double beta, const void* bias) {
  const std::vector<double> xs = load_all(x, count(q.x), q.element), ws = by_output(q, load_all(w, count(q.w), q.element));
  std::vector<double> ys(count(q.y));
  const std::size_t c = std::size_t(q.w.c), k = std::size_t(q.w.k), per_group = k / std::size_t(q.p.groups);
  for (int n = 0; n < q.x.n; ++n)
    for_each_tap(q, n, [&](std::size_t in, std::size_t out, std::size_t tap) {
      for (std::size_t g = 0; g < std::size_t(q.p.groups); ++g)
        for (std::size_t i = 0; i < c; ++i) {
          const double factor = xs[in + g * c + i];
          const double* from = ws.data() + (tap * c + i) * k + g * per_group;
          double* to = ys.data() + out + g * per_group;
          for (std::size_t o = 0; o < per_group; ++o) to[o] += factor * from[o];
        }
    });
  if (bias)
    for (std::size_t i = 0; i < ys.size(); ++i) ys[i] += load(bias, i % k, q.element);
  store_all(ys, y, q.element, alpha, beta);
}

void backward_data(const Problem& q, const void* w, const void* gy, void* gx, double alpha, double beta) {
  const std::vector<double> gs = load_all(gy, count(q.y), q.element), ws = load_all(w, count(q.w), q.element);
  std::vector<double> xs(count(q.x));
  const std::size_t c = std::size_t(q.w.c), taps = std::size_t(q.w.h * q.w.w), per_group = std::size_t(q.w.k / q.p.groups);
  for (int n = 0; n < q.x.n; ++n)
    for_each_tap(q, n, [&](std::size_t in, std::size_t out, std::size_t tap) {
      for (std::size_t o = 0; o < std::size_t(q.w.k); ++o) {
        const double factor = gs[out + o];
        const double* from = ws.data() + (o * taps + tap) * c;
        double* to = xs.data() + in + o / per_group * c;
        for (std::size_t i = 0; i < c; ++i) to[i] += factor * from[i];
      }
    });
  store_all(xs, gx, q.element, alpha, beta);
}

void backward_filter(const Problem& q, const void* x, const void* gy, void* gw, double alpha, double beta) {
  const std::vector<double> xs = load_all(x, count(q.x), q.element), gs = load_all(gy, count(q.y), q.element);
  const std::size_t c = std::size_t(q.w.c), taps = std::size_t(q.w.h * q.w.w), k = std::size_t(q.w.k),
                    per_group = k / std::size_t(q.p.groups);
  std::vector<double> by_tap(count(q.w));  // [taps, C, K]
  for (int n = 0; n < q.x.n; ++n)
    for_each_tap(q, n, [&](std::size_t in, std::size_t out, std::size_t tap) {
      for (std::size_t g = 0; g < std::size_t(q.p.groups); ++g)
        for (std::size_t i = 0; i < c; ++i) {
          const double factor = xs[in + g * c + i];
          double* to = by_tap.data() + (tap * c + i) * k + g * per_group;
          const double* from = gs.data() + out + g * per_group;
          for (std::size_t o = 0; o < per_group; ++o) to[o] += factor * from[o];
        }
    });
  std::vector<double> ws(count(q.w));
  for (std::size_t o = 0; o < k; ++o)
    for (std::size_t i = 0; i < taps * c; ++i) ws[o * taps * c + i] = by_tap[i * k + o];
  store_all(ws, gw, q.element, alpha, beta);
}

// Fills in what cuDNN would answer: the fastest first, which may be one that is not deterministic, and one that it does not have.
template <class Perf, class Algo>
int answer(Perf* results, int wanted, std::initializer_list<std::pair<Algo, cudnnDeterminism_t>> algorithms, Algo missing,
           cudnnMathType_t math) {
  int n = 0;
  const auto add = [&](Algo a, cudnnStatus_t status, cudnnDeterminism_t determinism) {
    if (n == wanted) return;
    Perf& r = results[n++];
    r = {};
    r.algo = a;
    r.status = status;
    r.memory = kWorkspace;
    r.determinism = determinism;
    r.mathType = math;
  };
  add(missing, CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC);
  for (const auto& [a, determinism] : algorithms) add(a, CUDNN_STATUS_SUCCESS, determinism);
  return n;
}

bool good_workspace(const void* p, std::size_t bytes, int device) {
  return bytes >= kWorkspace && aligned(p, 16) && is_device_range(p, bytes, device);
}

template <class F>
cudnnStatus_t run(cudnnHandle_t handle, const char* name, const Problem& q, const void* x, const void* w, const void* y,
                  void* workspace, std::size_t workspace_bytes, F work) {
  std::lock_guard guard(lock());
  if (!is_stream(handle->stream)) return CUDNN_STATUS_BAD_PARAM;
  const int device = device_of(handle->stream);
  const std::size_t size = size_of(q.element);
  if (!is_device_range(x, count(q.x) * size, device) || !is_device_range(w, count(q.w) * size, device) ||
      !is_device_range(y, count(q.y) * size, device) || !good_workspace(workspace, workspace_bytes, device))
    return CUDNN_STATUS_BAD_PARAM;
  enqueue(handle->stream, Work::library, name, [=] {
    std::memset(workspace, 0xFF, kWorkspace);
    work();
    return std::string();
  });
  return CUDNN_STATUS_SUCCESS;
}

double number(const void* p) { return static_cast<double>(*static_cast<const float*>(p)); }

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t s) {
  switch (s) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "a status of the emulator";
  }
}
void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (size) *message = 0;
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* d) {
  *d = new cudnnTensorStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                         int c, int h, int w) {
  if (n < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
  *d = {format, type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* d) {
  *d = new cudnnFilterStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format, int k,
                                         int c, int h, int w) {
  if (k < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
  *d = {format, type, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* d) {
  *d = new cudnnConvolutionStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u, int v, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h < 1 || dilation_w < 1) return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = {pad_h, pad_w, u, v, dilation_h, dilation_w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  d->groups = groups;
  return groups < 1 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  d->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* d) {
  *d = new cudnnActivationStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d, cudnnActivationMode_t mode, cudnnNanPropagation_t,
                                           double) {
  d->mode = mode;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t p,
                                                     const cudnnTensorDescriptor_t y, const int wanted, int* n,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  Problem q{};
  if (const cudnnStatus_t s = make_problem(*x, *w, *p, *y, q); s != CUDNN_STATUS_SUCCESS) return s;
  *n = answer(results, wanted, {std::pair(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_DETERMINISTIC)},
              CUDNN_CONVOLUTION_FWD_ALGO_FFT, p->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
                                                   const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t p,
                                                   const cudnnTensorDescriptor_t y, const int wanted, int* n,
                                                   cudnnConvolutionFwdAlgoPerf_t* results) {
  return cudnnGetConvolutionForwardAlgorithm_v7(h, x, w, p, y, wanted, n, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t p,
                                                          const cudnnTensorDescriptor_t x, const int wanted, int* n,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  Problem q{};
  if (const cudnnStatus_t s = make_problem(*x, *w, *p, *y, q); s != CUDNN_STATUS_SUCCESS) return s;
  *n = answer(results, wanted,
              {std::pair(CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_NON_DETERMINISTIC),
               std::pair(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_DETERMINISTIC)},
              CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, p->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(cudnnHandle_t h, const cudnnFilterDescriptor_t w,
                                                        const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t p,
                                                        const cudnnTensorDescriptor_t x, const int wanted, int* n,
                                                        cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return cudnnGetConvolutionBackwardDataAlgorithm_v7(h, w, y, p, x, wanted, n, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t p,
                                                            const cudnnFilterDescriptor_t w, const int wanted, int* n,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  Problem q{};
  if (const cudnnStatus_t s = make_problem(*x, *w, *p, *y, q); s != CUDNN_STATUS_SUCCESS) return s;
  *n = answer(results, wanted,
              {std::pair(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_NON_DETERMINISTIC),
               std::pair(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_DETERMINISTIC)},
              CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, p->math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
                                                          const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t p,
                                                          const cudnnFilterDescriptor_t w, const int wanted, int* n,
                                                          cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, x, y, p, w, wanted, n, results);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                      const void* x, const cudnnFilterDescriptor_t w_desc, const void* w,
                                      const cudnnConvolutionDescriptor_t p, cudnnConvolutionFwdAlgo_t algo, void* workspace,
                                      std::size_t bytes, const void* beta, const cudnnTensorDescriptor_t y_desc, void* y) {
  Problem q{};
  if (const cudnnStatus_t s = make_problem(*x_desc, *w_desc, *p, *y_desc, q); s != CUDNN_STATUS_SUCCESS) return s;
  if (algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) return CUDNN_STATUS_NOT_SUPPORTED;
  const double a = number(alpha), b = number(beta);
  return run(handle, "cudnnConvolutionForward", q, x, w, y, workspace, bytes, [=] { forward(q, x, w, y, a, b, nullptr); });
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                                    const void* x, const cudnnFilterDescriptor_t w_desc, const void* w,
                                                    const cudnnConvolutionDescriptor_t p, cudnnConvolutionFwdAlgo_t algo,
                                                    void* workspace, std::size_t bytes, const void* alpha2,
                                                    const cudnnTensorDescriptor_t z_desc, const void*,
                                                    const cudnnTensorDescriptor_t bias_desc, const void* bias,
                                                    const cudnnActivationDescriptor_t activation,
                                                    const cudnnTensorDescriptor_t y_desc, void* y) {
  Problem q{};
  if (const cudnnStatus_t s = make_problem(*x_desc, *w_desc, *p, *y_desc, q); s != CUDNN_STATUS_SUCCESS) return s;
  if (activation->mode != CUDNN_ACTIVATION_IDENTITY || number(alpha2) != 0 || z_desc != y_desc) return CUDNN_STATUS_NOT_SUPPORTED;
  if (algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
    return CUDNN_STATUS_NOT_SUPPORTED;  // the only one for the identity
  if (bias_desc->n != 1 || bias_desc->c != q.w.k || bias_desc->h != 1 || bias_desc->w != 1 || bias_desc->type != q.x.type)
    return CUDNN_STATUS_BAD_PARAM;
  if (!is_device_range(bias, std::size_t(q.w.k) * size_of(q.element), device_of(handle->stream))) return CUDNN_STATUS_BAD_PARAM;
  const double a = number(alpha);
  return run(handle, "cudnnConvolutionBiasActivationForward", q, x, w, y, workspace, bytes,
             [=] { forward(q, x, w, y, a, 0, bias); });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t w_desc,
                                           const void* w, const cudnnTensorDescriptor_t y_desc, const void* gy,
                                           const cudnnConvolutionDescriptor_t p, cudnnConvolutionBwdDataAlgo_t algo,
                                           void* workspace, std::size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t x_desc, void* gx) {
  Problem q{};
  if (const cudnnStatus_t s = make_problem(*x_desc, *w_desc, *p, *y_desc, q); s != CUDNN_STATUS_SUCCESS) return s;
  if (algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 && algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_1) return CUDNN_STATUS_NOT_SUPPORTED;
  const double a = number(alpha), b = number(beta);
  return run(handle, "cudnnConvolutionBackwardData", q, gx, w, gy, workspace, bytes, [=] { backward_data(q, w, gy, gx, a, b); });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                             const void* x, const cudnnTensorDescriptor_t y_desc, const void* gy,
                                             const cudnnConvolutionDescriptor_t p, cudnnConvolutionBwdFilterAlgo_t algo,
                                             void* workspace, std::size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t w_desc, void* gw) {
  Problem q{};
  if (const cudnnStatus_t s = make_problem(*x_desc, *w_desc, *p, *y_desc, q); s != CUDNN_STATUS_SUCCESS) return s;
  if (algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 && algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)
    return CUDNN_STATUS_NOT_SUPPORTED;
  const double a = number(alpha), b = number(beta);
  return run(handle, "cudnnConvolutionBackwardFilter", q, x, gw, gy, workspace, bytes,
             [=] { backward_filter(q, x, gy, gw, a, b); });
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t a_desc, const void* a,
                             const void* beta, const cudnnTensorDescriptor_t c_desc, void* c) {
  std::lock_guard guard(lock());
  Element e{};
  if (a_desc->type != c_desc->type || !element_of(a_desc->type, e)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (a_desc->n != 1 || a_desc->h != 1 || a_desc->w != 1 || a_desc->c != c_desc->c || c_desc->format != CUDNN_TENSOR_NHWC)
    return CUDNN_STATUS_NOT_SUPPORTED;
  const int device = device_of(handle->stream);
  if (!is_device_range(a, count(*a_desc) * size_of(e), device) || !is_device_range(c, count(*c_desc) * size_of(e), device))
    return CUDNN_STATUS_BAD_PARAM;
  const double x = number(alpha), y = number(beta);
  const std::size_t n = count(*c_desc), channels = std::size_t(a_desc->c);
  enqueue(handle->stream, Work::library, "cudnnAddTensor", [=] {
    for (std::size_t i = 0; i < n; ++i) store(c, i, x * load(a, i % channels, e) + y * load(c, i, e), e);
    return std::string();
  });
  return CUDNN_STATUS_SUCCESS;
}
