// Matrix products, as kernels/matmul.h defines them; sums are in double.
#pragma once
#include "spool/kernels/matmul.h"
#include "spool/kernels/ref/view.h"

namespace spool::kernels::ref {

template <class T>
void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor& y) {
  const View<const T> as(a), bs(b);
  const View<T> ys(y);
  const T* add = bias.defined() ? static_cast<const T*>(bias.raw_data()) : nullptr;
  const std::int64_t step = bias.defined() ? bias.strides()[0] : 0;
  for (std::int64_t batch = 0; batch < y.shape()[0]; ++batch)
    for (std::int64_t i = 0; i < y.shape()[1]; ++i)
      for (std::int64_t j = 0; j < y.shape()[2]; ++j) {
        double sum = add ? static_cast<double>(add[j * step]) : 0;
        for (std::int64_t k = 0; k < a.shape()[2]; ++k)
          sum += static_cast<double>(as(batch, i, k)) * static_cast<double>(bs(batch, k, j));
        ys(batch, i, j) = static_cast<T>(sum);
      }
}

}  // namespace spool::kernels::ref
