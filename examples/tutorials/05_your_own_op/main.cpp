// Tutorial 05: your own operation. README.md quotes this file.
#include <spool/spool.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <vector>

using namespace spool;

namespace {

void expect_error(const std::function<void()>& f) {
  try {
    f();
    std::cout << "no error\n";
  } catch (const Error& e) {
    std::cout << e.what() << "\n";
  }
}

// [composed]
Tensor composed_swish(const Tensor& x, const Tensor& beta) { return x * sigmoid(x * beta); }
// [/composed]

// [function]
struct Swish : Function<Swish> {
  static constexpr const char* name = "swish";  // on the tape

  static Tensor forward(FunctionContext& ctx, const Tensor& x, const Tensor& beta) {
    ctx.save("x", x);
    ctx.save("beta", beta);
    return x * sigmoid(x * beta);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) {
    const Tensor x = ctx.saved("x"), beta = ctx.saved("beta");
    const Tensor s = sigmoid(x * beta);
    const Tensor slope = s * (1 - s);  // of the sigmoid
    Tensor to_x, to_beta;
    if (ctx.needs_grad(0)) to_x = g * (s + x * beta * slope);
    if (ctx.needs_grad(1)) to_beta = sum(g * x * x * slope);
    return {to_x, to_beta};
  }
};
// [/function]

// [wrong]
struct WrongSwish : Function<WrongSwish> {
  static constexpr const char* name = "wrong_swish";
  static Tensor forward(FunctionContext& ctx, const Tensor& x, const Tensor& beta) {
    ctx.save("x", x);
    ctx.save("beta", beta);
    return x * sigmoid(x * beta);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) {
    const Tensor x = ctx.saved("x"), s = sigmoid(x * ctx.saved("beta"));
    return {g * (s + x * s * (1 - s)), sum(g * x * x * s * (1 - s))};  // one beta is missing
  }
};
// [/wrong]

// [kernels]
// y[i] = x[i] s[i] with s = sigmoid(beta x)
template <class T>
void swish_kernel(const T* x, T beta, T* y, std::int64_t n) {
  parallel_for(n, 4096, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] / (1 + std::exp(-beta * x[i]));
  });
}

// gx[i] = g[i] (s + beta x s (1 - s)); returns the gradient of beta, the sum of g x^2 s (1 - s)
template <class T>
double swish_backward_kernel(const T* x, T beta, const T* g, T* gx, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T s = 1 / (1 + std::exp(-beta * x[i])), slope = s * (1 - s);
    gx[i] = g[i] * (s + beta * x[i] * slope);
    sum += static_cast<double>(g[i] * x[i] * x[i] * slope);
  }
  return sum;
}
// [/kernels]

// [loops]
struct FastSwish : Function<FastSwish> {
  static constexpr const char* name = "fast_swish";

  static Tensor forward(FunctionContext& ctx, const Tensor& any_order, const Tensor& beta) {
    const Tensor x = any_order.contiguous();  // the loops go through memory in order
    if (x.dtype() != f32 && x.dtype() != f64) throw DTypeError(name, "takes f32 and f64", {{"x", x}});
    if (beta.numel() != 1) throw ShapeError(name, "beta must be one number", {{"x", x}, {"beta", beta}});
    ctx.save("x", x);
    ctx.save("beta", beta);
    Tensor y = empty_like(x);
    if (x.dtype() == f64)
      swish_kernel(x.data<double>(), beta.item<double>(), y.data<double>(), x.numel());
    else
      swish_kernel(x.data<float>(), beta.item<float>(), y.data<float>(), x.numel());
    return y;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& any_order) {
    const Tensor x = ctx.saved("x"), beta = ctx.saved("beta"), g = any_order.contiguous();
    Tensor gx = empty_like(x);
    const double to_beta =
        x.dtype() == f64
            ? swish_backward_kernel(x.data<double>(), beta.item<double>(), g.data<double>(), gx.data<double>(), x.numel())
            : swish_backward_kernel(x.data<float>(), beta.item<float>(), g.data<float>(), gx.data<float>(), x.numel());
    return {gx, full_like(beta, to_beta)};
  }
};
// [/loops]

// [layer]
struct SwishLayer : Module {
  Tensor& beta = add_parameter("beta", ones({}));
  Tensor forward(const Tensor& x) override { return FastSwish::apply(x, beta); }
};

struct Net : Module {
  Linear& hidden = add<Linear>("hidden", {.in_features = 1, .out_features = 8});
  SwishLayer& swish = add<SwishLayer>("swish");
  Linear& out = add<Linear>("out", {.in_features = 8, .out_features = 1});
  Tensor forward(const Tensor& x) override { return out(swish(hidden(x))); }
};
// [/layer]

}  // namespace

int main() {
  set_num_threads(1);
  manual_seed(0);
  // [first]
  Tensor x = randn({1000}).set_requires_grad();
  Tensor beta = scalar_tensor(1.5, {.requires_grad = true});
  x.set_name("x");
  beta.set_name("beta");
  print_tape(std::cout, composed_swish(x, beta));
  // [/first]
  // [one_node]
  print_tape(std::cout, Swish::apply(x, beta));
  // [/one_node]
  {
    // [equal]
    const Tensor g = randn({1000});
    const std::vector<Tensor> inputs{x, beta};
    const auto a = grad(std::vector{composed_swish(x, beta)}, inputs, {}, std::vector{g});
    const auto b = grad(std::vector{Swish::apply(x, beta)}, inputs, {}, std::vector{g});
    std::cout << "equal gradients: " << std::boolalpha << ((a[0] - b[0]).abs().max() < 1e-5).item<bool>() << " "
              << ((a[1] - b[1]).abs() < 1e-2).item<bool>() << "\n";
    // [/equal]
  }
  // [gradcheck]
  const std::vector<Tensor> inputs{randn({2, 3}, {.dtype = f64, .requires_grad = true}),
                                   scalar_tensor(1.5, {.dtype = f64, .requires_grad = true})};
  const auto check = [&](const auto& f, bool second_order) {
    gradcheck([&](const std::vector<Tensor>& in) { return std::vector{f(in[0], in[1])}; }, inputs,
              {.second_order = second_order});
  };
  check(Swish::apply<Tensor, Tensor>, true);
  std::cout << "Swish: first and second derivative agree with differences\n";
  expect_error([&] { check(WrongSwish::apply<Tensor, Tensor>, false); });
  // [/gradcheck]
  // [check_fast]
  check(FastSwish::apply<Tensor, Tensor>, false);
  std::cout << "FastSwish: first derivative agrees\n";
  const Tensor first = grad(FastSwish::apply(inputs[0], inputs[1]).sum(), inputs[0], {.create_graph = true});
  expect_error([&] { grad(first.sum(), inputs[0]); });
  // [/check_fast]
  // [check_views]
  const Tensor wide = randn({3, 4});
  std::cout << "a transposed input: "
            << ((FastSwish::apply(wide.t(), beta) - composed_swish(wide.t(), beta)).abs().max() < 1e-6).item<bool>() << "\n";
  expect_error([&] { FastSwish::apply(arange(3), beta); });
  expect_error([&] { FastSwish::apply(wide, ones({2})); });
  // [/check_views]
  {
    // [train]
    Net net;
    const Tensor in = linspace(-3, 3, 64).reshape({64, 1}), target = cos(in);
    Adam adam(net.parameters(), {.lr = 0.02});
    for (int step = 0; step <= 600; ++step) {
      adam.zero_grad();
      const Tensor loss = mse_loss(net(in), target);
      if (step == 0) print_tape(std::cout, loss);
      loss.backward();
      adam.step();
    }
    std::cout << "the error is below 0.01: " << (mse_loss(net(in), target) < 0.01).item<bool>();
    std::cout << ", beta has moved: " << ((net.swish.beta - 1).abs() > 0.1).item<bool>() << "\n";
    // [/train]
  }
}
