// Matrix products by cuBLASLt. What it was asked once is kept with the algorithm that it chose: descriptors and heuristics cost more than a small product.
//
// cuBLASLt's matrices are column-major: y = a b + bias in rows is y' = b' a' + bias' in columns, so b goes first, and the bias runs along what cuBLASLt calls rows.
#include "spool/kernels/matmul.h"

#include <cstring>
#include <map>

#include "spool/core/cuda.h"
#include "spool/core/cuda/context.cuh"
#include "spool/core/errors.h"
#include "spool/kernels/elementwise.h"

namespace spool::kernels::cuda {
namespace {

using spool::cuda::Context;

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what NVIDIA advises for Hopper; split products need it

// A matrix of a batch as cuBLASLt sees it: column-major with a leading dimension, to be transposed or not.
struct Operand {
  bool transposed;
  std::int64_t leading, batch_stride;
  auto operator<=>(const Operand&) const = default;
};

// t [B, rows, columns] as the transposed, column-major matrix [columns, rows].
Operand operand(const Tensor& t) {
  const std::int64_t rows = t.shape()[1], columns = t.shape()[2], r = t.strides()[1], c = t.strides()[2];
  const std::int64_t batch = t.shape()[0] > 1 ? t.strides()[0] : 0;
  if (c == 1 || columns == 1) return {false, rows > 1 ? r : std::max<std::int64_t>(columns, 1), batch};
  return {true, columns > 1 ? c : std::max<std::int64_t>(rows, 1), batch};
}

// Everything that the choice of an algorithm can depend on.
struct Key {
  DType dtype;
  bool bias, tf32;
  std::int64_t m, n, k, batch;
  Operand a, b;
  int alignment_a, alignment_b, alignment_y, alignment_bias;
  auto operator<=>(const Key&) const = default;
};

int alignment(const Tensor& t) {
  if (!t.defined()) return 256;
  const auto address = reinterpret_cast<std::uintptr_t>(t.raw_data());
  int n = 256;
  while (n > 1 && address % static_cast<unsigned>(n)) n /= 2;
  return n;
}

struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

cudaDataType_t type_of(DType t) { return t == DType::f64 ? CUDA_R_64F : t == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

cublasLtMatrixLayout_t layout(DType t, std::int64_t rows, std::int64_t columns, const Operand& o, std::int64_t batch) {
  cublasLtMatrixLayout_t l = nullptr;
  SPOOL_CUDA(cublasLtMatrixLayoutCreate(&l, type_of(t), static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                        o.leading));
  const auto count = static_cast<std::int32_t>(batch);
  SPOOL_CUDA(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  SPOOL_CUDA(
      cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &o.batch_stride, sizeof o.batch_stride));
  return l;
}

template <class T>
void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const T& value) {
  SPOOL_CUDA(cublasLtMatmulDescSetAttribute(d, what, &value, sizeof value));
}

// The plan is kept for good, as the handle is.
Plan make_plan(Context& c, const Key& key) {
  Plan p;
  const bool f64 = key.dtype == DType::f64;
  const cublasComputeType_t compute = f64                                   ? CUBLAS_COMPUTE_64F
                                      : key.dtype == DType::f32 && key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                            : CUBLAS_COMPUTE_32F;
  SPOOL_CUDA(cublasLtMatmulDescCreate(&p.product, compute, f64 ? CUDA_R_64F : CUDA_R_32F));
  set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, key.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p.product, CUBLASLT_MATMUL_DESC_TRANSB, key.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (key.bias) {
    set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(p.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(key.dtype));
  }
  p.a = key.b.transposed ? layout(key.dtype, key.k, key.n, key.b, key.batch) : layout(key.dtype, key.n, key.k, key.b, key.batch);
  p.b = key.a.transposed ? layout(key.dtype, key.m, key.k, key.a, key.batch) : layout(key.dtype, key.k, key.m, key.a, key.batch);
  p.y = layout(key.dtype, key.n, key.m, {false, key.n, key.m * key.n}, key.batch);

  cublasLtMatmulPreference_t preference = nullptr;
  SPOOL_CUDA(cublasLtMatmulPreferenceCreate(&preference));
  const auto limit = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    SPOOL_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value));
  };
  limit(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspace});
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.alignment_b));
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.alignment_a));
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.alignment_y));
  limit(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.alignment_y));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  SPOOL_CUDA(cublasLtMatmulAlgoGetHeuristic(c.blas(), p.product, p.a, p.b, p.y, p.y, preference, 1, &found, &count));
  SPOOL_CUDA(cublasLtMatmulPreferenceDestroy(preference));
  if (count < 1)
    throw CudaError(spool::cuda::running_operation(),
                    "cublasLtMatmulAlgoGetHeuristic failed: it knows no way to compute this product");
  p.algorithm = found.algo;
  p.workspace = found.workspaceSize;
  return p;
}

const Plan& plan_for(Context& c, const Key& key) {
  static std::map<Key, Plan>* plans = new std::map<Key, Plan>[64];
  auto& known = plans[c.device];
  auto it = known.find(key);
  if (it == known.end()) it = known.emplace(key, make_plan(c, key)).first;
  return it->second;
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  const std::int64_t batch = y.shape()[0], m = y.shape()[1], n = y.shape()[2], k = a.shape()[2];
  if (y.numel() == 0) return;
  // cuBLASLt adds no bias to f64, and takes no empty matrices: there y starts as the bias, or as zero.
  const bool epilogue = bias.defined() && y.dtype() != DType::f64 && k > 0;
  if (!epilogue && (bias.defined() || k == 0)) {
    if (bias.defined()) {
      copy(alias(bias, y.shape(), Strides{0, 0, bias.strides()[0]}, bias.offset()), y);
    } else {
      fill(y, 0);
    }
    if (k == 0) return;
  }
  Context& c = spool::cuda::begin("matmul", {&a, &b, &bias, &y});
  std::lock_guard lock(c.mutex);
  const Key key{y.dtype(),    epilogue,     allow_tf32(),   m, n, k, batch, operand(a), operand(b), alignment(a),
                alignment(b), alignment(y), alignment(bias)};
  const Plan& p = plan_for(c, key);
  if (epilogue) {
    const void* pointer = bias.raw_data();
    set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointer);
  }
  const spool::cuda::Scratch workspace(c, p.workspace);
  const double one64 = 1, beta64 = bias.defined() && !epilogue ? 1 : 0;
  const float one32 = 1, beta32 = 0;
  const bool f64 = y.dtype() == DType::f64;
  SPOOL_CUDA(cublasLtMatmul(c.blas(), p.product, f64 ? static_cast<const void*>(&one64) : &one32, b.raw_data(), p.a, a.raw_data(),
                            p.b, f64 ? static_cast<const void*>(&beta64) : &beta32, y.raw_data(), p.y, y.raw_data(), p.y,
                            &p.algorithm, workspace.as<void>(), p.workspace, c.stream));
  spool::cuda::finish(c);
}

}  // namespace spool::kernels::cuda
