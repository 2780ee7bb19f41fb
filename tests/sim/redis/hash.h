#ifndef REDLATCH_TESTS_SIM_REDIS_HASH_H_
#define REDLATCH_TESTS_SIM_REDIS_HASH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/redis/string_map.h"

namespace redlatch::sim {

// The value of a hash key. A small hash lists its fields in the order in which they were added, as
// Redis does; a large one has an order of its own, the same in every run.
class Hash {
 public:
  using Field = std::pair<std::string, std::string>;

  const std::string* Find(std::string_view name) const;
  bool Set(std::string_view name, std::string_view value);  // whether the field is new
  bool Remove(std::string_view name);
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::optional<size_t> IndexOf(std::string_view name) const;

  std::vector<Field> fields_;
  StringMap<size_t> index_;  // of a large hash
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_HASH_H_
