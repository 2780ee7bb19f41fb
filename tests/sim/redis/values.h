#ifndef REDLATCH_TESTS_SIM_REDIS_VALUES_H_
#define REDLATCH_TESTS_SIM_REDIS_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace redlatch::sim {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// A map by text that is searched without making a string. Never iterate where order shows.
template <typename T>
using StringMap = absl::flat_hash_map<std::string, T, StringHash, std::equal_to<>>;

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

// The value of a zset key: its members by score, and by text where scores are equal.
class SortedSet {
 public:
  struct Member {
    double score;
    std::string text;
    friend bool operator<(const Member& a, const Member& b) {
      return a.score != b.score ? a.score < b.score : a.text < b.text;
    }
  };
  // An end of a range of scores.
  struct Bound {
    double score;
    bool exclusive = false;
  };

  const double* Score(std::string_view text) const;
  bool Set(std::string_view text, double score);  // whether the member is new
  bool Remove(std::string_view text);
  void RemoveRange(size_t first, size_t last);  // [first, last)
  size_t Rank(std::string_view text) const;     // of a member
  // How many members are below a range that begins there, and how many are up to its end.
  size_t CountBelow(Bound from) const;
  size_t CountUpTo(Bound to) const;
  const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member>::iterator Locate(std::string_view text, double score);

  std::vector<Member> members_;
  StringMap<double> scores_;  // of a large set
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_VALUES_H_
