#include "src/lock/state/leader_view.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

// The pause before the next question if the order of a message and a reply is not known.
constexpr absl::Duration kCrossed = absl::Milliseconds(10);

uint64_t PlaceInEpoch(const LeaderNews& news) {
  return news.has_leader() ? news.revision : std::numeric_limits<uint64_t>::max();
}

}  // namespace

bool LeaderView::IsNewer(const LeaderNews& news) const {
  if (!known_) return true;
  if (news.epoch != known_->epoch) return news.epoch > known_->epoch;
  return PlaceInEpoch(news) > PlaceInEpoch(*known_);
}

bool LeaderView::Learn(LeaderNews news, base::Instant now) {
  known_ = std::move(news);
  learned_at_ = now;
  return true;
}

bool LeaderView::OnMessage(LeaderNews news, base::Instant now) {
  return IsNewer(news) && Learn(std::move(news), now);
}

bool LeaderView::OnReply(LeaderNews news, absl::Duration left, base::Instant sent,
                         base::Instant now) {
  asking_ = false;
  failures_ = 0;
  due_ = now + heartbeat_;
  if (news.has_leader()) due_ = std::min(due_, now + left + after_lease_);
  if (IsNewer(news)) return Learn(std::move(news), now);
  const bool same = news.epoch == known_->epoch && news.revision == known_->revision;
  if (same || !known_->has_leader()) return false;
  // The client has learned of a change since it asked, so the reply may be older than that.
  if (sent <= learned_at_) {
    due_ = std::min(due_, now + kCrossed);
    return false;
  }
  // The term is over. The server names an older leader only if it has lost data.
  LeaderNews over;
  over.epoch = known_->epoch;
  return Learn(std::move(over), now);
}

void LeaderView::OnSilence(base::Instant now) {
  asking_ = false;
  due_ = now + std::min(heartbeat_, Spread(kFirstBackoff, kLongestBackoff, ++failures_,
                                           static_cast<uint64_t>(now.nanos())));
}

}  // namespace redlatch::internal
