// Modules made of a list of others, which are named "0", "1", ...
#pragma once
#include "spool/layers/module.h"

namespace spool {

// Holds modules without saying how they run.
struct ModuleList : Module {
  // Makes a child at the end: `list.append<Linear>({.in_features = 8, .out_features = 8});`
  template <class M>
  M& append(typename M::Options options) {
    return add<M>(std::to_string(size()), std::move(options));
  }
  template <class M, class... Args>
  requires(!(sizeof...(Args) == 1 && (OptionsOf<Args, M> && ...))) M& append(Args&&... args) {
    return add<M>(std::to_string(size()), std::forward<Args>(args)...);
  }
  std::size_t size() const { return num_children(); }
  // Negative indices count from the end. Throws IndexError.
  Module& operator[](std::int64_t index) const;
  // The child as what it is; throws ValueError when it is something else.
  template <class M>
  M& at(std::int64_t index) const {
    Module& child = (*this)[index];
    if (M* typed = dynamic_cast<M*>(&child)) return *typed;
    throw_wrong_type(index, child);
  }

 private:
  [[noreturn]] void throw_wrong_type(std::int64_t index, const Module& child) const;
};

// Runs its children one after the other.
struct Sequential : ModuleList {
  Tensor forward(const Tensor& x) override;
};

}  // namespace spool
