// Checks a history of locks, event by event. history_check.md says what must be true.
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
  kExclusion,   // two owners hold it
  kCapacity,    // more permits are held than there are
  kTokens,      // a token does not grow, or two holds have it
  kReadTokens,  // the same for readers' tokens
  kOrder,       // a reader passes a writer
  kLatch,       // it opens too soon or not at all, or a count is lost or counts twice
  kAllOrNone,   // a multi-lock is held in part
  kFree,        // more or less is free than is possible
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

  // Takes the next event; the events come in the order in which they happened.
  void Add(const HistoryEvent& event);
  // Ends the observation: it also checks that no call has waited for longer than the bound by then.
  void Finish(int64_t time);

  // The longest time for which an object was free, in calm, while a call waited for it.
  int64_t longest_idle() const { return longest_idle_; }
  // It grows as soon as the events show a violation.
  const std::vector<Violation>& violations() const& { return violations_; }
  std::vector<Violation> violations() && { return std::move(violations_); }

 private:
  struct Object;
  struct Call;
  // Sorts by the end of the certainty, the first one first.
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
    int64_t from;  // since when it may count
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
    bool may_share = false;  // it may share its token with other holds of its owner
    bool was_open = false;   // the latch was open when the call asked
    bool is_possible = false;
    uint64_t quiet = 0;
    uint64_t token = 0;
    int64_t amount = 1;
    int64_t limit = 0;  // the largest capacity when the permits were granted
    int64_t until = 0;
    Mark asked;
    Mark returned;  // step 0: it has not returned
    Mark queued;    // step 0: it is not queued
    int64_t queued_until = 0;
    std::vector<Object*> objects;
    std::vector<const Call*> before;  // for each object, the call with the largest token until then
  };
  struct Object {
    std::string name;
    Holds exclusive;  // the certain ones, as in `shared`
    Holds shared;
    int64_t permits = 0;   // of all holds in `shared`
    int64_t possible = 0;  // permits that are held or may be held
    std::vector<Capacity> capacities;
    std::unordered_map<std::string, Owner> owners;
    const Call* largest = nullptr;                     // the call with the largest token
    std::unordered_map<uint64_t, const Call*> tokens;  // without those of readers
    std::vector<const Call*> writers;                  // the queued ones
    int64_t window = 0;
    int forces = 0;
    uint64_t forced = 0;                      // the step at which the last force returned
    int64_t free_since = 0;                   // if no hold is certain
    std::map<uint64_t, const Call*> waiters;  // by the step at which they asked
    int waiters_for_more = 0;                 // multi-locks, which wait for other objects, too
    int64_t latch = 0;                        // that many counts open it
    int64_t counted = 0;                      // the certain counts
    int64_t may_have_counted = 0;
    std::unordered_map<std::string, Key> keys;
    const Call* passed = nullptr;  // the first call that passed the latch
    int64_t passed_with = 0;       // the most counts that may have been made by then
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
  // Removes the holds that are no longer certain.
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
  std::optional<std::pair<int64_t, int64_t>> calm_;  // its begin and its bound
  uint64_t quiet_ = 0;
  std::map<std::string, Object, std::less<>> objects_;
  std::deque<Call> calls_;
  std::unordered_map<std::string, Call*> calls_by_name_;
  std::vector<Violation> violations_;
  int64_t longest_idle_ = 0;
};

// Checks all events of the history.
HistoryChecker Judge(const History& history);

}  // namespace redlatch::history

#endif  // REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_CHECKER_H_
