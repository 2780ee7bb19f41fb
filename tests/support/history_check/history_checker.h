// Judges a history of locks, event by event: see history_check.md for what must be true of it.
#ifndef REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_CHECKER_H_
#define REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_CHECKER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/support/history_check/history_event.h"

namespace redlatch::history {

enum class Rule : uint8_t {
  kFormat,      // the history contradicts itself
  kExclusion,   // two hold
  kCapacity,    // more permits than there are
  kTokens,      // a token does not grow, or two have it
  kReadTokens,  // the same of a reader's
  kOrder,       // a reader passes a writer
  kLatch,       // it opens too soon or not at all, or a count is lost or counts twice
  kAllOrNone,   // a multi-lock is held in part
  kFree,        // more or less is free than can be
  kProgress,    // a call waits while nothing is held
};

struct Violation {
  Rule rule;
  int64_t time;
  std::string words;
  std::vector<uint64_t> lines;  // of the events that contradict each other
};

class HistoryChecker {
 public:
  HistoryChecker() = default;
  HistoryChecker(HistoryChecker&&) = default;

  // In the order in which they happened.
  void Add(const HistoryEvent& event);
  // The end of the time that was observed: no call waits for longer than the bound until then.
  void Finish(int64_t time);

  // While a call waited, in calm.
  int64_t longest_idle() const { return longest_idle_; }
  // It grows as soon as the events show a violation.
  const std::vector<Violation>& violations() const& { return violations_; }
  std::vector<Violation> violations() && { return std::move(violations_); }

 private:
  struct Object;
  struct Call;
  // The one whose certainty ends first comes first.
  struct EndsSooner {
    bool operator()(const Call* a, const Call* b) const;
  };
  using Holds = std::set<Call*, EndsSooner>;

  // The place of an event in the order, and its line.
  struct Mark {
    uint64_t step = 0;
    uint64_t line = 0;
    int64_t time = 0;
  };
  struct Capacity {
    int64_t permits;
    int64_t from;  // it may count from then on
    int64_t replaced = kNever;
    const Call* set_by = nullptr;
  };
  struct Owner {
    int64_t possible = 0;  // acquisitions that the server may have granted and not yet ended
    uint64_t last_asked = 0;
  };
  struct Key {
    int64_t amount = 0;
    int64_t possible = 0;  // calls that may have counted
    bool certain = false;
    uint64_t asked = 0;
  };

  struct Call {
    bool shared() const { return kind == Kind::kRead || kind == Kind::kPermits; }

    std::string name;
    std::string owner;
    What what = What::kAcquire;
    Kind kind = Kind::kLock;
    bool waits = false;
    bool ended = false;      // released, lost, or possibly forced
    bool may_share = false;  // its token with others of its owner
    bool was_open = false;   // the latch, when it asked
    bool is_possible = false;
    uint64_t quiet = 0;
    uint64_t token = 0;
    int64_t amount = 1;
    int64_t limit = 0;  // of permits, when it was granted
    int64_t until = 0;
    Mark asked;
    Mark returned;  // step 0: it has not
    Mark queued;    // likewise
    int64_t queued_until = 0;
    std::vector<Object*> objects;
    std::vector<const Call*> before;  // of each object, the one with the largest token
  };
  struct Object {
    std::string name;
    Holds exclusive;  // those that are certain
    Holds shared;
    int64_t permits = 0;   // of `shared`
    int64_t possible = 0;  // permits that are held or may be
    std::vector<Capacity> capacities;
    std::unordered_map<std::string, Owner> owners;
    const Call* largest = nullptr;                     // token
    std::unordered_map<uint64_t, const Call*> tokens;  // but for those of readers
    std::vector<const Call*> writers;                  // that are queued
    int64_t window = 0;
    int forces = 0;
    uint64_t forced = 0;                      // step
    int64_t free_since = 0;                   // while nothing is certain
    std::map<uint64_t, const Call*> waiters;  // by the step at which they asked
    int waiters_for_more = 0;                 // multi-locks: they wait for other objects, too
    int64_t latch = 0;                        // as many counts open it
    int64_t counted = 0;                      // for certain
    int64_t may_have_counted = 0;
    std::unordered_map<std::string, Key> keys;
    const Call* passed = nullptr;  // the first
    int64_t passed_with = 0;       // counts at most
  };

  void Declare(const HistoryEvent& event);
  void Begin(const HistoryEvent& event);
  void BeginAcquire(Call& call);
  void BeginForce(Call& call);
  void Return(Call& call, const HistoryEvent& event);
  void ReturnAcquire(Call& call, const HistoryEvent& event);
  void ReturnResize(Call& call, What outcome);
  void ReturnFromLatch(Call& call, const HistoryEvent& event);
  void ReturnCount(Call& call, What outcome);
  void Queue(Call& call, const HistoryEvent& event);
  void Hold(Call& call, int64_t until);
  void End(Call& call);
  // What is no longer certain leaves.
  void Expire(Object& object);
  void MayHold(Call& call, bool may);
  std::pair<int64_t, int64_t> LeastAndMost(const Object& object, int64_t from) const;

  void CheckExclusion(const Call& call, const Object& object);
  void CheckCapacity(const Call& call, const Object& object);
  void CheckTokens(Call& call);
  void CheckOrder(const Call& call, const Object& object);
  void CheckFree(const HistoryEvent& event);
  void CheckProgress(Object& object);
  void EndCalm();

  Object& Get(absl::string_view name);
  void Report(Rule rule, const std::string& words, const std::vector<const Call*>& calls = {});
  std::string Words(const Call& call) const;

  Mark now_;
  std::optional<std::pair<int64_t, int64_t>> calm_;  // since, bound
  uint64_t quiet_ = 0;
  std::map<std::string, Object, std::less<>> objects_;
  std::deque<Call> calls_;
  std::unordered_map<std::string, Call*> calls_by_name_;
  std::vector<Violation> violations_;
  int64_t longest_idle_ = 0;
};

// Of all its events, up to the last.
HistoryChecker Judge(const History& history);

}  // namespace redlatch::history

#endif  // REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_CHECKER_H_
