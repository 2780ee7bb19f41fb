// Leadership: of all candidates, one at a time leads, and all may know which one.
#ifndef REDLATCH_ELECTION_H_
#define REDLATCH_ELECTION_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/awaitable.h"
#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lease.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

namespace internal {
class LeaderListener;
}

// The leader of an election, as the server knew it.
struct Leader {
  std::string value;   // what the leader proclaims, such as its address
  FencingToken epoch;  // larger than that of every earlier leader
  absl::Time since;    // when it became the leader, by the server's clock
  std::string client;  // its client: the first part of LockInfo::Party::hold

  friend bool operator==(const Leader& a, const Leader& b) = default;
};

// The result of Campaign(): a Lease, whose end is the end of the term.
//
//   the term is      Proclaim()   Resign()                          destructor
//   running          OK           ends it; the next candidate       resigns, without waiting
//                                 leads at once
//   over: resigned   kAborted     OK                                nothing
//   over: lost       kAborted     kAborted                          nothing
//
// Thread-safety is that of Lease.
class REDLATCH_EXPORT Leadership final : public Lease {
 public:
  Leadership() = default;  // empty

  // The fencing token of the term. Each leader has a larger one than all leaders before it, so a
  // store that compares epochs refuses what a former leader writes.
  FencingToken epoch() const { return fencing_token(); }

  // Replaces the leader's value, and tells all observers. The value ends with the term. Of calls at
  // the same time, the one that began last counts.
  //   kAborted              the term is over
  //   kUnavailable          the server did not answer; the value may have been replaced
  //   kInvalidArgument      the value has more than 4,096 bytes
  //   kResourceExhausted    the server is out of memory
  absl::Status Proclaim(std::string_view value);

  // Ends the term, as Release() does. OK: the next candidate, if there is one, leads.
  absl::Status Resign() { return Release(); }

  // For the library.
  struct Term;
  Leadership(Lease lease, std::shared_ptr<Term> term)
      : Lease(std::move(lease)), term_(std::move(term)) {}

 private:
  std::shared_ptr<Term> term_;
};

// The result of Observe(). The observation ends when this is destroyed. From then on the callback
// does not run; if it is running in another thread, the destructor waits for it. The callback may
// destroy it.
class REDLATCH_EXPORT Observation {
 public:
  Observation() = default;  // of nothing
  Observation(Observation&&) noexcept = default;
  Observation& operator=(Observation&& other) noexcept;
  ~Observation();

  // For the library.
  Observation(std::shared_ptr<internal::ClientCore> core,
              std::shared_ptr<internal::LeaderListener> listener);

 private:
  void End();

  std::shared_ptr<internal::ClientCore> core_;
  std::shared_ptr<internal::LeaderListener> listener_;
};

// An election among threads, processes and hosts, by its name.
//
//   redlatch::Election election(client, "scheduler");
//   absl::StatusOr<redlatch::Leadership> leads = election.Campaign("10.0.0.1:7000");
//   if (!leads.ok()) return leads.status();
//   Schedule(leads->lost(), leads->epoch());
//   return leads->Resign();
//
// A leader that stops answering is followed when its lease ends, one that resigns is followed at
// once. Candidates lead in the order in which they came.
//
// An election is a lock with a value and observers, so all methods of RedisLockBase work: lock() is
// a campaign without a value. Its key in Redis is that of a SimpleLock of the same name, so they
// exclude each other; but they do not wait in one queue. Each term is asked for at the server, even
// among threads of one client: LockOptions::turn has no effect. On a quorum of servers every call
// is kFailedPrecondition: nodes vote, and none of them knows the leader.
class REDLATCH_EXPORT Election final : public RedisLockBase {
 public:
  Election(const Client& client, std::string_view name, LockOptions options = {});

  // Waits until it is this candidate's turn, and leads. `value` is known to all observers from the
  // beginning of the term; it has at most 4,096 bytes. The errors are those of Acquire().
  absl::StatusOr<Leadership> Campaign(std::string_view value = {},
                                      const AcquireOptions& options = {});
  // As AcquireAsync() and AcquireAwaitable().
  using CampaignCallback = absl::AnyInvocable<void(absl::StatusOr<Leadership>) &&>;
  void CampaignAsync(std::string_view value, const AcquireOptions& options,
                     CampaignCallback callback);
  template <internal::AwaitableAs<AcquireOptions> Options = AcquireOptionsView>
  Awaitable<absl::StatusOr<Leadership>> CampaignAwaitable(std::string_view value = {},
                                                          Options&& options = {}) {
    return {options.stop, [this, value = std::string(value), its = AcquireOptions(options)](
                              std::stop_token both, CampaignCallback told) mutable {
              its.stop = std::move(both);
              CampaignAsync(value, its, std::move(told));
            }};
  }

  // Asks the server who leads. No value: no candidate does.
  absl::StatusOr<std::optional<redlatch::Leader>> Leader() const;

  // Calls the callback with the present leader, and then with each change that this client learns
  // of: a new leader, a new value, no leader. It learns by message, at once. A message that is lost
  // delays the newest state until the client's next heartbeat (a third of the lease, 10 s at most).
  // So some changes may be missed, but the order is that of (epoch, change of value), and never
  // goes back. Calls do not overlap. They run where ClientOptions::post says, else on the client's
  // own thread, and should not block. The election may be destroyed meanwhile.
  using LeaderCallback = absl::AnyInvocable<void(const std::optional<redlatch::Leader>&)>;
  absl::StatusOr<Observation> Observe(LeaderCallback callback) const;

 private:
  std::shared_ptr<LockBody> KeepBody() const;
  absl::StatusOr<std::shared_ptr<Leadership::Term>> NewTerm(std::string_view value) const;
  static absl::StatusOr<std::optional<redlatch::Leader>> LeaderAt(LockBody& body);
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
};

// Campaigns, calls `work` while this process leads, resigns when it returns, and campaigns again,
// until `stop` fires. The token that `work` gets fires when the term is lost or `stop` fires;
// `work` must then return soon. After a failure of the campaign or of `work`, the next campaign
// begins after a pause, which is random and grows from 0.1 to 10 s. Exceptions of `work` pass.
//
//   redlatch::RunElected(election, [&](std::stop_token stop, redlatch::FencingToken epoch) {
//     return Schedule(stop, epoch);
//   }, stop, "10.0.0.1:7000");
//
// Returns OK when it was told to stop; otherwise, at once, an error that no repetition can help:
// kInvalidArgument, kFailedPrecondition, kPermissionDenied or kCancelled of a campaign.
using ElectedWork = absl::FunctionRef<absl::Status(std::stop_token stop, FencingToken epoch)>;
REDLATCH_EXPORT absl::Status RunElected(Election& election, ElectedWork work,
                                        const std::stop_token& stop, std::string_view value = {});

}  // namespace redlatch

#endif  // REDLATCH_ELECTION_H_
