// Leader election: one of several candidates leads at a time, and every client can find out which.
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
  std::string client;  // the id of its client: the first part of LockInfo::Party::hold

  friend bool operator==(const Leader& a, const Leader& b) = default;
};

// The result of Campaign(): a Lease that lasts as long as the term.
//
//   the term is      Proclaim()   Resign()                          destructor
//   running          OK           ends it; the next candidate       resigns, without waiting
//                                 leads at once
//   over: resigned   kAborted     OK                                nothing
//   over: lost       kAborted     kAborted                          nothing
//
// It is as thread-safe as a Lease.
class REDLATCH_EXPORT Leadership final : public Lease {
 public:
  Leadership() = default;  // empty

  // The fencing token of the term. It is larger than that of every earlier leader, so a store that
  // compares epochs can reject the writes of a former leader.
  FencingToken epoch() const { return fencing_token(); }

  // Replaces the leader's value, and tells all observing clients. The value ends with the term. If
  // calls overlap, the one that began last wins.
  //   kAborted              the term is over
  //   kUnavailable          the server did not answer; the value may have been replaced
  //   kInvalidArgument      the value has more than 4,096 bytes
  //   kResourceExhausted    the server is out of memory
  absl::Status Proclaim(std::string_view value);

  // Ends the term, as Release() does. After OK, the next candidate leads, if there is one.
  absl::Status Resign() { return Release(); }

  // For the library.
  struct Term;
  Leadership(Lease lease, std::shared_ptr<Term> term)
      : Lease(std::move(lease)), term_(std::move(term)) {}

 private:
  std::shared_ptr<Term> term_;
};

// The result of Observe(). The destructor ends the observation: the callback does not run any more.
// If it is running on another thread, the destructor waits for it to return. The callback may
// destroy the Observation.
class REDLATCH_EXPORT Observation {
 public:
  Observation() = default;  // observes nothing
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

// An election among threads, processes and hosts. Objects with the same name are the same election.
//
//   redlatch::Election election(client, "scheduler");
//   absl::StatusOr<redlatch::Leadership> leads = election.Campaign("10.0.0.1:7000");
//   if (!leads.ok()) return leads.status();
//   Schedule(leads->lost(), leads->epoch());
//   return leads->Resign();
//
// When a leader resigns, the next candidate leads at once. When a leader dies or loses contact with
// the server, the next candidate leads after the lease. Candidates lead in the order in which they
// asked.
//
// An election is a lock with a value and observing clients, so all methods of RedisLockBase work:
// lock() campaigns without a value. A SimpleLock of the same name has the same key in Redis, so the
// two exclude each other, but each has a queue of its own. LockOptions::turn has no effect, because
// the server begins every term, even if a thread of the same client leads next. On a quorum of
// servers, every call returns kFailedPrecondition, because no single server knows the leader.
class REDLATCH_EXPORT Election final : public RedisLockBase {
 public:
  Election(const Client& client, std::string_view name, LockOptions options = {});

  // Waits until this candidate leads. Observing clients are told `value`, of at most 4,096 bytes,
  // when the term begins. The errors are those of Acquire().
  absl::StatusOr<Leadership> Campaign(std::string_view value = {},
                                      const AcquireOptions& options = {});
  // These work like AcquireAsync() and AcquireAwaitable().
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

  // Asks the server which candidate leads. Returns nullopt if there is no leader.
  absl::StatusOr<std::optional<redlatch::Leader>> Leader() const;

  // Calls the callback with the present leader, and then after each change: a new leader, a new
  // value, or no leader. The server announces changes by message. If a thread of this client was
  // waiting for a lock just before, up to 100 ms may pass before the client reads the message. If a
  // message is lost, the callback gets the newest state after the client's next heartbeat (a third
  // of the lease, 10 s at most). So the callback may miss changes, but it never gets an older state
  // after a newer one. Its calls do not overlap. They run where ClientOptions::post says, or else
  // on a thread of the client, and should not block. An exception is reported on stderr and
  // otherwise ignored. The callback may be null: Observe() then returns the same errors, and
  // nothing is called. The Election object may be destroyed before the observation ends.
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

// Campaigns, calls `work` while this process leads, resigns when `work` returns, and campaigns
// again, until `stop` fires. The token that `work` gets fires when the term is lost or `stop`
// fires; `work` must then return soon. If `work` returns an error or a campaign fails, the next
// campaign begins after a random pause, which grows from 0.1 to 10 s. RunElected() reports these
// errors nowhere, so log your own within `work`; an Observer is told of failed campaigns. If `work`
// throws, RunElected() resigns, without waiting for the server, and passes the exception on to its
// caller.
//
//   redlatch::RunElected(election, [&](std::stop_token stop, redlatch::FencingToken epoch) {
//     return Schedule(stop, epoch);
//   }, stop, "10.0.0.1:7000");
//
// Returns OK after `stop` has fired, even if `work` failed. Returns the error of a campaign, at
// once, if the next one would fail in the same way: kInvalidArgument, kFailedPrecondition,
// kPermissionDenied or kCancelled.
using ElectedWork = absl::FunctionRef<absl::Status(std::stop_token stop, FencingToken epoch)>;
REDLATCH_EXPORT absl::Status RunElected(Election& election, ElectedWork work,
                                        const std::stop_token& stop, std::string_view value = {});

}  // namespace redlatch

#endif  // REDLATCH_ELECTION_H_
