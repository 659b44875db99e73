#include "spool/layers/pool.h"

#include <fmt/format.h>

#include "spool/core/errors.h"
#include "spool/layers/options.h"

namespace spool {
namespace {

template <class Options>
const Options& checked(const char* layer, const Options& o) {
  detail::check_option(layer, "kernel_size", o.kernel_size, 1);
  if (o.stride) detail::check_option(layer, "stride", *o.stride, 1);
  detail::check_option(layer, "padding", o.padding, 0);
  if (2 * o.padding.h > o.kernel_size.h || 2 * o.padding.w > o.kernel_size.w)
    throw ValueError(layer, fmt::format("padding = {} must be at most half of kernel_size = {}", detail::pair(o.padding),
                                        detail::pair(o.kernel_size)));
  return o;
}

const MaxPool2dOptions& checked_max(const MaxPool2dOptions& o) {
  detail::check_option("MaxPool2d", "dilation", o.dilation, 1);
  return checked("MaxPool2d", o);
}

template <class Options>
std::string repr(const Options& o) {
  return fmt::format("kernel_size={}, stride={}, padding={}", detail::single_or_pair(o.kernel_size),
                     detail::single_or_pair(o.stride.value_or(o.kernel_size)), detail::single_or_pair(o.padding));
}

}  // namespace

MaxPool2d::MaxPool2d(Options given) : options(checked_max(given)) {}

std::string MaxPool2d::extra_repr() const {
  return repr(options) +
         fmt::format(", dilation={}, ceil_mode={}", detail::single_or_pair(options.dilation), detail::python(options.ceil_mode));
}

AvgPool2d::AvgPool2d(Options given) : options(checked("AvgPool2d", given)) {}

std::string AvgPool2d::extra_repr() const { return repr(options); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Options given) : options(given) {
  detail::check_option("AdaptiveAvgPool2d", "output_size", options.output_size, 1);
}

std::string AdaptiveAvgPool2d::extra_repr() const { return "output_size=" + detail::single_or_pair(options.output_size); }

}  // namespace spool
