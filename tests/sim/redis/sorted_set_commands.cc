#include <algorithm>
#include <cmath>

#include "tests/sim/redis/command.h"

namespace redlatch::sim {
namespace {

using Bound = SortedSet::Bound;

constexpr std::string_view kNotAFloat = "ERR value is not a valid float";

struct AddRules {
  bool if_new = false, if_old = false, if_greater = false, if_less = false;
};

// Returns the position of the first score.
size_t ReadAddRules(Call& call, AddRules& rules) {
  for (size_t i = 2; i < call.size(); ++i) {
    const std::string_view word = call.Word(i);
    if (EqualsIgnoringCase(word, "NX")) {
      rules.if_new = true;
    } else if (EqualsIgnoringCase(word, "XX")) {
      rules.if_old = true;
    } else if (EqualsIgnoringCase(word, "GT")) {
      rules.if_greater = true;
    } else if (EqualsIgnoringCase(word, "LT")) {
      rules.if_less = true;
    } else if (word.find_first_of("IC") == 0) {
      Unknown("this form of ZADD", call.words);
    } else {
      return i;
    }
  }
  return call.size();
}

void Zadd(Call& call) {
  AddRules rules;
  const size_t first = ReadAddRules(call, rules);
  if (first == call.size() || (call.size() - first) % 2 != 0) return call.out.Error(kSyntaxError);
  double score = 0;
  for (size_t i = first; i < call.size(); i += 2) {
    if (!ParseScore(call.Word(i), score)) return call.out.Error(kNotAFloat);
  }
  const std::string_view key = call.Word(1);
  SortedSet* set = GetMutable<SortedSet>(call);
  if (set == nullptr && rules.if_old) return call.out.Integer(0);
  if (set == nullptr) set = &std::get<SortedSet>(call.keys.Set(key, SortedSet()));
  int64_t added = 0, updated = 0;
  for (size_t i = first; i < call.size(); i += 2) {
    ParseScore(call.Word(i), score);
    const double* const old = set->Score(call.Word(i + 1));
    const bool skip = old == nullptr
                          ? rules.if_old
                          : rules.if_new || *old == score || (rules.if_greater && score < *old) ||
                                (rules.if_less && score > *old);
    if (skip) continue;
    set->Set(call.Word(i + 1), score) ? ++added : ++updated;
  }
  if (added + updated > 0) call.keys.Changed(key);
  call.out.Integer(added);
}

void EraseIfEmpty(Call& call, const SortedSet& set) {
  call.keys.Changed(call.Word(1));
  if (set.members().empty()) call.keys.Erase(call.Word(1));
}

void Zrem(Call& call) {
  SortedSet* const set = GetMutable<SortedSet>(call);
  int64_t removed = 0;
  for (size_t i = 2; set != nullptr && i < call.size(); ++i) removed += set->Remove(call.Word(i));
  if (removed > 0) EraseIfEmpty(call, *set);
  call.out.Integer(removed);
}

Bound ReadBound(std::string_view word) {
  Bound bound{.score = 0, .exclusive = word.starts_with('(')};
  const std::string_view score = bound.exclusive ? word.substr(1) : word;
  if (score.empty() || ParseScore(score, bound.score)) return bound;  // Redis reads "" as 0
  throw ErrorReply{"ERR min or max is not a float"};
}

Range ByScore(const SortedSet& set, Bound from, Bound to) {
  const size_t first = set.CountBelow(from), last = set.CountUpTo(to);
  return first < last ? Range{first, last} : Range{};
}

void Zremrangebyrank(Call& call) {
  int64_t start = Integer(call, 2), stop = Integer(call, 3);
  SortedSet* const set = GetMutable<SortedSet>(call);
  const Range range = set == nullptr ? Range{} : ByRank(start, stop, set->members().size());
  if (range.first < range.last) {
    set->RemoveRange(range.first, range.last);
    EraseIfEmpty(call, *set);
  }
  call.out.Integer(static_cast<int64_t>(range.last - range.first));
}

void Zcard(Call& call) {
  const SortedSet* const set = Get<SortedSet>(call);
  call.out.Integer(set == nullptr ? 0 : static_cast<int64_t>(set->members().size()));
}

void Zcount(Call& call) {
  const Bound from = ReadBound(call.Word(2)), to = ReadBound(call.Word(3));
  const SortedSet* const set = Get<SortedSet>(call);
  const Range range = set == nullptr ? Range{} : ByScore(*set, from, to);
  call.out.Integer(static_cast<int64_t>(range.last - range.first));
}

void Zscore(Call& call) {
  const SortedSet* const set = Get<SortedSet>(call);
  const double* const score = set == nullptr ? nullptr : set->Score(call.Word(2));
  score == nullptr ? call.out.Nil() : call.out.Score(*score);
}

void Zrank(Call& call) {
  const SortedSet* const set = Get<SortedSet>(call);
  if (set == nullptr || set->Score(call.Word(2)) == nullptr) return call.out.Nil();
  call.out.Integer(static_cast<int64_t>(set->Rank(call.Word(2))));
}

struct RangeOptions {
  bool with_scores = false;
  int64_t offset = 0, count = -1;
};

RangeOptions ReadRangeOptions(const Call& call) {
  RangeOptions options;
  for (size_t i = 4; i < call.size(); ++i) {
    const std::string_view word = call.Word(i);
    if (EqualsIgnoringCase(word, "WITHSCORES")) {
      options.with_scores = true;
    } else if (EqualsIgnoringCase(word, "LIMIT") && i + 2 < call.size()) {
      options.offset = Integer(call, ++i);
      options.count = Integer(call, ++i);
    } else {
      Unknown("this form of a range", call.words);
    }
  }
  return options;
}

Range Limit(Range range, const RangeOptions& options) {
  if (options.offset < 0) return {};
  range.first += static_cast<size_t>(options.offset);
  if (range.first >= range.last) return {};
  if (options.count >= 0) {
    range.last = std::min(range.last, range.first + static_cast<size_t>(options.count));
  }
  return range;
}

void ReplyWithRange(Call& call, const SortedSet& set, Range range, bool with_scores) {
  const size_t size = range.last - range.first;
  with_scores ? call.out.Pairs(size) : call.out.Array(size);
  for (size_t i = range.first; i < range.last; ++i) {
    if (with_scores) call.out.Pair();
    call.out.Text(set.members()[i].text);
    if (with_scores) call.out.Score(set.members()[i].score);
  }
}

void Zrange(Call& call) {
  const RangeOptions options = ReadRangeOptions(call);
  const int64_t start = Integer(call, 2), stop = Integer(call, 3);
  const SortedSet* const set = Get<SortedSet>(call);
  if (set == nullptr) return call.out.Array(0);
  ReplyWithRange(call, *set, ByRank(start, stop, set->members().size()), options.with_scores);
}

void Zrangebyscore(Call& call) {
  const RangeOptions options = ReadRangeOptions(call);
  const Bound from = ReadBound(call.Word(2)), to = ReadBound(call.Word(3));
  const SortedSet* const set = Get<SortedSet>(call);
  if (set == nullptr) return call.out.Array(0);
  ReplyWithRange(call, *set, Limit(ByScore(*set, from, to), options), options.with_scores);
}

}  // namespace

const std::vector<CommandSpec> kSortedSetCommands = {
    {"ZADD", -4, kWrite | kDenyOom, 1, 1, 1, Zadd},
    {"ZREM", -3, kWrite, 1, 1, 1, Zrem},
    {"ZREMRANGEBYRANK", 4, kWrite, 1, 1, 1, Zremrangebyrank},
    {"ZCARD", 2, 0, 1, 1, 1, Zcard},
    {"ZCOUNT", 4, 0, 1, 1, 1, Zcount},
    {"ZSCORE", 3, 0, 1, 1, 1, Zscore},
    {"ZRANK", 3, 0, 1, 1, 1, Zrank},
    {"ZRANGE", -4, 0, 1, 1, 1, Zrange},
    {"ZRANGEBYSCORE", -4, 0, 1, 1, 1, Zrangebyscore},
};

}  // namespace redlatch::sim
