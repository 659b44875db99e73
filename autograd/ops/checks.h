// Checks that several operations make of their operands.
#pragma once
#include <initializer_list>

#include "spool/core/errors.h"
#include "spool/core/size2.h"
#include "spool/core/tensor.h"

namespace spool::detail {

struct Named {
  const char* name;
  const Tensor& tensor;  // an undefined one passes every check
};
// All operands are of one floating type and on one device. Throws DTypeError or DeviceError.
void check_same_floating(const char* op, std::initializer_list<Named> operands);

// Throws ShapeError when x has not `dims` dimensions; `expected` shows what they are: "[N, C, H, W]".
void check_dims(const char* op, const char* name, const Tensor& x, int dims, const char* expected);

// Throws ValueError when an option is below `least`, or beyond any sense.
void check_window_option(const char* op, const char* option, Size2 value, std::int64_t least);

// "3x5"
std::string text(Size2 size);

// How many windows of `kernel` elements, `dilation` apart, fit into `size` elements with `padding` on either side, `stride` apart. `side` is "height" or "width".
// With ceil_mode a last window may stick out, as long as it begins inside of the input or its left padding. Throws ShapeError where not even one fits.
std::int64_t window_count(const char* op, const char* side, const Tensor& x, std::int64_t size, std::int64_t kernel,
                          std::int64_t stride, std::int64_t padding, std::int64_t dilation, bool ceil_mode = false);

}  // namespace spool::detail
