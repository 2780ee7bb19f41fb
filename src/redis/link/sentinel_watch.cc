#include "src/redis/link/sentinel_watch.h"

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "src/base/clock.h"
#include "src/redis/connect/sentinel.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {
namespace {

constexpr char kChannel[] = "+switch-master";
// Sooner than for a server, since nothing else would notice a sentinel that hangs.
constexpr absl::Duration kPingInterval = absl::Seconds(5);

}  // namespace

SentinelWatch::SentinelWatch(const Url& url, Moved moved)
    : primary_(url.sentinels->options().primary),
      moved_(std::move(moved)),
      subscriber_(std::make_unique<Subscriber>(
          AsToSentinels(url),
          SubscriberOptions{
              .on_message =
                  [this](std::string_view, std::string_view message) {
                    // name, old host, old port, new host, new port
                    const std::vector<std::string> words =
                        absl::StrSplit(absl::string_view(message.data(), message.size()), ' ');
                    if (words.size() < 5 || words[0] != primary_) return;
                    const auto now_at = MakeHostAndPort(words[3], words[4]);
                    moved_(now_at ? now_at->text() : "");
                  },
              .on_live_again = [this] { moved_({}); },
              .first_is_again = true,
              .ping_interval = kPingInterval,
          },
          MakeEndpointOfSentinels(url))) {}

void SentinelWatch::BeginNow() {
  if (begun_.exchange(true)) return;
  // The subscriber keeps trying.
  subscriber_->Subscribe(kChannel, base::Now()).IgnoreError();
}

}  // namespace redlatch::redis
