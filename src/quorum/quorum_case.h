#ifndef REDLATCH_SRC_QUORUM_QUORUM_CASE_H_
#define REDLATCH_SRC_QUORUM_QUORUM_CASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/base/clock.h"
#include "src/quorum/ledger.h"
#include "src/quorum/quorum.h"
#include "src/quorum/round.h"
#include "src/quorum/vote.h"
#include "src/redis/link/script_call.h"

namespace redlatch::quorum {

enum class Op : uint8_t { kAcquire, kRenew, kRelease, kCancel, kForce, kOther };
Op OpOf(const LuaScript& script);

// Where `acquire` has its terms among its words, and a release the words of the bid that follows.
inline constexpr size_t kTermsWord = 2;
inline constexpr size_t kNextBid = 3;

// Ends a hold at a node where it may yet come into being, or only what it got up to an `attempt`;
// `call` is of that lock. `channels`: what clients' channels begin with, for its client to be told.
OwnCall CancelOf(const redis::ScriptCall& call, std::string_view turn_key, const std::string& hold,
                 const std::string& gone_key, int64_t gone_ms, const std::string& attempt = {},
                 const std::string& channels = {});

// A script that the engine wants to be run, on its way.
struct Quorum::Case {
  explicit Case(const redis::ScriptCall& plain)
      : call(plain), op(OpOf(*plain.script)), hold(plain.args.empty() ? "" : plain.args[0]) {}

  const redis::ScriptCall call;
  const Op op;
  const std::string hold;
  int64_t lease_ms = 0;                // of kAcquire and kRenew
  Terms terms;                         // of kAcquire
  int64_t proposed = 0;                // of kAcquire
  std::optional<Ledger::Hold> ending;  // of kRelease and kCancel
  std::unique_ptr<Question> asked;
  std::unique_ptr<Question> raised;  // null: no need
  uint64_t raised_to = 0;            // the first token of the block
  base::Instant asked_at;
  base::Instant patience = base::Instant::Infinite();  // of kAcquire and kRenew: ends then
  bool granted = false;
  bool decided = false;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_QUORUM_CASE_H_
