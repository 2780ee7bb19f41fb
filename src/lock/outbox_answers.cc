// What becomes of the answers. (In one file with outbox.cc, GCC 12 warns of an array out of bounds
// that is none.)
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "src/lock/client_core.h"
#include "src/lock/outbox.h"
#include "src/lock/script_codec.h"
#include "src/redis/link/script_runner.h"

namespace redlatch::internal {

void Outbox::Answered(InFlight& letter) {
  if (closed_) return;  // nothing is left that it could be told to
  Entry& entry = *letter.entry;
  Feed(entry, letter.script, letter.hold, OrNoMemory([&] {
         PostedRequest& posted = letter.posted;
         const std::string node = core_.is_cluster() ? core_.server(entry.keys.main()) : "";
         const absl::StatusOr<redis::Reply> reply =
             redis::ResultOfPosted(std::exchange(posted.replies[1], redis::Reply()),
                                   core_.is_cluster() ? std::string_view(node) : core_.server());
         Result result =
             posted.result ? *std::move(posted.result) : ReadResult(letter.script, reply);
         core_.NoteAnswer(entry, letter.script, result);
         return result;
       }));
  const size_t batch = letter.batch;
  GiveBack(letter);
  core_.machines().Unrefer(entry);
  ++answered_;
  --under_way_[batch];
}

void Outbox::Feed(Entry& entry, const Request& script, uint64_t hold, const Result& result) {
  Released released;
  core_.Feed(entry, [&](LockState& state, Effects& effects) {
    state.OnResult(script, result, base::Now(), effects);
    if (hold == 0) return;  // a bid, or the release of a cached grant
    auto& lock = static_cast<LockState&>(state);
    released = lock.Outcome(hold);
    // The outcome is not asked for later.
    if (released.kind == Released::Kind::kUnderWay) lock.Forget(hold);
  });
  if (hold != 0 && core_.observed()) core_.TellReleasedLater(entry, released);
}

}  // namespace redlatch::internal
