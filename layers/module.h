// Module: a part of a network, with its parameters, buffers and child modules, each under the name by which it was registered. That name
// is the one in checkpoints, in error messages and on the tape.
//
//   struct Block : Module {
//     Conv2d& conv = add<Conv2d>("conv", {.in_channels = 8, .out_channels = 8, .kernel_size = 3, .padding = 1});
//     Tensor& scale = add_parameter("scale", ones({1}));
//     Tensor forward(const Tensor& x) override { return x + conv(x) * scale; }
//   };
//
// A module owns its children and is neither copied nor moved. Running one from several threads is safe where its forward changes nothing
// (eval mode, NoGrad); everything else is for one thread at a time.
#pragma once
#include <atomic>
#include <concepts>
#include <deque>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "spool/core/named_tensors.h"
#include "spool/core/thread_state.h"

namespace spool {

class Module;

// Whether A is the type of M's options.
template <class A, class M>
concept OptionsOf = requires {
  requires std::same_as < std::remove_cvref_t<A>,
  typename M::Options > ;
};

struct NamedModule {
  std::string name;
  Module* module;
};

struct LoadOptions {
  bool strict = true;       // missing and unexpected names are errors; else they are skipped and reported
  std::string source = {};  // where the tensors come from, for messages: "model.safetensors"
};
struct LoadResult {
  std::vector<std::string> missing;     // in the module, not in the state; left as they were
  std::vector<std::string> unexpected;  // in the state, not in the module; ignored
};

class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module();

  // What the module computes. Modules with another signature define their own operator() instead, and open a LayerScope in it.
  virtual Tensor forward(const Tensor& x);
  inline Tensor operator()(const Tensor& x);

  // --- building: names are unique within the module, not empty and without dots, else ValueError
  // Makes a child from its options and keeps it: `Linear& fc = add<Linear>("fc", {.in_features = 8, .out_features = 2});`
  template <class M>
  requires std::constructible_from<M, typename M::Options> M& add(std::string name, typename M::Options options) {
    check_name(name);
    return adopt<M>(std::move(name), std::make_unique<M>(std::move(options)));
  }
  // Makes a child from the arguments of its constructor.
  template <class M, class... Args>
  requires(std::constructible_from<M, Args...> && !(sizeof...(Args) == 1 && (OptionsOf<Args, M> && ...))) M& add(std::string name,
                                                                                                                 Args&&... args) {
    check_name(name);
    return adopt<M>(std::move(name), std::make_unique<M>(std::forward<Args>(args)...));
  }
  Module& add_module(std::string name, std::unique_ptr<Module> child);
  // Registers a tensor that is trained (a floating-point leaf; it is made to require a gradient). The reference stays valid; an undefined
  // tensor reserves the name, like PyTorch's None.
  Tensor& add_parameter(std::string name, Tensor value);
  // Registers a tensor that is saved and moved with the module but not trained.
  Tensor& add_buffer(std::string name, Tensor value);

  // --- walking: own ones first, then those of the children, in the order of registration; names are paths: "block1.conv.weight".
  // A tensor or module registered twice is listed once.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<NamedModule> named_children() const;
  std::size_t num_children() const { return children_.size(); }
  Module& child(std::size_t index) const { return *children_[index].module; }
  std::vector<NamedModule> named_modules();  // this module first, under the name ""
  std::vector<Module*> modules();
  // Calls f on every module below, then on this one.
  Module& apply(const std::function<void(Module&)>& f);
  std::int64_t num_parameters() const;

  // --- modes. A new module is training. See EvalMode for a mode that ends with a scope.
  Module& train(bool mode = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  // --- all tensors at once
  // Moves parameters and buffers. Their handles stay valid, in references and in optimizers; so do gradients. Nothing is changed when it throws.
  Module& to(Device device);
  // Converts the floating-point ones among them.
  Module& to(DType dtype);
  void zero_grad();
  Module& requires_grad_(bool value = true);

  // Parameters and buffers by name, sharing their elements with the module.
  StateDict state_dict() const;
  // Copies the elements into the module's own tensors, converted to their type and device. Throws ValueError (ShapeError where only sizes differ)
  // listing every missing, unexpected and mismatched name at once, before anything is changed.
  LoadResult load_state_dict(const StateDict& state, const LoadOptions& options = {});

  // --- descriptions
  // "Conv2d": the name of the class.
  virtual std::string type_name() const;
  // What stands in the brackets of describe().
  virtual std::string extra_repr() const { return {}; }
  // "Conv2d(3, 32, kernel_size=(3, 3), stride=(1, 1))", as PyTorch prints it.
  std::string describe() const;
  // "block1.conv2", seen from the outermost module that holds this one; empty for that one.
  std::string path() const;
  // The path and description that nodes of the tape and errors carry; valid for ever.
  const LayerPath* layer_path() const {
    const LayerPath* known = layer_path_.load(std::memory_order_acquire);
    return known ? known : make_layer_path();
  }

 private:
  friend class ModeGuard;
  struct Child {
    std::string name;
    std::unique_ptr<Module> module;
  };

  template <class M>
  M& adopt(std::string name, std::unique_ptr<M> child) {
    static_assert(std::is_base_of_v<Module, M>, "only modules can be added to a module");
    M& added = *child;
    add_module(std::move(name), std::move(child));
    return added;
  }
  void check_name(const std::string& name) const;
  Tensor& add_tensor(std::deque<NamedTensor>& list, std::string name, Tensor value);
  void forget_layer_paths();
  const LayerPath* make_layer_path() const;
  void set_tensors(const std::function<Tensor(const Tensor&)>& convert);
  template <class F>
  void visit_tensors(bool parameters, bool buffers, const std::string& prefix, const F& f) const;

  std::deque<NamedTensor> parameters_, buffers_;  // deque: references stay valid
  std::vector<Child> children_;
  Module* parent_ = nullptr;
  std::string name_;
  bool training_ = true;
  mutable std::atomic<const LayerPath*> layer_path_{nullptr};
};

// The module as an indented tree with the number of parameters of each layer.
std::string to_string(const Module& module);
std::ostream& operator<<(std::ostream& out, const Module& module);

// Operations in this scope belong to the module: errors and the tape name it.
class LayerScope {
 public:
  explicit LayerScope(const Module& module) : before_(thread_state.layer) { thread_state.layer = module.layer_path(); }
  ~LayerScope() { thread_state.layer = before_; }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  const LayerPath* before_;
};

inline Tensor Module::operator()(const Tensor& x) {
  const LayerScope scope(*this);
  return forward(x);
}

// Sets the mode of a module and all below it for the length of a scope, and then gives each the mode that it had, exceptions or not. The
// modules must outlive the guard.
class ModeGuard {
 public:
  ModeGuard(Module& module, bool training);
  ~ModeGuard();
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};
// `EvalMode guard(model);`
struct EvalMode : ModeGuard {
  explicit EvalMode(Module& module) : ModeGuard(module, false) {}
};
struct TrainMode : ModeGuard {
  explicit TrainMode(Module& module) : ModeGuard(module, true) {}
};

}  // namespace spool
