#include <sstream>

#include "spool/autograd/node.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Leaf : Module {
  struct Options {
    std::int64_t size = 2;
  };
  explicit Leaf(Options given)
      : weight(add_parameter("weight", ones({given.size}))), count(add_buffer("count", zeros({}, {.dtype = i64}))) {}
  Tensor forward(const Tensor& x) override { return x * weight; }
  Tensor& weight;
  Tensor& count;
};

struct Block : Module {
  explicit Block(std::int64_t size) : first(add<Leaf>("first", {.size = size})), second(add<Leaf>("second", {.size = size})) {}
  Tensor forward(const Tensor& x) override { return second(first(x)) + bias; }
  Tensor& bias = add_parameter("bias", zeros({1}));
  Leaf &first, &second;
};

struct Net : Module {
  Block& block1 = add<Block>("block1", 2);
  Block& block2 = add<Block>("block2", 2);
  Tensor forward(const Tensor& x) override { return block2(block1(x)); }
};

struct TwoInputs : Module {
  Leaf& leaf = add<Leaf>("leaf", {});
  Tensor operator()(const Tensor& a, const Tensor& b) {
    const LayerScope scope(*this);
    return leaf(a) + b;
  }
};

std::vector<std::string> names_of(const StateDict& list) {
  std::vector<std::string> names;
  for (const NamedTensor& t : list) names.push_back(t.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("Modules list their tensors by path, own ones first, in the order of registration") {
  Net net;
  CHECK(names_of(net.named_parameters()) == Names{"block1.bias", "block1.first.weight", "block1.second.weight", "block2.bias",
                                                  "block2.first.weight", "block2.second.weight"});
  CHECK(names_of(net.named_buffers()) ==
        Names{"block1.first.count", "block1.second.count", "block2.first.count", "block2.second.count"});
  CHECK(names_of(net.block1.state_dict()) == Names{"bias", "first.weight", "first.count", "second.weight", "second.count"});
  CHECK(net.num_parameters() == 10);
  CHECK(net.parameters().size() == 6);
  CHECK(net.parameters()[1].is_same(net.block1.first.weight));
  CHECK(net.modules().size() == 7);
  CHECK(net.named_modules()[2].name == "block1.first");
  CHECK(net.named_children()[1].module == &net.block2);
  CHECK(net.block2.second.weight.name() == "block2.second.weight");
  CHECK(net.block2.second.path() == "block2.second");
  for (const Tensor& p : net.parameters()) CHECK(p.requires_grad());
  for (const NamedTensor& b : net.named_buffers()) CHECK_FALSE(b.tensor.requires_grad());
}

TEST_CASE("Names of children and tensors are checked, and the message names the module") {
  Net net;
  const auto add_child = [&](const char* name) { return message_of<ValueError>([&] { net.add<Leaf>(name, {}); }); };
  CHECK(contains(add_child(""), "Net"));
  CHECK(contains(add_child("a.b"), "a.b"));
  CHECK(contains(add_child("block1"), "'block1' is already registered"));
  CHECK(contains(message_of<ValueError>([&] { net.block1.add_parameter("first", ones({1})); }), "Block"));
  CHECK(contains(message_of<ValueError>([&] { net.block1.add_buffer("bias", ones({1})); }), "'bias'"));
  CHECK(contains(message_of<DTypeError>([&] { net.add_parameter("n", zeros({1}, {.dtype = i64})); }), "add_buffer"));
  CHECK(contains(message_of<GradError>([&] { net.add_parameter("n", net.block1.bias * 2); }), "detach"));
  CHECK(net.num_children() == 2);
  CHECK(net.num_parameters() == 10);
}

TEST_CASE("References to parameters stay valid while more are registered, and assigning through one replaces what is saved") {
  Module m;
  Tensor& first = m.add_parameter("first", ones({1}));
  for (int i = 1; i < 100; ++i) m.add_parameter(std::string(static_cast<std::size_t>(i), 'p'), zeros({1}));
  CHECK(m.parameters()[0].is_same(first));
  first = full({1}, 7.0);
  CHECK(m.state_dict()[0].tensor.item<float>() == 7);
  Tensor& none = m.add_parameter("none", {});
  CHECK_FALSE(none.defined());
  CHECK(m.parameters().size() == 100);
}

TEST_CASE("A tensor registered twice is one parameter and two entries of the state") {
  Module m;
  const Tensor shared = m.add_parameter("a", ones({3}));
  m.add_parameter("b", shared);
  CHECK(m.parameters().size() == 1);
  CHECK(m.num_parameters() == 3);
  CHECK(m.state_dict().size() == 2);
}

TEST_CASE("train and eval reach every module, and guards give each its own mode back, exceptions or not") {
  Net net;
  CHECK(net.is_training());
  net.block2.eval();
  {
    EvalMode guard(net);
    for (Module* m : net.modules()) CHECK_FALSE(m->is_training());
    {
      TrainMode inner(net.block1);
      CHECK(net.block1.first.is_training());
      CHECK_FALSE(net.is_training());
    }
    CHECK_FALSE(net.block1.first.is_training());
  }
  CHECK(net.block1.first.is_training());
  CHECK_FALSE(net.block2.is_training());
  CHECK_FALSE(net.block2.second.is_training());
  try {
    EvalMode guard(net);
    throw std::runtime_error("validation failed");
  } catch (const std::runtime_error&) {
  }
  CHECK(net.is_training());
  CHECK(net.block1.is_training());
  CHECK_FALSE(net.block2.is_training());
  net.eval();
  { EvalMode guard(net); }
  CHECK_FALSE(net.is_training());
}

TEST_CASE("Running a module names it on the tape and in errors, and the outside has no layer") {
  Tensor y;
  {
    Net net;
    y = net(ones({2}));
    REQUIRE(y.grad_fn()->scope);
    CHECK(y.grad_fn()->scope->path == "block2");
    CHECK(y.grad_fn()->inputs[0].node->scope->path == "block2.second");
    CHECK(y.grad_fn()->inputs[0].node->scope->description == "Leaf()");
    try {
      net(ones({3}));
      FAIL("nothing was thrown");
    } catch (const ShapeError& e) {
      CHECK(e.layer() == "block1.first");
    }
    CHECK(thread_state.layer == nullptr);
  }
  CHECK(contains(tape_to_string(y), "block2.second"));  // the model is gone, its paths are not
  CHECK(contains(tape_to_string(y), "block1.first.weight"));

  Leaf alone({});
  CHECK(alone(ones({2})).grad_fn()->scope->path == "Leaf");
  TwoInputs two;
  const Tensor z = two(ones({2}), ones({2}));
  CHECK(z.grad_fn()->scope->path == "TwoInputs");
  CHECK(z.grad_fn()->inputs[0].node->scope->path == "leaf");
  CHECK(contains(message_of<ValueError>([&] { static_cast<Module&>(two).forward(z); }), "TwoInputs"));
}

TEST_CASE("A module that ran alone and then becomes a child answers to its new path") {
  auto leaf = std::make_unique<Leaf>(Leaf::Options{});
  Leaf& kept = *leaf;
  CHECK(kept.layer_path()->path == "Leaf");
  Module parent;
  parent.add_module("inner", std::move(leaf));
  CHECK(kept.layer_path()->path == "inner");
  CHECK(kept.weight.name() == "inner.weight");
  CHECK(contains(message_of<ValueError>([&] { parent.add_module("none", nullptr); }), "'none'"));
}

TEST_CASE("apply visits children before their parents") {
  Net net;
  std::vector<std::string> order;
  net.apply([&](Module& m) { order.push_back(m.path()); });
  CHECK(order == Names{"block1.first", "block1.second", "block1", "block2.first", "block2.second", "block2", ""});
}

TEST_CASE("Loading a state lists everything that is wrong at once and changes nothing") {
  Net net;
  StateDict state = net.state_dict();
  for (NamedTensor& t : state) t.tensor = t.tensor.clone();
  state.erase(state.begin());
  state[0].tensor = zeros({5});
  state[1].tensor = zeros({});  // floating point for a counter
  state.push_back({"stray", ones({1})});
  state[2].tensor = full({2}, 9.0);
  const std::string text = message_of<ValueError>([&] { net.load_state_dict(state, {.source = "w.safetensors"}); });
  for (const char* part : {"'w.safetensors' does not fit Net", "missing: block1.bias", "unexpected: stray",
                           "block1.first.weight is [2]", "[5]", "block1.first.count is i64"})
    CHECK(contains(text, part));
  CHECK(net.block1.second.weight.to_vector<float>() == std::vector<float>{1, 1});
  CHECK_THROWS_AS(net.load_state_dict(state, {.strict = false}), ShapeError);

  StateDict partial{{"block2.first.weight", full({2}, 4.0, {.dtype = f64})}, {"stray", ones({1})}};
  CHECK(contains(message_of<ValueError>([&] { net.load_state_dict(partial); }), "strict = false"));
  const LoadResult result = net.load_state_dict(partial, {.strict = false});
  CHECK(result.unexpected == Names{"stray"});
  CHECK(result.missing.size() == 9);
  CHECK(net.block2.first.weight.dtype() == f32);
  CHECK(net.block2.first.weight.to_vector<float>() == std::vector<float>{4, 4});
  partial.push_back(partial[0]);
  CHECK(contains(message_of<ValueError>([&] { net.load_state_dict(partial, {.strict = false}); }),
                 "repeated: block2.first.weight"));
}

TEST_CASE("A state loads into another model of the same kind, bit for bit") {
  Net a, b;
  NoGrad guard;
  a.block1.first.weight.copy_(tensor<double>({0.1, -3.25}));
  a.block2.second.count.fill_(42);
  b.load_state_dict(a.state_dict());
  CHECK(b.block1.first.weight.to_vector<float>() == a.block1.first.weight.to_vector<float>());
  CHECK(b.block2.second.count.item<std::int64_t>() == 42);
  CHECK_FALSE(b.block1.first.weight.storage() == a.block1.first.weight.storage());
}

TEST_CASE("Converting a module keeps handles, optimizers' too, and leaves integers alone") {
  Net net;
  const Tensor handle = net.block1.first.weight;
  Adam adam(net.parameters(), {.lr = 0.5});
  sum(net(ones({2}))).backward();
  net.to(f64);
  CHECK(handle.dtype() == f64);
  CHECK(handle.is_same(net.block1.first.weight));
  CHECK(handle.grad().dtype() == f64);
  CHECK(net.block1.first.count.dtype() == i64);
  adam.step();
  CHECK(handle.to_vector<double>()[0] == Approx(0.5));
  CHECK(net(ones({2}, {.dtype = f64})).dtype() == f64);
  net.to(Device::cpu());
  CHECK_THROWS_AS(net.to(i64), DTypeError);
  CHECK_THROWS_AS(net.to(Device::cuda(7)), DeviceError);
  CHECK(handle.device() == Device::cpu());
}

TEST_CASE("zero_grad drops every gradient and requires_grad_ freezes every parameter") {
  Net net;
  sum(net(ones({2}))).backward();
  CHECK(net.block1.bias.grad().defined());
  net.zero_grad();
  for (const Tensor& p : net.parameters()) CHECK_FALSE(p.grad().defined());
  net.block1.requires_grad_(false);
  sum(net(ones({2}))).backward();
  CHECK_FALSE(net.block1.bias.grad().defined());
  CHECK(net.block2.bias.grad().defined());
}

TEST_CASE("A module prints as an indented tree with parameter counts") {
  Net net;
  std::ostringstream out;
  out << net;
  CHECK(out.str() == R"(Net(
  (block1): Block(    1
    (first): Leaf()   2
    (second): Leaf()  2
  )
  (block2): Block(    1
    (first): Leaf()   2
    (second): Leaf()  2
  )
)
10 parameters)");
}

TEST_CASE("Lists of modules run in order, index from both ends, and know what they hold") {
  Sequential net;
  net.append<Leaf>({.size = 3});
  net.append<Tanh>();
  const Leaf::Options options{.size = 3};
  Leaf& last = net.append<Leaf>(options);
  CHECK(names_of(net.named_parameters()) == Names{"0.weight", "2.weight"});
  {
    NoGrad guard;
    last.weight.fill_(10);
  }
  check_close(net(tensor<double>({0, 1, -1})), {0, 7.6159416, -7.6159416}, 1e-5);
  CHECK(net.size() == 3);
  CHECK(&net[-1] == &last);
  CHECK(&net.at<Leaf>(2) == &last);
  CHECK_THROWS_AS(net[3], IndexError);
  CHECK(contains(message_of<ValueError>([&] { net.at<Leaf>(1); }), "Tanh"));
  ModuleList list;
  list.append<Identity>();
  CHECK_THROWS_AS(list(ones({1})), ValueError);
  CHECK(list[0](ones({1})).item<float>() == 1);
}
