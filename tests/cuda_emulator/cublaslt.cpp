// The calls of cuBLASLt that Spool makes, written from its documentation: column-major matrices, batches with a stride, a bias along the rows of the result. Every argument is
// checked as the library checks it, and some that it only trusts: the pointers, and that the algorithm was found for this very product.
#include <cublasLt.h>

#include "library.h"

using namespace emulator;

namespace {

struct MatmulDesc : cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
};
struct Layout : cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct Preference : cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};
constexpr std::uint64_t kMagic = 0x53504f4f4c;
constexpr std::size_t kWorkspace = 4096;  // that every algorithm here claims to need

int handle_object = 0;
cublasLtHandle_t the_handle() { return reinterpret_cast<cublasLtHandle_t>(&handle_object); }

bool element_of(cudaDataType_t t, Element& e) {
  if (t == CUDA_R_32F)
    e = Element::f32;
  else if (t == CUDA_R_64F)
    e = Element::f64;
  else if (t == CUDA_R_16BF)
    e = Element::bf16;
  else
    return false;
  return true;
}

template <class T>
bool read(T& to, const void* from, std::size_t bytes) {
  if (!from || bytes != sizeof(T)) return false;
  std::memcpy(&to, from, bytes);
  return true;
}
cublasStatus_t status(bool fine) { return fine ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }

struct Product {
  std::uint64_t m, n, k;
  Element element;
};

// What the documentation asks of the four matrices; fills the sizes of op(A) [m, k], op(B) [k, n] and D [m, n].
cublasStatus_t check(const MatmulDesc& d, const Layout& a, const Layout& b, const Layout& c, const Layout& y, Product& p) {
  p.m = d.a == CUBLAS_OP_N ? a.rows : a.columns;
  p.k = d.a == CUBLAS_OP_N ? a.columns : a.rows;
  p.n = d.b == CUBLAS_OP_N ? b.columns : b.rows;
  if ((d.b == CUBLAS_OP_N ? b.rows : b.columns) != p.k || c.rows != p.m || c.columns != p.n || y.rows != p.m || y.columns != p.n)
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout* l : {&a, &b, &c, &y})
    if (l->type != a.type || l->batch != a.batch || l->batch < 1 || l->leading < static_cast<std::int64_t>(l->rows) || !l->rows ||
        !l->columns)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (!element_of(a.type, p.element)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool f64 = p.element == Element::f64;
  if (d.scale != (f64 ? CUDA_R_64F : CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (f64 != (d.compute == CUBLAS_COMPUTE_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.element != Element::f32) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.epilogue != CUBLASLT_EPILOGUE_DEFAULT && (f64 || d.epilogue != CUBLASLT_EPILOGUE_BIAS))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.epilogue == CUBLASLT_EPILOGUE_BIAS && d.bias_type != a.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t bytes_of(const Layout& l, Element e) {
  const std::int64_t last =
      (l.batch - 1) * l.stride + static_cast<std::int64_t>(l.columns - 1) * l.leading + static_cast<std::int64_t>(l.rows);
  return static_cast<std::size_t>(last) * size_of(e);
}

// A matrix as dense rows, transposed or not.
std::vector<double> gathered(const void* p, const Layout& l, bool transposed, std::int64_t batch, Element e) {
  const std::uint64_t rows = transposed ? l.columns : l.rows, columns = transposed ? l.rows : l.columns;
  std::vector<double> v(rows * columns);
  const char* base = static_cast<const char*>(p) + static_cast<std::size_t>(batch * l.stride) * size_of(e);
  for (std::uint64_t c = 0; c < l.columns; ++c)
    for (std::uint64_t r = 0; r < l.rows; ++r) {
      const double value = load(base, c * static_cast<std::uint64_t>(l.leading) + r, e);
      v[transposed ? c * columns + r : r * columns + c] = value;
    }
  return v;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = the_handle();
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t s) {
  switch (s) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "a status of the emulator";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t s) { return cublasLtGetStatusName(s); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute, cudaDataType_t scale) {
  auto* made = new MatmulDesc{};
  made->compute = compute;
  made->scale = scale;
  *d = made;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const void* value,
                                              std::size_t bytes) {
  auto& d = *static_cast<MatmulDesc*>(desc);
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return status(read(d.a, value, bytes));
    case CUBLASLT_MATMUL_DESC_TRANSB: return status(read(d.b, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return status(read(d.epilogue, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return status(read(d.bias, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return status(read(d.bias_type, value, bytes));
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  auto* made = new Layout{};
  made->type = type;
  made->rows = rows;
  made->columns = columns;
  made->leading = leading;
  *l = made;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, std::size_t bytes) {
  auto& l = *static_cast<Layout*>(layout);
  switch (what) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return status(read(l.batch, value, bytes));
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return status(read(l.stride, value, bytes));
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = new Preference{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete static_cast<Preference*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* value, std::size_t bytes) {
  auto& p = *static_cast<Preference*>(pref);
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return status(read(p.workspace, value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return status(read(p.alignment[0], value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return status(read(p.alignment[1], value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return status(read(p.alignment[2], value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return status(read(p.alignment[3], value, bytes));
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = 0;
  if (handle != the_handle() || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  Product p{};
  const cublasStatus_t s = check(*static_cast<MatmulDesc*>(d), *static_cast<Layout*>(a), *static_cast<Layout*>(b),
                                 *static_cast<Layout*>(c), *static_cast<Layout*>(y), p);
  if (s != CUBLAS_STATUS_SUCCESS) return s;
  const auto& pref = *static_cast<Preference*>(preference);
  for (const std::uint32_t n : pref.alignment)
    if (n < size_of(p.element)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (pref.workspace < kWorkspace) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].workspaceSize = kWorkspace;
  results[0].algo = {
      {kMagic, p.m, p.n, p.k, pref.alignment[0], pref.alignment[1], pref.alignment[3], static_cast<std::uint64_t>(p.element)}};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* A,
                              cublasLtMatrixLayout_t a_desc, const void* B, cublasLtMatrixLayout_t b_desc, const void* beta,
                              const void* C, cublasLtMatrixLayout_t c_desc, void* D, cublasLtMatrixLayout_t y_desc,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  std::lock_guard guard(lock());
  const MatmulDesc d = *static_cast<MatmulDesc*>(desc);
  const Layout a = *static_cast<Layout*>(a_desc), b = *static_cast<Layout*>(b_desc), c = *static_cast<Layout*>(c_desc),
               y = *static_cast<Layout*>(y_desc);
  Product p{};
  if (handle != the_handle() || !is_stream(stream)) return CUBLAS_STATUS_INVALID_VALUE;
  if (const cublasStatus_t s = check(d, a, b, c, y, p); s != CUBLAS_STATUS_SUCCESS) return s;
  const int device = device_of(stream);
  const std::uint64_t* chosen = algo->data;
  if (chosen[0] != kMagic || chosen[1] != p.m || chosen[2] != p.n || chosen[3] != p.k ||
      chosen[7] != static_cast<std::uint64_t>(p.element))
    return CUBLAS_STATUS_INVALID_VALUE;  // an algorithm for another product
  if (!aligned(A, chosen[4]) || !aligned(B, chosen[5]) || !aligned(D, chosen[6]) || C != D) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes < kWorkspace || !aligned(workspace, 256) || !is_device_range(workspace, workspace_bytes, device))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_device_range(A, bytes_of(a, p.element), device) || !is_device_range(B, bytes_of(b, p.element), device) ||
      !is_device_range(D, bytes_of(y, p.element), device))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool with_bias = d.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (with_bias && !is_device_range(d.bias, p.m * size_of(p.element), device)) return CUBLAS_STATUS_INVALID_VALUE;
  // Scalars are read when the call is made.
  const bool f64 = p.element == Element::f64;
  const double scale = f64 ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  const double keep = f64 ? *static_cast<const double*>(beta) : static_cast<double>(*static_cast<const float*>(beta));
  enqueue(stream, Work::library, "cublasLtMatmul", [=] {
    std::memset(workspace, 0xFF, kWorkspace);
    for (std::int32_t batch = 0; batch < a.batch; ++batch) {
      // op(A) in columns, op(B) in rows: each step adds a multiple of a column.
      const std::vector<double> left = gathered(A, a, d.a == CUBLAS_OP_N, batch, p.element),
                                right = gathered(B, b, d.b != CUBLAS_OP_N, batch, p.element);
      char* out = static_cast<char*>(D) + static_cast<std::size_t>(batch * y.stride) * size_of(p.element);
      std::vector<double> column(p.m);
      for (std::uint64_t j = 0; j < p.n; ++j) {
        column.assign(p.m, 0);
        for (std::uint64_t k = 0; k < p.k; ++k) {
          const double factor = right[k * p.n + j];
          const double* from = left.data() + k * p.m;
          for (std::uint64_t i = 0; i < p.m; ++i) column[i] += factor * from[i];
        }
        for (std::uint64_t i = 0; i < p.m; ++i) {
          const std::uint64_t at = j * static_cast<std::uint64_t>(y.leading) + i;
          double value = scale * column[i] + (keep != 0 ? keep * load(out, at, p.element) : 0);
          if (with_bias) value += load(d.bias, i, p.element);
          store(out, at, value, p.element);
        }
      }
    }
    return std::string();
  });
  return CUBLAS_STATUS_SUCCESS;
}
