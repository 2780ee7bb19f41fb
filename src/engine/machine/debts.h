#ifndef REDLATCH_SRC_ENGINE_MACHINE_DEBTS_H_
#define REDLATCH_SRC_ENGINE_MACHINE_DEBTS_H_

#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/engine/machine/effects.h"
#include "src/engine/machine/script_io.h"

namespace redlatch::engine {

// What a client owes the server for one lock: grants to be released, bids to be cancelled. Each is
// repeated until the server has answered, or until nothing of it can be left there.
//
//   a debt is     and                                  then
//   due           Next() gives its script              in flight
//   in flight     is postponed before it is sent       due
//   in flight     is answered                          settled
//   in flight     is refused for good                  settled: kRefused
//   in flight     goes unanswered, or must wait        due, after a back-off
//   due again     is over at the server                settled: kLost
//   settled       is the release of a thread's hold    kept until Outcome(), or Forget()
//   settled       is nobody's                          gone
//
// Not thread-safe.
class Debts {
 public:
  struct Debt {
    Send send;               // ToRelease or ToCancel
    uint64_t hold = 0;       // whose release it is, while somebody may ask for its outcome
    base::Instant deadline;  // the grant's, when it was released
    base::Instant expires;   // from here on the server has forgotten it
    base::Instant due;
    bool releases = false;  // what a thread had: it is counted how that ends
    Released outcome = {};

    // The rest is for Debts.
    bool in_flight = false;
    bool postponed = false;  // a driver comes for it
    bool tried_once = false;
    bool uncertain = false;  // a try went unanswered: it may have been executed
    bool silent = false;     // the latest one did
    bool settled = false;
    uint32_t failures = 0;
  };

  Debts() = default;
  Debts(const Debts&) = delete;
  Debts& operator=(const Debts&) = delete;

  bool empty() const { return debts_.empty(); }
  // Each is under way for the first time: the server is about to answer, it seems.
  bool fresh() const;
  void Add(Debt debt) { debts_.push_back(std::move(debt)); }
  // One more is added then without asking for memory, of which there may be none (false).
  bool MakeRoom() noexcept try {
    debts_.reserve(debts_.size() + 1);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  void DropRoom() {
    if (debts_.empty()) std::vector<Debt>().swap(debts_);
  }
  // Whether anything is owed for that grant.
  bool Has(GrantId grant) { return Find(grant) != nullptr; }
  // The grant has its lease anew: it is at the server until then.
  void Prolong(GrantId grant, base::Instant expires);

  struct Due {
    Send send;
    bool first;  // it was not tried before
  };
  // The next script that is due.
  std::optional<Due> Next(base::Instant now);
  // The first that is due of the releases that no hold asks for.
  std::optional<Due> NextUnasked(base::Instant now);
  // The release of that hold, where it is due.
  std::optional<Due> NextOf(uint64_t hold, base::Instant now);
  // The release of that hold was fetched, and is not sent: NextOf() gives it again, for a driver
  // that comes later. Until then due() does not count it, but Next() has it, so that no acquire
  // request overtakes it.
  void Postpone(uint64_t hold);
  // When Next() has something, if nothing happens before.
  base::Instant due() const;
  void OnAnswer(const Send& send, const Answer& answer, base::Instant now, Effects& effects);
  // The server answers: what went unanswered is repeated now. Whether anything is on its way.
  bool Hurry(base::Instant now);
  // Whatever was under way may be lost: all are due then.
  void RepeatAll(base::Instant due);

  // A call that releases this hold again: what is known, and it is due now unless it is under way.
  // Nothing where no release of it is known.
  std::optional<Released> Repeat(uint64_t hold, base::Instant now);
  // What became of the release; forgets it unless it is under way.
  Released Outcome(uint64_t hold);
  // Nobody will ask for that any more.
  void Forget(uint64_t hold);

  // Releases of what threads had: under way, and failed.
  uint64_t releasing() const;
  uint64_t failed() const { return failed_; }

 private:
  Debt* Find(GrantId grant);
  Debt* FindOf(uint64_t hold);
  void Settle(Debt& debt, Released::Kind kind, absl::Status failure = absl::OkStatus());
  void Erase(const Debt& debt) { debts_.erase(debts_.begin() + (&debt - debts_.data())); }
  bool IsOver(const Debt& debt, base::Instant now) const;
  static Due Start(Debt& debt, base::Instant now);

  std::vector<Debt> debts_;
  uint64_t failed_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_MACHINE_DEBTS_H_
