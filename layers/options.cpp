#include "spool/layers/options.h"

#include <fmt/format.h>

#include "spool/core/errors.h"

namespace spool::detail {

void check_option(const char* layer, const char* option, std::int64_t value, std::int64_t least) {
  if (value < least)
    throw ValueError(layer,
                     fmt::format("{} must be at least {}, not {}: give it as {{.{} = ...}}", option, least, value, option));
}

void check_option(const char* layer, const char* option, Size2 value, std::int64_t least) {
  check_option(layer, option, value.h < least ? value.h : value.w, least);
}

std::string pair(Size2 size) { return fmt::format("({}, {})", size.h, size.w); }

std::string single_or_pair(Size2 size) { return size.h == size.w ? std::to_string(size.h) : pair(size); }

}  // namespace spool::detail
