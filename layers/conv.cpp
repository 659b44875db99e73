#include "spool/layers/conv.h"

#include <fmt/format.h>

#include "spool/core/errors.h"
#include "spool/layers/init.h"
#include "spool/layers/options.h"

namespace spool {
namespace {

// What both convolutions demand.
template <class Options>
const Options& checked(const char* layer, const Options& o) {
  using detail::check_option;
  check_option(layer, "in_channels", o.in_channels, 1);
  check_option(layer, "out_channels", o.out_channels, 1);
  check_option(layer, "kernel_size", o.kernel_size, 1);
  check_option(layer, "stride", o.stride, 1);
  check_option(layer, "padding", o.padding, 0);
  check_option(layer, "dilation", o.dilation, 1);
  check_option(layer, "groups", o.groups, 1);
  if (o.in_channels % o.groups != 0 || o.out_channels % o.groups != 0)
    throw ValueError(layer, fmt::format("groups = {} must divide in_channels = {} and out_channels = {}", o.groups, o.in_channels,
                                        o.out_channels));
  return o;
}

const ConvTranspose2d::Options& checked_transpose(const ConvTranspose2d::Options& o) {
  checked("ConvTranspose2d", o);
  detail::check_option("ConvTranspose2d", "output_padding", o.output_padding, 0);
  const auto too_large = [](std::int64_t padding, std::int64_t stride, std::int64_t dilation) {
    return padding >= stride && padding >= dilation;
  };
  if (too_large(o.output_padding.h, o.stride.h, o.dilation.h) || too_large(o.output_padding.w, o.stride.w, o.dilation.w))
    throw ValueError("ConvTranspose2d",
                     fmt::format("output_padding = {} must be smaller than stride = {} or dilation = {}",
                                 detail::pair(o.output_padding), detail::pair(o.stride), detail::pair(o.dilation)));
  return o;
}

template <class Options>
std::string repr(const Options& o, Size2 output_padding) {
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", o.in_channels, o.out_channels, detail::pair(o.kernel_size),
                                 detail::pair(o.stride));
  if (o.padding != Size2(0)) text += ", padding=" + detail::pair(o.padding);
  if (o.dilation != Size2(1)) text += ", dilation=" + detail::pair(o.dilation);
  if (output_padding != Size2(0)) text += ", output_padding=" + detail::pair(output_padding);
  if (o.groups != 1) text += fmt::format(", groups={}", o.groups);
  if (!o.bias) text += ", bias=False";
  return text;
}

Tensor empty_weight(std::int64_t first, std::int64_t second, Size2 kernel) {
  return empty({first, second, kernel.h, kernel.w}, {}, MemoryFormat::channels_last);
}

}  // namespace

Conv2d::Conv2d(Options given)
    : options(checked("Conv2d", given)),
      weight(
          add_parameter("weight", empty_weight(options.out_channels, options.in_channels / options.groups, options.kernel_size))),
      bias(add_parameter("bias", options.bias ? empty({options.out_channels}) : Tensor())) {
  reset_parameters();
}

void Conv2d::reset_parameters() { init::default_weight_and_bias_(weight, bias); }

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias,
                {.stride = options.stride, .padding = options.padding, .dilation = options.dilation, .groups = options.groups});
}

std::string Conv2d::extra_repr() const { return repr(options, 0); }

ConvTranspose2d::ConvTranspose2d(Options given)
    : options(checked_transpose(given)),
      weight(
          add_parameter("weight", empty_weight(options.in_channels, options.out_channels / options.groups, options.kernel_size))),
      bias(add_parameter("bias", options.bias ? empty({options.out_channels}) : Tensor())) {
  reset_parameters();
}

void ConvTranspose2d::reset_parameters() { init::default_weight_and_bias_(weight, bias); }

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight, bias,
                          {.stride = options.stride,
                           .padding = options.padding,
                           .output_padding = options.output_padding,
                           .groups = options.groups,
                           .dilation = options.dilation});
}

std::string ConvTranspose2d::extra_repr() const { return repr(options, options.output_padding); }

}  // namespace spool
