#include <thread>

#include "spool/autograd/function.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {
Tensor leaf(std::initializer_list<NestedValues> values) { return tensor(values).set_requires_grad(); }
Tensor number(double value) { return scalar_tensor(value).set_requires_grad(); }
}  // namespace

TEST_CASE("backward adds up in leaves and leaves nothing in between") {
  Tensor x = number(3);
  const Tensor a = x * 2, b = a * a;
  b.backward({}, {.retain_graph = true});
  CHECK(x.grad().item() == 24);
  CHECK_FALSE(a.grad().defined());
  b.backward();
  CHECK(x.grad().item() == 48);
  CHECK(contains(message_of<GradError>([&] { b.backward(); }), "already freed"));
  CHECK(x.grad().item() == 48);
}

TEST_CASE("A part of a freed graph cannot be used again") {
  Tensor x = leaf({1, 2});
  const Tensor y = x.exp();
  y.sum().backward();
  CHECK(contains(message_of<GradError>([&] { (y * 2).sum().backward(); }), "retain_graph"));
}

TEST_CASE("Gradient buffers are never shared") {
  Tensor a = leaf({1, 1}), b = leaf({1, 1});
  ((a + b).sum() + (a * 2).sum() + (a * 5).sum()).backward();
  check_close(a.grad(), {8, 8});
  check_close(b.grad(), {1, 1});
  for (const int n : {1, 7, 8, 9, 24}) {
    Tensor w = number(2);
    Tensor loss = w * 1;
    for (int i = 2; i <= n; ++i) loss = loss + w * i;
    loss.backward();
    CHECK(w.grad().item() == n * (n + 1) / 2);
  }
  Tensor x = leaf({1, 2});
  (x.view({2, 1}).sum() + x.sum()).backward();
  check_close(x.grad(), {2, 2});
  (x * 3).sum().backward();
  check_close(x.grad(), {5, 5});
  // The gradient handed to backward() stays the caller's.
  Tensor seed = ones({2}), y = leaf({1, 2});
  (y + 0.0).backward(seed);
  y.grad().storage()->bump_version();
  CHECK_FALSE(y.grad().storage() == seed.storage());
}

TEST_CASE("backward refuses what has no meaning") {
  Tensor x = leaf({{1, 2}, {3, 4}});
  CHECK(contains(message_of<GradError>([&] { (x * 2).backward(); }), "one element"));
  CHECK_THROWS_AS((x * 2).backward(ones({2})), ShapeError);
  CHECK_THROWS_AS((x * 2).backward(ones({2, 2}, {.dtype = f64})), DTypeError);
  CHECK(contains(message_of<GradError>([&] { arange(0, 3).set_requires_grad(); }), "i64"));
  CHECK_FALSE(argmax(x, 1).requires_grad());
  CHECK(contains(message_of<GradError>([&] { zeros({}).backward(); }), "does not depend"));
  Tensor one = leaf({2});
  (one * one).backward();
  check_close(one.grad(), {4});
  CHECK_THROWS_AS(zeros({2}, {.dtype = i64, .requires_grad = true}), GradError);
}

TEST_CASE("In-place writes that the tape would have to follow are refused") {
  Tensor t = leaf({1, 2, 3, 4});
  Tensor a = t * t, v = number(7);
  CHECK(contains(message_of<GradError>([&] { a[1].copy_(v); }), "recorded operation"));
  CHECK(contains(message_of<GradError>([&] { a.slice(0, 1, 3).mul_(10); }), "recorded operation"));
  CHECK(contains(message_of<GradError>([&] { t.add_(1); }), "NoGrad"));
  Tensor plain = zeros({4});
  CHECK(contains(message_of<GradError>([&] { plain[1].copy_(v); }), "their gradient would be lost"));
  NoGrad guard;
  t.add_(1);
  CHECK(t[0].item() == 2);
}

TEST_CASE("A saved tensor that was overwritten is noticed, through any view") {
  Tensor w = leaf({1, 2, 3}), x = tensor({4, 5, 6});
  const Tensor y = (w * x).sum();
  x.slice(0, 0, 1).fill_(0);
  const std::string message = message_of<GradError>([&] { y.backward(); });
  CHECK(contains(message, "overwritten in place"));
  CHECK(contains(message, "mul"));
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("Integer and unrelated inputs get no gradient") {
  Tensor x = leaf({1, 2});
  const Tensor y = (x * tensor({2, 3}).to(i64)).sum();
  y.backward();
  check_close(x.grad(), {2, 3});
  Tensor z = leaf({1});
  CHECK_THROWS_AS(grad((x * 2).sum(), z), GradError);
  CHECK_FALSE(grad((x * 2).sum(), z, {.allow_unused = true}).defined());
  CHECK_FALSE(z.grad().defined());
}

TEST_CASE("grad leaves grad() alone and reaches tensors inside the graph") {
  Tensor x = number(3);
  const Tensor h = x * x, y = h * h;
  CHECK(grad(y, h, {.retain_graph = true}).item() == 18);
  CHECK(grad(y, x, {.retain_graph = true}).item() == 108);
  CHECK(grad(y, y, {.retain_graph = true}).item() == 1);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("Gradients can be differentiated again") {
  Tensor x = number(2);
  const Tensor y = x * x * x;
  const Tensor g = grad(y, x, {.create_graph = true});
  CHECK(g.item() == 12);
  const Tensor g2 = grad(g, x, {.create_graph = true});
  CHECK(g2.item() == 12);
  CHECK(grad(g2, x).item() == 6);
  Tensor z = number(0.5);
  const Tensor t1 = grad(tanh(z), z, {.create_graph = true});
  const double th = std::tanh(0.5);
  CHECK(grad(t1, z).item() == Approx(-2 * th * (1 - th * th)));
}

TEST_CASE("Hooks see and replace gradients, retain_grad keeps them") {
  Tensor x = leaf({1, 2});
  const Tensor h = x * 3;
  h.retain_grad();
  int seen = 0;
  h.register_hook([&](const Tensor& g) {
    ++seen;
    return g * 10;
  });
  x.register_hook([&](const Tensor& g) {
    ++seen;
    CHECK(g.shape() == Shape{2});
    return Tensor();
  });
  (h * h).sum().backward();
  CHECK(seen == 2);
  check_close(h.grad(), {60, 120});
  check_close(x.grad(), {180, 360});
  CHECK_THROWS_AS(zeros({2}).register_hook([](const Tensor& g) { return g; }), GradError);
}

TEST_CASE("A hook sees the whole gradient of a shared leaf, once, and its answer is checked") {
  Tensor x = number(1);
  int calls = 0;
  x.register_hook([&](const Tensor& g) {
    ++calls;
    CHECK(g.item() == 5);
    return clamp(g, -1, 1);
  });
  (x * 2 + x * 3).backward();
  CHECK(calls == 1);
  CHECK(x.grad().item() == 1);
  Tensor y = leaf({1, 2});
  y.register_hook([](const Tensor&) { return ones({3}); });
  CHECK(contains(message_of<GradError>([&] { (y * 1).sum().backward(); }),
                 "a hook: returned a gradient of shape [3] for a tensor of shape [2]"));
  CHECK_FALSE(y.grad().defined());
}

TEST_CASE("The gradient of a sum is one number seen many times, and is added up and handed out as many") {
  Tensor x = leaf({1, 2, 3});
  const Tensor h = x * 1.0;
  h.retain_grad();
  (h.sum() + h.sum() * 2).backward();
  check_close(x.grad(), {3, 3, 3});
  Tensor kept = h.grad();
  kept.mul_(2);
  check_close(kept, {6, 6, 6});
  Tensor g = grad(x.sum(), x);
  g.add_(1);
  check_close(g, {2, 2, 2});
}

TEST_CASE("Elements that share memory are not written in place") {
  Tensor e = tensor({1}).expand({4});
  CHECK(contains(message_of<ValueError>([&] { e.add_(1); }), "clone()"));
  CHECK(contains(message_of<ValueError>([&] { e.copy_(ones({4})); }), "expand()"));
  CHECK(e[0].item() == 1);
}

TEST_CASE("Recording can be switched off, and comes back after an exception") {
  Tensor x = leaf({1, 2});
  {
    NoGrad off;
    CHECK_FALSE((x * 2).requires_grad());
    EnableGrad on;
    CHECK((x * 2).requires_grad());
  }
  try {
    NoGrad off;
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {
  }
  CHECK(grad_enabled());
  CHECK_FALSE((x.detach() * 2).requires_grad());
}

namespace {
struct Failing : Function<Failing> {
  static constexpr const char* name = "failing";
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(FunctionContext&, const Tensor&) { throw std::runtime_error("no"); }
};
struct Cube : Function<Cube> {
  static constexpr const char* name = "cube";
  static Tensor forward(FunctionContext& ctx, const Tensor& x, double scale) {
    ctx.save("x", x);
    ctx.save_output("y");
    return x * x * x * scale;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) { return {g * 3 * ctx.saved("y") / ctx.saved("x")}; }
};
struct Short : Function<Short> {
  static Tensor forward(FunctionContext&, const Tensor& x, const Tensor& y) { return x + y; }
  static std::vector<Tensor> backward(FunctionContext&, const Tensor& g) { return {g}; }
};
struct Nested : Function<Nested> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save("x", x);
    return x.square();
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& g) {
    EnableGrad on;
    Tensor inner = ctx.saved("x").detach().set_requires_grad();
    inner.square().sum().backward();
    return {g * inner.grad()};
  }
};
}  // namespace

TEST_CASE("An exception in backward leaves nothing behind") {
  const std::size_t before = memory_stats().allocated;
  {
    Tensor x = number(3);
    const Tensor y = Failing::apply(x) * x;
    CHECK_THROWS_AS(y.backward(), std::runtime_error);
    CHECK(grad_enabled());
    x.set_grad({});
    (x * x).backward();
    CHECK(x.grad().item() == 6);
  }
  CHECK(memory_stats().allocated == before);
}

TEST_CASE("Functions of the user's own") {
  Tensor x = leaf({1, 2});
  const Tensor y = Cube::apply(x, 2.0);
  y.sum().backward();
  check_close(x.grad(), {6, 24});
  CHECK_NOTHROW(gradcheck([](const std::vector<Tensor>& in) { return std::vector<Tensor>{Cube::apply(in[0], 2.0)}; },
                          {tensor({1.5, 2}, {.dtype = f64, .requires_grad = true})}, {.second_order = true}));
  CHECK(contains(message_of<GradError>([&] { Short::apply(x, x).sum().backward(); }), "1 gradients for 2 tensor arguments"));
  Tensor n = number(3);
  Nested::apply(n).backward();
  CHECK(n.grad().item() == 6);
  CHECK(contains(tape_to_string(Cube::apply(x, 1.0)), "cube [2] <- leaf [2]   saves x 8 B, y 8 B"));
}

TEST_CASE("A tape of a million nodes builds, runs and is freed on an ordinary stack") {
  const std::size_t before = memory_stats().allocated;
  {
    Tensor x = number(1);
    Tensor y = x;
    for (int i = 0; i < 1'000'000; ++i) y = y + 1e-6;
    y.backward();
    CHECK(x.grad().item() == 1);
    Tensor unused = x;
    for (int i = 0; i < 1'000'000; ++i) unused = unused * 1.0;
  }
  CHECK(memory_stats().allocated == before);
}

TEST_CASE("Many consumers of many producers stay quick") {
  Tensor x = number(1);
  std::vector<Tensor> parts;
  for (int i = 0; i < 100'000; ++i) parts.push_back(x * 2);
  Tensor total = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) total = total + parts[i];
  total.backward();
  CHECK(x.grad().item() == 200'000);
}

TEST_CASE("Separate graphs run on separate threads", "[threads]") {
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t, &results] {
      Tensor x = number(t);
      for (int i = 0; i < 200; ++i) {
        x.set_grad({});
        (x * x * x).backward();
      }
      results[static_cast<std::size_t>(t)] = x.grad().item();
    });
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < 8; ++t) CHECK(results[static_cast<std::size_t>(t)] == 3 * t * t);
}

TEST_CASE("A thread that sits in NoGrad does not switch others off", "[threads]") {
  NoGrad guard;
  bool recorded = false;
  std::thread([&] { recorded = (number(1) * 2).requires_grad(); }).join();
  CHECK(recorded);
}

TEST_CASE("The tape prints itself") {
  Tensor w = leaf({{1, 2}, {3, 4}});
  w.set_name("w");
  const Tensor x = tensor({{1, 0}, {0, 1}});
  const Tensor loss = (w * x).exp().sum();
  CHECK(tape_to_string(loss) ==
        "#3 sum [] <- #2\n"
        "#2 exp [2, 2] <- #1   saves output 16 B\n"
        "#1 mul [2, 2] <- w   saves b 16 B\n"
        "3 nodes, 32 B held for backward\n");
  CHECK(contains(tape_to_string(x), "no tape"));
}

TEST_CASE("Memory does not grow from step to step") {
  Tensor w = leaf({{1, 2}, {3, 4}});
  const auto step = [&] {
    w.set_grad({});
    (w * w).tanh().sum().backward();
  };
  step();
  const MemoryStats before = memory_stats();
  for (int i = 0; i < 1000; ++i) step();
  const MemoryStats after = memory_stats();
  CHECK(after.allocated == before.allocated);
  CHECK(after.reserved == before.reserved);
  CHECK(after.system_allocations == before.system_allocations);
}
