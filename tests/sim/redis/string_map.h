#ifndef REDLATCH_TESTS_SIM_REDIS_STRING_MAP_H_
#define REDLATCH_TESTS_SIM_REDIS_STRING_MAP_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace redlatch::sim {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// A map by text that is searched without making a string. Never iterate where order shows.
template <typename T>
using StringMap = absl::flat_hash_map<std::string, T, StringHash, std::equal_to<>>;

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_STRING_MAP_H_
