#include "spool/autograd/ops/checks.h"

#include <fmt/format.h>

namespace spool::detail {

void check_same_floating(const char* op, std::initializer_list<Named> operands) {
  const Named& first = *operands.begin();
  for (const Named& o : operands) {
    if (!o.tensor.defined()) continue;
    if (!is_floating(o.tensor.dtype()))
      throw DTypeError(op,
                       fmt::format("{} is {}, and only floating-point tensors are taken: use to(f32) first", o.name,
                                   name_of(o.tensor.dtype())),
                       {{o.name, o.tensor}});
    if (o.tensor.dtype() != first.tensor.dtype())
      throw DTypeError(op,
                       fmt::format("{} is {} and {} is {}: convert one with to(dtype)", first.name, name_of(first.tensor.dtype()),
                                   o.name, name_of(o.tensor.dtype())),
                       {{first.name, first.tensor}, {o.name, o.tensor}});
    if (o.tensor.device() != first.tensor.device())
      throw DeviceError(op,
                        fmt::format("{} is on {} and {} on {}: move one with to(device)", first.name,
                                    to_string(first.tensor.device()), o.name, to_string(o.tensor.device())),
                        {{first.name, first.tensor}, {o.name, o.tensor}});
  }
}

void check_dims(const char* op, const char* name, const Tensor& x, int dims, const char* expected) {
  if (x.dim() == dims) return;
  const char* hint = x.dim() == dims - 1 && dims == 4 ? ": unsqueeze(0) makes a batch of one" : "";
  throw ShapeError(op, fmt::format("{} has {} dimensions, expected {} {}{}", name, x.dim(), dims, expected, hint), {{name, x}});
}

void check_window_option(const char* op, const char* option, Size2 value, std::int64_t least) {
  constexpr std::int64_t most = 1 << 30;  // so that products of options and sizes cannot overflow
  if (value.h < least || value.w < least)
    throw ValueError(op, fmt::format("{} must be at least {}, not {}", option, least, text(value)));
  if (value.h > most || value.w > most)
    throw ValueError(op, fmt::format("{} must be at most {}, not {}", option, most, text(value)));
}

std::string text(Size2 size) { return fmt::format("{}x{}", size.h, size.w); }

std::int64_t window_count(const char* op, const char* side, const Tensor& x, std::int64_t size, std::int64_t kernel,
                          std::int64_t stride, std::int64_t padding, std::int64_t dilation, bool ceil_mode) {
  const std::int64_t reach = dilation * (kernel - 1) + 1, room = size + 2 * padding - reach;
  if (room < 0) {
    const std::string spread = dilation > 1 ? fmt::format(" (kernel {} with dilation {})", kernel, dilation) : "";
    throw ShapeError(op,
                     fmt::format("the kernel is larger than its input: its {} is {}{}, the input's is {}{}", side, reach, spread,
                                 size, padding ? fmt::format(" with {} of padding on either side", padding) : ""),
                     {{"input", x}});
  }
  std::int64_t n = (ceil_mode ? room + stride - 1 : room) / stride + 1;
  if (ceil_mode && (n - 1) * stride >= size + padding) --n;
  return n;
}

}  // namespace spool::detail
