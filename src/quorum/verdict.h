#ifndef REDLATCH_SRC_QUORUM_VERDICT_H_
#define REDLATCH_SRC_QUORUM_VERDICT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/quorum/vote.h"
#include "src/redis/wire/reply.h"

namespace redlatch::quorum {

// How many have answered, and how many may yet.
size_t Counted(absl::Span<const Vote> votes);
size_t Open(absl::Span<const Vote> votes);

// What the votes of all nodes come to, so far. Pure.
struct Verdict {
  enum class Kind : uint8_t {
    kOpen,      // it takes more votes
    kYes,       // a majority says so
    kRaise,     // a majority has granted, but not one and the same token: `token` is to be raised
    kNo,        // no majority says so any more, though enough nodes have answered
    kNoQuorum,  // too few nodes have answered, or can
  };
  Kind kind = Kind::kOpen;
  uint64_t token = 0;  // of kYes, kRaise
};

// Of an `acquire` or a `raise`.
Verdict Judge(absl::Span<const Vote> votes);
// Of a `renew` or a `release`, of a hold that stands somewhere: nodes that do not answer may have
// it, and so may those that are young.
Verdict JudgeStanding(absl::Span<const Vote> votes);

// Of those that are queued, also behind a release; `ticket`, 0 for none, is one of them.
uint64_t EarliestTicket(absl::Span<const Vote> votes, uint64_t ticket);
// When a majority could grant what they did not, in ms; -1: nobody knows.
int64_t WaitFor(absl::Span<const Vote> votes);

// Why there is no quorum: the failure that lasts, if there is one, or who did not answer. Of a hold
// that `stands`, or may, failures last only if they leave no majority.
absl::Status WhyNoQuorum(absl::Span<const Vote> votes, absl::Span<const std::string> servers,
                         bool stands);

// The answer of the contract (lua/README.md) that all votes together come to.
absl::StatusOr<redis::Reply> GrantedBy(absl::Span<const Vote> votes, uint64_t token);
redis::Reply NotGranted(absl::Span<const Vote> votes, const Terms& terms, int64_t wait_ms);
redis::Reply ReleasedBy(absl::Span<const Vote> votes);
// Of answers that are for people: what most nodes say of the holder, or what most needs to be done.
bool Agree(absl::Span<const absl::StatusOr<redis::Reply>> answers);  // on who holds it, most nodes
absl::StatusOr<redis::Reply> MostTelling(absl::Span<const absl::StatusOr<redis::Reply>> answers);
redis::Reply TextReply(std::string text);
// What ends an answer: a look, if any node asked for one.
std::string NotesOf(absl::Span<const Vote> votes);

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_VERDICT_H_
