#include "spool/kernels/cpu/onednn.h"

#if !SPOOL_WITH_ONEDNN

namespace spool::kernels::cpu::onednn {
bool conv2d(const Tensor&, const Tensor&, const Tensor&, Tensor&, const ConvParams&) { return false; }
bool conv2d_input_grad(const Tensor&, const Tensor&, Tensor&, const ConvParams&) { return false; }
bool conv2d_weight_grad(const Tensor&, const Tensor&, Tensor&, Tensor&, const ConvParams&) { return false; }
bool matmul(const Tensor&, const Tensor&, const Tensor&, Tensor&) { return false; }
}  // namespace spool::kernels::cpu::onednn

#else

#include <fmt/format.h>

#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "spool/core/allocator.h"
#include "spool/core/errors.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace spool::kernels::cpu::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Extents = dnnl::memory::dims;
using dnnl::algorithm;
using dnnl::prop_kind;

// --- the two forms of the API

dnnl::engine& engine() {
  // Never destroyed: primitives of threads that outlive main() still refer to it.
  static dnnl::engine& e = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return e;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return a;
}

// The primitive_desc of P from the arguments of its operation; empty where there is no implementation.
template <class P, class... Args>
typename P::primitive_desc describe(const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine(), args..., attributes(), true);
#else
  return typename P::primitive_desc(typename P::desc(args...), attributes(), engine(), true);
#endif
}
// The same for a gradient, which wants the description of its forward operation as a hint.
template <class P, class Hint, class... Args>
typename P::primitive_desc describe_grad(const Hint& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine(), args..., forward, attributes(), true);
#else
  return typename P::primitive_desc(typename P::desc(args...), attributes(), engine(), forward, true);
#endif
}

// --- plans: a primitive made once, with the memory objects it runs on

// One argument. Where the primitive wants another order of the elements than the tensor's, they go through a reorder and a temporary.
struct Slot {
  int id = 0;
  bool output = false;
  dnnl::memory user, inner;
  dnnl::reorder reorder;  // empty where the order fits
  std::size_t bytes = 0;  // of the temporary
};

struct Plan {
  dnnl::primitive primitive;  // empty: oneDNN cannot do it
  Slot slots[4];
  int used = 0;
  dnnl::memory scratchpad;
  std::size_t scratchpad_bytes = 0;

  template <class Descriptor, class Primitive>
  void set_primitive(const Descriptor& pd, Primitive p) {
    primitive = std::move(p);
    scratchpad_bytes = pd.scratchpad_desc().get_size();
    scratchpad = dnnl::memory(pd.scratchpad_desc(), engine(), nullptr);
  }
  void add(int id, const Desc& tensor, const Desc& wanted, bool output = false) {
    Slot& s = slots[used++];
    s.id = id;
    s.output = output;
    s.user = dnnl::memory(tensor, engine(), nullptr);
    if (tensor == wanted) return;
    s.inner = dnnl::memory(wanted, engine(), nullptr);
    s.bytes = wanted.get_size();
    s.reorder = output ? dnnl::reorder(s.inner, s.user) : dnnl::reorder(s.user, s.inner);
  }
};

// Everything a plan depends on, as numbers: what is computed, element type, number of threads, sizes, strides, options.
struct Key {
  std::array<std::int64_t, 28> words{};
  int used = 0;
  template <class... W>
  Key& add(W... w) {
    ((words[static_cast<std::size_t>(used++)] = static_cast<std::int64_t>(w)), ...);
    return *this;
  }
  Key& add_all(const Shape& shape) {
    for (const std::int64_t d : shape) add(d);
    return *this;
  }
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const noexcept {
    std::uint64_t h = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < k.used; ++i)
      h = (h ^ static_cast<std::uint64_t>(k.words[static_cast<std::size_t>(i)])) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return h;
  }
};

enum class Kind { conv, input_grad, weight_grad, matmul };

Key start_key(Kind kind, DType dtype) {
  int threads = 1;
#if defined(_OPENMP)
  threads = omp_get_max_threads();
#endif
  return Key().add(kind, dtype, threads);
}

// The plans of a thread. A program uses a few dozen; one whose sizes never repeat starts over now and then instead of growing.
struct Context {
  static constexpr std::size_t kMaxPlans = 512;
  dnnl::stream stream{engine()};
  std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash> plans;
};

Context& context() {
  thread_local Context c;
  return c;
}

template <class Make>
Plan& find_plan(const Key& key, Make make) {
  auto& plans = context().plans;
  if (const auto it = plans.find(key); it != plans.end()) return *it->second;
  auto plan = std::make_unique<Plan>();
  try {
    make(*plan);
  } catch (const dnnl::error& e) {
    // A call that this version refuses is a call it has no implementation for; the plan remembers it.
    if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments)
      throw Error("oneDNN", fmt::format("{} (status {})", e.what(), static_cast<int>(e.status)));
    *plan = Plan();
  }
  if (plans.size() >= Context::kMaxPlans) plans.clear();
  return *(plans[key] = std::move(plan));
}

// Memory for the length of one call, from the caching allocator.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes), data_(static_cast<std::byte*>(allocate(bytes))) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { deallocate(data_, bytes_); }
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

void check(dnnl_status_t status) {
  if (status != dnnl_success) throw Error("oneDNN", fmt::format("an operation failed with status {}", static_cast<int>(status)));
}

// The C function takes the arguments as an array, where the C++ one would build a hash map for each call.
void execute(const dnnl::primitive& p, const dnnl_exec_arg_t* args, int n) {
  check(dnnl_primitive_execute(p.get(), context().stream.get(), n, args));
}

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

bool run(Plan& plan, std::initializer_list<void*> pointers) {
  if (!plan.primitive) return false;
  std::size_t total = rounded(plan.scratchpad_bytes);
  for (int i = 0; i < plan.used; ++i) total += rounded(plan.slots[i].bytes);
  const Scratch scratch(total);
  std::byte* next = scratch.data();
  dnnl_exec_arg_t args[5];
  int n = 0;
  for (void* p : pointers) {
    Slot& s = plan.slots[n];
    s.user.set_data_handle(p);
    if (s.reorder) {
      s.inner.set_data_handle(next);
      next += rounded(s.bytes);
      if (!s.output) {
        const dnnl_exec_arg_t move[] = {{DNNL_ARG_FROM, s.user.get()}, {DNNL_ARG_TO, s.inner.get()}};
        execute(s.reorder, move, 2);
      }
    }
    args[n++] = {s.id, s.reorder ? s.inner.get() : s.user.get()};
  }
  plan.scratchpad.set_data_handle(next);
  args[n++] = {DNNL_ARG_SCRATCHPAD, plan.scratchpad.get()};
  execute(plan.primitive, args, n);
  for (int i = 0; i < plan.used; ++i) {
    const Slot& s = plan.slots[i];
    if (!s.reorder || !s.output) continue;
    const dnnl_exec_arg_t move[] = {{DNNL_ARG_FROM, s.inner.get()}, {DNNL_ARG_TO, s.user.get()}};
    execute(s.reorder, move, 2);
  }
  context().stream.wait();
  return true;
}

// --- convolution

dnnl::memory::data_type type_of(const Tensor& t) {
  return t.dtype() == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}
bool takes(const Tensor& t) { return t.dtype() == DType::f32 || t.dtype() == DType::bf16; }

struct ConvCall {
  const Tensor &x, &weight, &y;  // or their gradients
  const ConvParams& p;
  bool bias;

  bool possible() const {
    const auto fits = [](std::int64_t in, std::int64_t k, std::int64_t s, std::int64_t pad, std::int64_t d) {
      return (in + 2 * pad - d * (k - 1) - 1) / s + 1;
    };
    const Shape &in = x.shape(), &k = weight.shape(), &out = y.shape();
    return takes(x) && x.numel() && weight.numel() && y.numel() &&
           out[2] == fits(in[2], k[2], p.stride.h, p.padding.h, p.dilation.h) &&
           out[3] == fits(in[3], k[3], p.stride.w, p.padding.w, p.dilation.w);
  }
  bool weight_channels_last() const { return !weight.is_contiguous(); }
  Key key(Kind kind) const {
    Key k = start_key(kind, x.dtype());
    k.add_all(x.shape()).add_all(weight.shape()).add(y.shape()[2], y.shape()[3], weight_channels_last(), bias);
    return k.add(p.stride.h, p.stride.w, p.padding.h, p.padding.w, p.dilation.h, p.dilation.w, p.groups);
  }

  static Extents extents(const Shape& s) { return Extents(s.begin(), s.end()); }
  Desc image(const Tensor& t) const { return Desc(extents(t.shape()), type_of(t), dnnl::memory::format_tag::nhwc); }
  Extents weight_extents() const {
    const Shape& k = weight.shape();
    return p.groups == 1 ? extents(k) : Extents{p.groups, k[0] / p.groups, k[1], k[2], k[3]};
  }
  Desc weight_any() const { return Desc(weight_extents(), type_of(weight), dnnl::memory::format_tag::any); }
  Desc weight_plain() const {
    const Strides s =
        dense_strides(weight.shape(), weight_channels_last() ? MemoryFormat::channels_last : MemoryFormat::contiguous);
    const Extents plain = p.groups == 1 ? extents(s) : Extents{weight.shape()[0] / p.groups * s[0], s[0], s[1], s[2], s[3]};
    return Desc(weight_extents(), type_of(weight), plain);
  }
  Desc bias_desc() const { return bias ? Desc({weight.shape()[0]}, type_of(weight), dnnl::memory::format_tag::a) : Desc(); }
  Extents strides() const { return {p.stride.h, p.stride.w}; }
  Extents dilations() const { return {p.dilation.h - 1, p.dilation.w - 1}; }
  Extents padding_before() const { return {p.padding.h, p.padding.w}; }
  // What is left of the input beyond the last window is a padding that may be negative; oneDNN counts the same way.
  Extents padding_after() const {
    const auto after = [](std::int64_t in, std::int64_t out, std::int64_t k, std::int64_t s, std::int64_t pad, std::int64_t d) {
      return (out - 1) * s + d * (k - 1) + 1 - in - pad;
    };
    return {after(x.shape()[2], y.shape()[2], weight.shape()[2], p.stride.h, p.padding.h, p.dilation.h),
            after(x.shape()[3], y.shape()[3], weight.shape()[3], p.stride.w, p.padding.w, p.dilation.w)};
  }
  dnnl::convolution_forward::primitive_desc forward() const {
    return describe<dnnl::convolution_forward>(prop_kind::forward_training, algorithm::convolution_direct, image(x), weight_any(),
                                               bias_desc(), image(y), strides(), dilations(), padding_before(), padding_after());
  }
};

void* pointer(const Tensor& t) { return t.defined() ? t.raw_data() : nullptr; }

}  // namespace

bool conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p) {
  const ConvCall call{x, weight, y, p, bias.defined()};
  if (!call.possible()) return false;
  Plan& plan = find_plan(call.key(Kind::conv), [&](Plan& made) {
    const auto pd = call.forward();
    if (!pd) return;
    made.set_primitive(pd, dnnl::convolution_forward(pd));
    made.add(DNNL_ARG_SRC, call.image(x), pd.src_desc());
    made.add(DNNL_ARG_WEIGHTS, call.weight_plain(), pd.weights_desc());
    made.add(DNNL_ARG_DST, call.image(y), pd.dst_desc(), true);
    if (call.bias) made.add(DNNL_ARG_BIAS, call.bias_desc(), pd.bias_desc());
  });
  return call.bias ? run(plan, {pointer(x), pointer(weight), pointer(y), pointer(bias)})
                   : run(plan, {pointer(x), pointer(weight), pointer(y)});
}

bool conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p) {
  const ConvCall call{gx, weight, gy, p, false};
  if (!call.possible()) return false;
  Plan& plan = find_plan(call.key(Kind::input_grad), [&](Plan& made) {
    const auto forward = call.forward();
    if (!forward) return;
    const auto pd = describe_grad<dnnl::convolution_backward_data>(forward, algorithm::convolution_direct, call.image(gx),
                                                                   call.weight_any(), call.image(gy), call.strides(),
                                                                   call.dilations(), call.padding_before(), call.padding_after());
    if (!pd) return;
    made.set_primitive(pd, dnnl::convolution_backward_data(pd));
    made.add(DNNL_ARG_DIFF_DST, call.image(gy), pd.diff_dst_desc());
    made.add(DNNL_ARG_WEIGHTS, call.weight_plain(), pd.weights_desc());
    made.add(DNNL_ARG_DIFF_SRC, call.image(gx), pd.diff_src_desc(), true);
  });
  return run(plan, {pointer(gy), pointer(weight), pointer(gx)});
}

bool conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p) {
  const ConvCall call{x, gw, gy, p, gb.defined()};
  if (!call.possible()) return false;
  Plan& plan = find_plan(call.key(Kind::weight_grad), [&](Plan& made) {
    const auto forward = call.forward();
    if (!forward) return;
    const auto pd = describe_grad<dnnl::convolution_backward_weights>(
        forward, algorithm::convolution_direct, call.image(x), call.weight_any(), call.bias_desc(), call.image(gy),
        call.strides(), call.dilations(), call.padding_before(), call.padding_after());
    if (!pd) return;
    made.set_primitive(pd, dnnl::convolution_backward_weights(pd));
    made.add(DNNL_ARG_SRC, call.image(x), pd.src_desc());
    made.add(DNNL_ARG_DIFF_DST, call.image(gy), pd.diff_dst_desc());
    made.add(DNNL_ARG_DIFF_WEIGHTS, call.weight_plain(), pd.diff_weights_desc(), true);
    if (call.bias) made.add(DNNL_ARG_DIFF_BIAS, call.bias_desc(), pd.diff_bias_desc(), true);
  });
  return call.bias ? run(plan, {pointer(x), pointer(gy), pointer(gw), pointer(gb)})
                   : run(plan, {pointer(x), pointer(gy), pointer(gw)});
}

// --- matrix products

bool matmul(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  if (!takes(y) || !y.numel() || !a.shape()[2]) return false;
  // A batch of one needs no third dimension, and its kernels are the better ones; a batch stride of 0 is a batch of one for oneDNN.
  const bool batched = y.shape()[0] != 1;
  struct Matrix {
    std::int64_t batch, rows, columns, batch_stride, row_stride, column_stride;
  };
  const auto matrix = [](const Tensor& t) {
    const Shape &s = t.shape(), &d = t.strides();
    Matrix m{s[0], s[1], s[2], d[0], d[1], d[2]};
    if (m.batch_stride == 0) m.batch = 1;
    // The stride of a dimension of size 1 is never used, but has to make sense.
    if (m.columns == 1) m.column_stride = m.row_stride == 1 && m.rows > 1 ? m.rows : 1;
    if (m.rows == 1) m.row_stride = m.column_stride == 1 ? m.columns : 1;
    if (m.batch == 1) m.batch_stride = m.rows * m.columns;
    return m;
  };
  const Matrix ma = matrix(a), mb = matrix(b), my = matrix(y);
  Key key = start_key(Kind::matmul, y.dtype());
  for (const Matrix& m : {ma, mb, my}) key.add(m.batch, m.rows, m.columns, m.batch_stride, m.row_stride, m.column_stride);
  key.add(bias.defined());
  Plan& plan = find_plan(key, [&](Plan& made) {
    const auto type = type_of(y);
    const auto desc = [&](const Matrix& m) {
      return batched ? Desc({m.batch, m.rows, m.columns}, type, {m.batch_stride, m.row_stride, m.column_stride})
                     : Desc({m.rows, m.columns}, type, {m.row_stride, m.column_stride});
    };
    const auto bias_desc = !bias.defined() ? Desc()
                           : batched       ? Desc({1, 1, my.columns}, type, dnnl::memory::format_tag::abc)
                                           : Desc({1, my.columns}, type, dnnl::memory::format_tag::ab);
    const auto pd = bias.defined() ? describe<dnnl::matmul>(desc(ma), desc(mb), bias_desc, desc(my))
                                   : describe<dnnl::matmul>(desc(ma), desc(mb), desc(my));
    if (!pd) return;
    made.set_primitive(pd, dnnl::matmul(pd));
    made.add(DNNL_ARG_SRC, desc(ma), pd.src_desc());
    made.add(DNNL_ARG_WEIGHTS, desc(mb), pd.weights_desc());
    made.add(DNNL_ARG_DST, desc(my), pd.dst_desc(), true);
    if (bias.defined()) made.add(DNNL_ARG_BIAS, bias_desc, pd.bias_desc());
  });
  return bias.defined() ? run(plan, {pointer(a), pointer(b), pointer(y), pointer(bias)})
                        : run(plan, {pointer(a), pointer(b), pointer(y)});
}

}  // namespace spool::kernels::cpu::onednn

#endif
