// View: a tensor's elements by index, whatever its strides. What the reference kernels read and write through.
#pragma once
#include "spool/core/tensor.h"

namespace spool::kernels::ref {

template <class T>
class View {
 public:
  explicit View(const Tensor& t) : data_(static_cast<T*>(t.raw_data())), strides_(t.strides()) {}
  template <class... I>
  T& operator()(I... index) const {
    int d = 0;
    std::int64_t at = 0;
    ((at += index * strides_[d++]), ...);
    return data_[at];
  }

 private:
  T* data_;
  Strides strides_;
};

}  // namespace spool::kernels::ref
