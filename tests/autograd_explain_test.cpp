// What is said about the operations on the tape.
#include "spool/autograd/explain.h"

#include <cctype>
#include <map>
#include <set>

#include "op_cases/run.h"
#include "spool/autograd/observer.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

// Keeps all nodes that are recorded, so that they can be looked at once they are complete.
struct Recorder : TapeObserver {
  std::vector<Ref<Node>> nodes;
  void recorded(Node&, const Tensor& output) override { nodes.push_back(output.grad_fn()); }
};

bool has_word(const std::string& text, const std::string& word) {
  const auto part_of_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !part_of_word(text[at - 1])) && (end == text.size() || !part_of_word(text[end]))) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("Every operation that the op cases bring onto the tape is explained, with all that it saves, and no other") {
  std::map<std::string, std::set<std::string>> saved_by;  // operation -> names of what it saved
  const auto collect = [&](const OpCase& c, DType type) {
    INFO(title(c));
    Recorder recorder;
    const Tensors inputs = leaves(c, [&](const Tensor& t) { return is_floating(t.dtype()) ? t.to(type) : t; });
    Tensors roots, weights, wanted;
    for (const Tensor& y : c.f(inputs))
      if (y.requires_grad()) {
        roots.push_back(y);
        weights.push_back(ones(y.shape(), {.dtype = y.dtype()}).set_requires_grad());
      }
    for (const Tensor& t : inputs)
      if (t.defined() && t.requires_grad()) wanted.push_back(t);
    if (c.second_order) grad(roots, wanted, {.create_graph = true, .allow_unused = true}, weights);
    for (const Ref<Node>& n : recorder.nodes) {
      std::set<std::string>& names = saved_by[n->op];
      for (const Saved* s : n->saved)
        if (s->defined()) names.insert(s->name());
    }
  };
  for (const OpCase& c : table().cases)
    for (const DType type : {f64, f32})  // what converts its input does so in one of them
      if (c.differentiable) collect(c, type);
  CHECK(saved_by.size() > 70);
  CHECK(saved_by.count("conv2d_weight_grad") == 1);  // recorded by a derivative
  CHECK(saved_by.count("topk") == 1);                // renamed by its operation
  for (const auto& [op, names] : saved_by) {
    INFO("the operation " << op);
    const Explanation* e = find_explanation(op);
    REQUIRE(e);
    CHECK(e->op == op);
    for (const std::string& name : names) {
      INFO("saves '" << name << "', and is said to save: " << e->saved);
      CHECK(has_word(e->saved, name));
    }
    CHECK((std::string(e->saved).rfind("nothing", 0) == 0) == names.empty());
    CHECK(contains(explain(op), e->backward));
  }
  std::set<std::string> explained;
  for (const Explanation& e : explanations()) CHECK(explained.insert(e.op).second);
  explained.erase("function");  // of users, not of the table
  for (const std::string& op : explained) {
    INFO("the explanation of " << op);
    CHECK(saved_by.count(op) == 1);
  }
}

TEST_CASE("An explanation has formula, derivative and what is saved, and an unknown name lists the nearest") {
  CHECK(explain("tanh") ==
        "tanh\n"
        "  forward   y = tanh(x)\n"
        "  backward  gx = g * (1 - y^2)\n"
        "  saves     output, from which the derivative follows without another tanh\n");
  const std::string message = message_of<ValueError>([] { explain("conv3d"); });
  CHECK(contains(message, "'conv3d'"));
  CHECK(contains(message, "names are conv2d, "));
  CHECK(contains(message_of<ValueError>([] { explain("batchnorm"); }), "names are batch_norm, "));
  CHECK(contains(message_of<ValueError>([] { explain("pool"); }), "max_pool2d, "));
  CHECK(contains(message_of<ValueError>([] { explain(""); }), "''"));
  CHECK_FALSE(find_explanation("conv3d"));
}
