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
  kFormat,     // the history contradicts itself
  kExclusion,  // two owners hold it
  kCapacity,   // more permits are held than there are
  kTokens,     // a token does not grow, or two holds have it
  kProgress,   // a call waits while nothing is held
};

struct Violation {
  Rule rule;
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

  // It grows as soon as the events show a violation.
  const std::vector<Violation>& violations() const { return violations_; }

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
  struct Owner {
    int64_t possible = 0;  // acquisitions that the server may have granted and not yet ended
    uint64_t last_asked = 0;
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
    bool is_possible = false;
    uint64_t token = 0;
    int64_t amount = 1;
    int64_t until = 0;
    Mark asked;
    Mark returned;  // step 0: it has not returned
    Object* object = nullptr;
    const Call* before = nullptr;  // the one with the largest token until then
  };
  struct Object {
    std::string name;
    Holds exclusive;  // the certain ones, as in `shared`
    Holds shared;
    int64_t permits = 0;  // of all holds in `shared`
    int64_t capacity = 0;
    std::unordered_map<std::string, Owner> owners;
    const Call* largest = nullptr;  // the call with the largest token
    std::unordered_map<uint64_t, const Call*> tokens;
    int forces = 0;
    uint64_t forced = 0;                      // the step at which the last force returned
    int64_t free_since = 0;                   // if no hold is certain
    std::map<uint64_t, const Call*> waiters;  // by the step at which they asked
  };

  void Begin(const HistoryEvent& event);
  void Return(Call& call, const HistoryEvent& event);
  void Hold(Call& call, int64_t until);
  void End(Call& call);
  // Removes the holds that are no longer certain.
  void Expire(Object& object);
  void MayHold(Call& call, bool may);

  void CheckExclusion(const Call& call);
  void CheckCapacity(const Object& object);
  void CheckToken(Call& call);
  void CheckProgress(Object& object);
  void EndCalm();

  Object& Get(absl::string_view name);
  void Report(Rule rule, const std::string& words, const std::vector<const Call*>& calls = {});
  static std::string Words(const Call& call);

  Mark now_;
  std::optional<std::pair<int64_t, int64_t>> calm_;  // its begin and its bound
  std::map<std::string, Object, std::less<>> objects_;
  std::deque<Call> calls_;
  std::unordered_map<std::string, Call*> calls_by_name_;
  std::vector<Violation> violations_;
};

// Checks all events of the history.
HistoryChecker Judge(const History& history);
// The message of a violation, and the lines of the events that it concerns.
std::string Words(const Violation& violation, const History& history);

}  // namespace redlatch::history

#endif  // REDLATCH_TESTS_SUPPORT_HISTORY_CHECK_HISTORY_CHECKER_H_
