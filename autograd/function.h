// Operations of your own: a struct with a forward and a backward, in the manner of torch.autograd.Function.
//
//   struct Cube : Function<Cube> {
//     static Tensor forward(FunctionContext& ctx, const Tensor& x) {
//       ctx.save("x", x);
//       return x * x * x;
//     }
//     static std::vector<Tensor> backward(FunctionContext& ctx, const Tensor& grad) { return {grad * 3 * ctx.saved("x").square()}; }
//   };
//   Tensor y = Cube::apply(x);
//
// forward() runs unrecorded. backward() returns the gradient of every tensor argument of forward(), in order; an undefined one means zero. Written
// with operations of Spool on saved inputs, outputs and the gradient it is itself differentiable (create_graph); what it computes by loops, and other
// values that forward() computed and saved, are constants to a second derivative: gradcheck with `second_order` shows whether that is right. The name
// on the tape is the struct's `name`, if it has one.
#pragma once
#include <deque>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/node.h"

namespace spool {

struct FunctionNode;

class FunctionContext {
 public:
  explicit FunctionContext(FunctionNode* node) : node_(node) {}
  // Keeps an input (or a value computed from inputs) for backward(). `name` must be a literal, or outlive the graph.
  void save(const char* name, const Tensor& tensor);
  // Keeps the result that forward() is about to return.
  void save_output(const char* name);
  // What save() or save_output() kept. Throws ValueError when there is no such name.
  Tensor saved(const char* name) const;
  // Whether the gradient of tensor argument number `input` is asked for.
  bool needs_grad(std::size_t input) const;

 private:
  FunctionNode* node_;
};

struct FunctionNode : Node {
  using Node::Node;
  FunctionContext context{this};
  std::deque<Saved> kept;
  const char* output_name = nullptr;
  void check_count(std::size_t returned) const;
};

namespace detail {
template <class F>
const char* function_name() {
  if constexpr (requires { F::name; })
    return F::name;
  else
    return "function";
}
void finish_function(FunctionNode& node, const Tensor& output);
}  // namespace detail

template <class F>
struct Function {
  template <class... Args>
  static Tensor apply(const Args&... args) {
    struct Call final : FunctionNode {
      Call() : FunctionNode(detail::function_name<F>()) {}
      void backward(std::span<const Tensor> grad_out, std::span<Tensor> grad_in) override {
        std::vector<Tensor> grads = F::backward(context, grad_out[0]);
        check_count(grads.size());
        std::move(grads.begin(), grads.end(), grad_in.begin());
      }
    };
    auto node = make_ref<Call>();
    const auto add_input = [&](const auto& argument) {
      if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, Tensor>) node->inputs.emplace_back(argument);
    };
    (add_input(args), ...);
    Tensor y;
    {
      NoGrad guard;
      y = F::forward(node->context, args...);
    }
    bool needed = false;
    for (const Edge& e : node->inputs) needed = needed || e.needed();
    if (!needed || !grad_enabled()) return y;
    // A forward that returns its input unchanged must not turn that input into its own ancestor.
    y = y.detach();
    detail::finish_function(*node, y);
    return set_history(std::move(y), std::move(node));
  }
};

}  // namespace spool
