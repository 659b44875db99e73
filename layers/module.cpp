#include "spool/layers/module.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <tuple>
#include <typeinfo>
#include <unordered_set>

#include "spool/core/errors.h"

namespace spool {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : name.empty() ? prefix : prefix + '.' + name;
}

// Nodes of the tape point at layer paths and may outlive the model, so paths are kept for ever; a model made again finds its own again.
const LayerPath* intern(LayerPath path) {
  struct Less {
    bool operator()(const LayerPath& a, const LayerPath& b) const {
      return std::tie(a.path, a.description) < std::tie(b.path, b.description);
    }
  };
  static std::mutex mutex;
  static auto& table = *new std::set<LayerPath, Less>();
  const std::lock_guard lock(mutex);
  return &*table.insert(std::move(path)).first;
}

}  // namespace

Module::~Module() = default;

Tensor Module::forward(const Tensor&) {
  throw ValueError(type_name(),
                   "this module has no forward(const Tensor&): override it, or call the operator() that the module defines");
}

// --- building

void Module::check_name(const std::string& name) const {
  if (name.empty()) throw ValueError(type_name(), "a child, parameter or buffer needs a name that is not empty");
  if (name.find('.') != std::string::npos)
    throw ValueError(
        type_name(),
        fmt::format("the name '{}' contains a dot, which separates the levels of a path: use another character", name));
  const auto has = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& x) { return x.name == name; });
  };
  if (has(parameters_) || has(buffers_) || has(children_))
    throw ValueError(type_name(), fmt::format("'{}' is already registered in this module: names must be unique", name));
}

Module& Module::add_module(std::string name, std::unique_ptr<Module> child) {
  check_name(name);
  if (!child) throw ValueError(type_name(), fmt::format("the child '{}' is null", name));
  Module& added = *child;
  children_.push_back({name, std::move(child)});
  added.parent_ = this;
  added.name_ = name;
  added.forget_layer_paths();
  // Tensors carry their path from the outermost module, which is what the tape prints.
  const auto rename = [&](const std::string&, const Tensor& t) { t.set_name(join(name, t.name())); };
  added.visit_tensors(true, true, "", rename);
  return added;
}

Tensor& Module::add_tensor(std::deque<NamedTensor>& list, std::string name, Tensor value) {
  check_name(name);
  if (value.defined()) value.set_name(name);
  return list.emplace_back(NamedTensor{std::move(name), std::move(value)}).tensor;
}

Tensor& Module::add_parameter(std::string name, Tensor value) {
  if (value.defined() && !is_floating(value.dtype()))
    throw DTypeError(type_name(), fmt::format("the parameter '{}' must be floating point, not {}: register it with add_buffer",
                                              name, name_of(value.dtype())));
  if (value.defined() && !value.is_leaf())
    throw GradError(type_name(),
                    fmt::format("the parameter '{}' is the result of a recorded operation: register its detach()", name));
  Tensor& added = add_tensor(parameters_, std::move(name), std::move(value));
  if (added.defined()) added.set_requires_grad(true);
  return added;
}

Tensor& Module::add_buffer(std::string name, Tensor value) { return add_tensor(buffers_, std::move(name), std::move(value)); }

// --- walking

template <class F>
void Module::visit_tensors(bool parameters, bool buffers, const std::string& prefix, const F& f) const {
  if (parameters)
    for (const NamedTensor& p : parameters_)
      if (p.tensor.defined()) f(join(prefix, p.name), p.tensor);
  if (buffers)
    for (const NamedTensor& b : buffers_)
      if (b.tensor.defined()) f(join(prefix, b.name), b.tensor);
  for (const Child& c : children_) c.module->visit_tensors(parameters, buffers, join(prefix, c.name), f);
}

std::vector<NamedTensor> Module::named_parameters() const {
  std::vector<NamedTensor> list;
  std::unordered_set<const TensorImpl*> seen;
  visit_tensors(true, false, "", [&](const std::string& name, const Tensor& t) {
    if (seen.insert(t.impl().get()).second) list.push_back({name, t});
  });
  return list;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> list;
  std::unordered_set<const TensorImpl*> seen;
  visit_tensors(false, true, "", [&](const std::string& name, const Tensor& t) {
    if (seen.insert(t.impl().get()).second) list.push_back({name, t});
  });
  return list;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> list;
  for (NamedTensor& p : named_parameters()) list.push_back(std::move(p.tensor));
  return list;
}

StateDict Module::state_dict() const {
  StateDict state;
  visit_tensors(true, true, "", [&](const std::string& name, const Tensor& t) { state.push_back({name, t.detach()}); });
  return state;
}

std::vector<NamedModule> Module::named_children() const {
  std::vector<NamedModule> list;
  for (const Child& c : children_) list.push_back({c.name, c.module.get()});
  return list;
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> list{{"", this}};
  for (const Child& c : children_)
    for (const NamedModule& m : c.module->named_modules()) list.push_back({join(c.name, m.name), m.module});
  return list;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> list;
  for (const NamedModule& m : named_modules()) list.push_back(m.module);
  return list;
}

Module& Module::apply(const std::function<void(Module&)>& f) {
  for (const Child& c : children_) c.module->apply(f);
  f(*this);
  return *this;
}

std::int64_t Module::num_parameters() const {
  std::int64_t n = 0;
  for (const NamedTensor& p : named_parameters()) n += p.tensor.numel();
  return n;
}

// --- modes

Module& Module::train(bool mode) {
  training_ = mode;
  for (const Child& c : children_) c.module->train(mode);
  return *this;
}

ModeGuard::ModeGuard(Module& module, bool training) {
  for (Module* m : module.modules()) before_.emplace_back(m, m->is_training());
  module.train(training);
}

ModeGuard::~ModeGuard() {
  for (const auto& [module, mode] : before_) module->training_ = mode;
}

// --- descriptions

std::string Module::type_name() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status),
                                                         std::free);
  std::string name = status == 0 && demangled ? demangled.get() : "Module";
  const std::size_t end = std::min(name.find('<'), name.size());  // namespaces of template arguments are not ours
  const std::size_t colons = name.rfind("::", end);
  if (colons != std::string::npos && colons < end) name.erase(0, colons + 2);
  return name;
}

std::string Module::describe() const { return fmt::format("{}({})", type_name(), extra_repr()); }

std::string Module::path() const { return parent_ ? join(parent_->path(), name_) : name_; }

const LayerPath* Module::make_layer_path() const {
  std::string where = path();
  if (where.empty()) where = type_name();
  const LayerPath* made = intern({std::move(where), describe()});
  layer_path_.store(made, std::memory_order_release);
  return made;
}

void Module::forget_layer_paths() {
  layer_path_.store(nullptr, std::memory_order_release);
  for (const Child& c : children_) c.module->forget_layer_paths();
}

}  // namespace spool
