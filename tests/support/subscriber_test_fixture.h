#ifndef REDLATCH_TESTS_SUPPORT_SUBSCRIBER_TEST_FIXTURE_H_
#define REDLATCH_TESTS_SUPPORT_SUBSCRIBER_TEST_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/url/url.h"
#include "tests/support/await.h"
#include "tests/support/process_stats.h"
#include "tests/support/redis_server.h"
#include "tests/support/subscriber_ears.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {

// What the tests of the subscriber share: a server, and ears.
class SubscriberTestFixture : public ::testing::Test {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  explicit SubscriberTestFixture(RedisServerOptions options = {})
      : server_(RedisServer::Start(std::move(options))) {}

  static base::Instant Soon() { return base::Now() + kPatience; }
  static base::Instant In(absl::Duration time) { return base::Now() + time; }

  std::unique_ptr<redis::Subscriber> Make(const std::string& url,
                                          redis::SubscriberOptions options = {}) {
    return std::make_unique<redis::Subscriber>(*redis::ParseUrl(url),
                                               ears_.Options(std::move(options)));
  }

  // How many receivers the server has sent it to.
  int64_t Publish(std::string_view channel, std::string_view message) {
    return server_->Integer({"PUBLISH", std::string(channel), std::string(message)});
  }
  // Messages may be lost until the connection is there: publishes until one is heard.
  bool ArrivesSoon(std::string_view channel) {
    const base::Instant deadline = Soon();
    for (int i = 0; base::Now() < deadline; ++i) {
      const std::string message = "probe " + std::to_string(i);
      const std::string line = "message " + std::string(channel) + " " + message;
      if (Publish(channel, message) > 0 && ears_.Await(line, 1, absl::Milliseconds(100))) {
        return true;
      }
    }
    return false;
  }

  int64_t KillSubscribers() { return server_->Integer({"CLIENT", "KILL", "TYPE", "pubsub"}); }

  // How often the server has run a command since it started or CONFIG RESETSTAT.
  int64_t Calls(std::string_view command) {
    const std::string line = server_->Info("cmdstat_" + std::string(command));
    int64_t calls = 0;
    const size_t begin = std::min(line.find('=') + 1, line.size());
    return absl::SimpleAtoi(line.substr(begin, line.find(',') - begin), &calls) ? calls : 0;
  }

  // A thread that was joined may be seen in /proc a moment longer.
  static bool AwaitThreads(int count) {
    return Await([&] { return ThreadCount() == count; });
  }

  // Until a proxy holds bytes back.
  static bool AwaitWaiting(const TcpProxy& proxy) {
    return proxy.Await([](const ProxyStats& stats) { return stats.bytes_waiting > 0; });
  }

  const std::unique_ptr<RedisServer> server_;
  SubscriberEars ears_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_SUBSCRIBER_TEST_FIXTURE_H_
