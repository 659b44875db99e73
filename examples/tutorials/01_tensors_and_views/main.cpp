// Tutorial 01: tensors and views. README.md quotes this file.
#include <spool/spool.h>

#include <functional>
#include <iostream>

using namespace spool;

// [show]
// Where a tensor's elements lie: element [i, j] is number offset + i * stride(0) + j * stride(1) of its storage.
void show(const std::string& name, const Tensor& t) {
  std::cout << name << ": shape " << to_string(t.shape()) << ", strides";
  for (int d = 0; d < t.dim(); ++d) std::cout << " " << t.stride(d);
  std::cout << ", offset " << t.offset() << "\n";
}
// [/show]

// [expect]
void expect_error(const std::function<void()>& f) {
  try {
    f();
    std::cout << "no error\n";
  } catch (const Error& e) {
    std::cout << e.what() << "\n";
  }
}
// [/expect]

int main() {
  set_num_threads(1);
  // [make]
  const Tensor a = tensor({{1, 2, 3}, {4, 5, 6}});
  std::cout << a << "\n";
  std::cout << describe(a) << ", " << a.numel() << " elements\n";
  std::cout << describe(arange(4)) << "; " << describe(zeros({2, 2}, {.dtype = f64})) << "; " << describe(a > 2) << "\n";
  // [/make]
  // [strides]
  show("a", a);
  const float* p = a.data<float>();
  std::cout << "a[1][2] is " << a[1][2].item() << ", at offset 1 * 3 + 2 * 1: " << p[1 * 3 + 2 * 1] << "\n";
  // [/strides]
  // [transpose]
  const Tensor t = a.t();
  show("a.t()", t);
  std::cout << t << "\nthe same storage: " << std::boolalpha << (t.storage() == a.storage()) << "\n";
  // [/transpose]
  // [views]
  show("a[1]", a[1]);
  show("column 1", a.select(1, 1));
  show("every second column", a.slice(1, 0, 3, 2));
  show("a as [3, 2]", a.view({3, 2}));
  show("a expanded to [4, 2, 3]", a.unsqueeze(0).expand({4, 2, 3}));
  // [/views]
  {
    // [write]
    Tensor x = zeros({2, 3});
    Tensor column = x.select(1, 1);
    column.fill_(7);
    std::cout << x << "\n";
    Tensor copy = x.clone();
    copy.fill_(0);
    std::cout << "after writing to a clone: " << x[0] << "\n";
    // [/write]
    // [handles]
    Tensor same = x;  // another handle
    same.add_(1);
    std::cout << "after writing to a handle's copy: " << x[0] << "\n";
    // [/handles]
  }
  // [contiguous]
  std::cout << "a.t() is contiguous: " << t.is_contiguous() << "\n";
  expect_error([&] { t.view({6}); });
  std::cout << t.reshape({6}) << "\n";
  show("a.t().contiguous()", t.contiguous());
  // [/contiguous]
  {
    // [channels_last]
    const Tensor x = randn({2, 3, 4, 4});
    show("pictures", x);
    const Tensor y = x.contiguous(MemoryFormat::channels_last);
    show("channels last", y);
    std::cout << "equal: " << equal(x, y) << ", dense in that order: " << y.is_contiguous(MemoryFormat::channels_last) << "\n";
    show("conv2d of the first", conv2d(x, randn({8, 3, 3, 3})));
    // [/channels_last]
  }
  // [broadcast]
  const Tensor rows = tensor({{10}, {20}});  // [2, 1]
  const Tensor columns = tensor({1, 2, 3});  // [3]
  std::cout << rows + columns << "\n";
  std::cout << a - a.mean({1}, true) << "\n";  // each row minus its mean
  // [/broadcast]
  // [broadcast_errors]
  expect_error([&] { a + tensor({1, 2}); });
  expect_error([&] { mse_loss(ones({4, 1}), ones({4})); });
  // [/broadcast_errors]
  // [types]
  std::cout << describe(arange(3) + 1) << "; " << describe(arange(3) / 2) << "; " << describe(arange(3) + a[0]) << "\n";
  expect_error([&] { arange(3).data<float>(); });
  expect_error([&] { arange(3).set_requires_grad(); });
  // [/types]
  // [errors]
  expect_error([&] { matmul(a, a); });
  expect_error([&] { a.select(1, 3); });
  expect_error([&] { a.view({4, -1}); });
  expect_error([&] { tensor({{1, 2}, {3}}); });
  expect_error([&] { Tensor().numel(); });
  // [/errors]
  {
    // [in_graph]
    Tensor w = tensor({1, 2}).set_requires_grad();
    expect_error([&] { w.add_(1); });
    {
      NoGrad guard;
      w.add_(1);
    }
    std::cout << w << "\n";
    // [/in_graph]
  }
}
