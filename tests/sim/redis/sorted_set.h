#ifndef REDLATCH_TESTS_SIM_REDIS_SORTED_SET_H_
#define REDLATCH_TESTS_SIM_REDIS_SORTED_SET_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/redis/string_map.h"

namespace redlatch::sim {

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

#endif  // REDLATCH_TESTS_SIM_REDIS_SORTED_SET_H_
