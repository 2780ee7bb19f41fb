#ifndef REDLATCH_SRC_QUORUM_VOTE_H_
#define REDLATCH_SRC_QUORUM_VOTE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/redis/wire/reply.h"

namespace redlatch::quorum {

// What one node said to one script of lua/quorum/, or that it said nothing.
struct Vote {
  enum class Kind : uint8_t {
    kOpen,     // no answer yet
    kYes,      // granted, held, released, raised
    kNo,       // not_held, busy; left or unknown, of a hold that is given up
    kQueued,   // to be told when it is its turn
    kYoung,    // the node has no vote for so long: it started lately
    kGone,     // the hold was given up
    kFailed,   // `failure` tells why
    kForeign,  // a reply that is none of ours
  };

  Kind kind = Kind::kOpen;
  uint64_t token = 0;    // granted: the first
  int64_t lease_ms = 0;  // granted
  bool others = false;   // granted: somebody waits
  int64_t clock_us = 0;  // granted: the node's
  int64_t wait_ms = 0;   // not granted: when it could be; -1: nobody knows
  uint64_t ticket = 0;   // queued, also behind a release
  bool queued_behind = false;
  bool gone_behind = false;
  int64_t look_ms = 0;
  int64_t look_later_ms = 0;
  bool deaf = false;
  absl::Status failure;

  // It may have executed, or may yet execute, what it did not answer.
  bool uncertain() const;
  bool counts() const { return kind != Kind::kOpen && kind != Kind::kFailed; }
};

// Of a node's answer, which is no error: those are statuses.
Vote ReadVote(const absl::StatusOr<redis::Reply>& answer);

// The terms of `acquire`: what its third word says.
struct Terms {
  uint64_t block = 1;
  uint32_t attempt = 0;
  bool wait = false;
  uint64_t ticket = 0;
  bool listen = false;
};
Terms ReadTerms(std::string_view word);
// The same word with another ticket.
std::string WithTicket(std::string_view word, uint64_t ticket);

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_VOTE_H_
