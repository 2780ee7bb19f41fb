#include "src/redis/link/subscriber.h"

#include "src/redis/url/url.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

TEST(Subscriber, ReconnectsIfPingIsNotAnswered) {
  std::atomic<int> subscribed{0};
  support::FakeServer server([&](const support::FakeServer::Asked& asked) {
    if (asked.command[0] == "SUBSCRIBE") ++subscribed;
    if (asked.command[0] == "PING") return std::optional<std::string>("");  // it hangs
    return support::FakeServer::Polite(asked);
  });
  std::atomic<int> live_again{0};
  Subscriber subscriber(*ParseUrl(server.url()), {.on_live_again = [&] { ++live_again; },
                                                  .answer_timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(subscriber.Subscribe("channel", base::Now() + absl::Seconds(10)).ok());
  subscriber.Ping();
  EXPECT_TRUE(support::Await([&] { return subscribed == 2 && live_again == 1; }));
}

}  // namespace
}  // namespace redlatch::redis
