#ifndef REDLATCH_SRC_LOCK_STATE_LEADER_VIEW_H_
#define REDLATCH_SRC_LOCK_STATE_LEADER_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::internal {

// The state of an election, as a server's reply or message describes it.
struct LeaderNews {
  uint64_t epoch = 0;     // of the leader, or of the latest one; 0: not known
  uint64_t revision = 0;  // of its value; 0: there is no leader
  int64_t since_us = 0;   // by the server's clock
  std::string client;
  std::string value;

  bool has_leader() const { return revision != 0; }
};

// What an observing client knows of an election, and when it asks the server next. Changes only
// ever go forward in the order of (epoch, revision); the end of a term comes last in its epoch.
class LeaderView {
 public:
  // `heartbeat`: how often the client asks. `after_lease`: how long after the end of the leader's
  // lease it asks, since a message that the next leader's term has begun may be in flight.
  LeaderView(absl::Duration heartbeat, absl::Duration after_lease)
      : heartbeat_(heartbeat), after_lease_(after_lease) {}

  // These return true if the client has learned of a change.
  bool OnMessage(LeaderNews news, base::Instant now);
  // `sent` is when the client asked, and `left` is the rest of the leader's lease.
  bool OnReply(LeaderNews news, absl::Duration left, base::Instant sent, base::Instant now);
  // There was no reply.
  void OnSilence(base::Instant now);
  // Asks at once.
  void AskNow(base::Instant now) { due_ = now; }

  absl::Duration heartbeat() const { return heartbeat_; }
  base::Instant due() const { return asking_ ? base::Instant::Infinite() : due_; }
  // The question is being sent.
  void OnAsked() { asking_ = true; }
  // Returns nullopt before the first reply or message.
  const std::optional<LeaderNews>& known() const { return known_; }

 private:
  bool IsNewer(const LeaderNews& news) const;
  bool Learn(LeaderNews news, base::Instant now);

  const absl::Duration heartbeat_;
  const absl::Duration after_lease_;
  std::optional<LeaderNews> known_;
  base::Instant learned_at_;  // when it last changed
  base::Instant due_;
  uint32_t failures_ = 0;
  bool asking_ = false;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_LEADER_VIEW_H_
