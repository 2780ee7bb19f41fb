#ifndef REDLATCH_SRC_QUORUM_NODE_RESULT_H_
#define REDLATCH_SRC_QUORUM_NODE_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/lock/state/request.h"
#include "src/redis/wire/codec.h"

namespace redlatch::quorum {

using internal::Request;
using internal::Result;

// What one node made of a request.
struct NodeResult {
  enum class Kind : uint8_t {
    kInFlight,  // no result yet
    kYes,       // granted, held, released, raised; it was held and is cancelled
    kNo,        // busy, not held; it was not held and is cancelled
    kQueued,    // to be told when it is its turn
    kYoung,     // the node started lately and grants nothing yet
    kGone,      // the grant was given up
    kFailed,    // no reply; `result` tells why
    kForeign,   // a reply that violates the contract
  };

  Kind kind = Kind::kInFlight;
  Result result = {};  // of kYoung: busy

  const internal::AcquireGranted* granted() const {
    return std::get_if<internal::AcquireGranted>(&result.acquire());
  }
  // Also behind a release.
  const internal::AcquireQueued* queued() const {
    return std::get_if<internal::AcquireQueued>(&result.acquire());
  }
  // When the node could grant the lock; negative if that is unknown.
  absl::Duration wait() const;
  bool answered() const { return kind != Kind::kInFlight && kind != Kind::kFailed; }
  // There is no answer: the request may have been executed, or may be executed later.
  bool uncertain() const {
    return kind == Kind::kInFlight || (kind == Kind::kFailed && result.failed()->may_have_executed);
  }
};
using NodeResults = absl::Span<const NodeResult>;

// For the script of lua/quorum/ that runs that request.
NodeResult ReadNodeResult(const Request& request, const absl::StatusOr<redis::Reply>& reply);
// For `raise`.
NodeResult ReadRaised(const absl::StatusOr<redis::Reply>& reply);
// For any other command: any reply counts.
NodeResult ReadAny(const absl::StatusOr<redis::Reply>& reply);

size_t CountAnswered(NodeResults results);
size_t CountInFlight(NodeResults results);
size_t Count(NodeResults results, NodeResult::Kind kind);

// The decision that the results of all nodes lead to so far. Pure.
struct Decision {
  enum class Kind : uint8_t {
    kOpen,        // more results are needed
    kYes,         // a majority says so
    kRaise,       // a majority granted, but not one token: `token` is to be raised at all of them
    kNo,          // enough nodes answered, and no majority can say so any more
    kNoMajority,  // too few nodes answered, or can
  };
  Kind kind = Kind::kOpen;
  uint64_t token = 0;  // of kYes, kRaise
};
// For an acquire or a raise.
Decision DecideAcquire(NodeResults results);
// For a renewal or a release of a grant that stands somewhere: a node that does not answer may have
// it, and so may one that is young.
Decision DecideHeld(NodeResults results);

// The smallest ticket of those that the nodes told and of `ticket`; 0: none.
uint64_t EarliestTicket(NodeResults results, uint64_t ticket);
// When a majority could grant the lock. Zero if that is unknown.
absl::Duration WaitForMajority(NodeResults results);

// The result of the contract (lua/README.md) that all results together come to.
Result GrantedResult(NodeResults results, uint64_t token);
// `wait`: for a waiter, when to ask again.
Result NotGrantedResult(NodeResults results, const internal::AcquireRequest& request,
                        absl::Duration wait);
// Once a majority answered a release.
Result ReleasedResult(NodeResults results);
// Once a majority answered a cancel.
Result CancelledResult(NodeResults results);
// Names the failure that lasts, if there is one, or the servers that did not answer. Failures last
// for a grant that `stands`, or may, only if they leave no majority.
internal::Failed NoMajority(NodeResults results, absl::Span<const std::string> servers,
                            bool stands);

// For `inspect`: returns whether most nodes agree on the holder.
bool Agree(absl::Span<const absl::StatusOr<redis::Reply>> replies);
// The reply that most nodes agree on, or the one that asks for the most to be done.
absl::StatusOr<redis::Reply> ReplyForPeople(absl::Span<const absl::StatusOr<redis::Reply>> replies);

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_NODE_RESULT_H_
