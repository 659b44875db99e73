// Checking and printing the options of layers; what layers/*.cpp share, not for users.
#pragma once
#include <cstdint>
#include <string>

#include "spool/core/size2.h"

namespace spool::detail {

// Throws ValueError naming the layer, the option and its value when that is below `least`.
void check_option(const char* layer, const char* option, std::int64_t value, std::int64_t least);
void check_option(const char* layer, const char* option, Size2 value, std::int64_t least);

inline const char* python(bool value) { return value ? "True" : "False"; }
std::string pair(Size2 size);            // "(3, 3)"
std::string single_or_pair(Size2 size);  // "3" or "(3, 5)"

}  // namespace spool::detail
