// A height and a width, written {.kernel_size = 3} or {.kernel_size = {3, 5}}.
#pragma once
#include <cstdint>
#include <optional>

namespace spool {

struct Size2 {
  std::int64_t h = 0, w = 0;
  constexpr Size2(std::int64_t both) : h(both), w(both) {}
  constexpr Size2(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  friend constexpr bool operator==(Size2, Size2) = default;
};

// A Size2 that may be left out; unlike std::optional it takes {3, 5} as it is.
struct OptionalSize2 : std::optional<Size2> {
  constexpr OptionalSize2() = default;
  constexpr OptionalSize2(Size2 size) : std::optional<Size2>(size) {}
  constexpr OptionalSize2(std::int64_t both) : std::optional<Size2>(Size2(both)) {}
  constexpr OptionalSize2(std::int64_t height, std::int64_t width) : std::optional<Size2>(Size2(height, width)) {}
};

}  // namespace spool
