#include "src/redis/link/connection.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "src/redis/url/url.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

TEST(Connection, IsGivenUpIfTheServerStalls) {
  support::FakeServer server([](const support::FakeServer::Asked& asked) {
    if (asked.command[0] == "HANG") return std::optional<std::string>("");
    return support::FakeServer::Polite(asked);
  });
  Connection connection(*ParseUrl(server.url()), {.stall_timeout = absl::Milliseconds(20)});
  ASSERT_TRUE(connection.Call(Command({"PING"}), base::Now() + absl::Seconds(10)).ok());
  EXPECT_EQ(server.connections(), 1);
  EXPECT_FALSE(connection.Call(Command({"HANG"}), base::Now() + absl::Milliseconds(50)).ok());
  EXPECT_TRUE(connection.Call(Command({"PING"}), base::Now() + absl::Seconds(10)).ok());
  EXPECT_EQ(server.connections(), 2);
}

TEST(Connection, IsMadeAgainIfPingIsNotAnswered) {
  std::atomic<int> subscribed{0};
  support::FakeServer server([&](const support::FakeServer::Asked& asked) {
    if (asked.command[0] == "SUBSCRIBE") ++subscribed;
    if (asked.command[0] == "PING") return std::optional<std::string>("");  // it hangs
    return support::FakeServer::Polite(asked);
  });
  std::atomic<int> again{0};
  Connection connection(*ParseUrl(server.url()), {.on_reconnected = [&] { ++again; },
                                                  .ping_interval = absl::Milliseconds(50),
                                                  .answer_timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(connection.Subscribe("channel", base::Now() + absl::Seconds(10)).ok());
  EXPECT_TRUE(support::Await([&] { return subscribed >= 2 && again >= 1; }));
}

// A transport that takes its time with the commands that contain "SLOW".
class SlowTransport final : public Transport {
 public:
  struct Test {
    absl::Notification writes_slowly;
    absl::Notification goes_on;
    std::atomic<bool> last_is_written = false;
  };
  SlowTransport(Test& test, std::unique_ptr<Transport> real)
      : test_(test), real_(std::move(real)) {}

  IoResult Connect() override { return real_->Connect(); }
  IoResult Read(char* buffer, size_t size) override { return real_->Read(buffer, size); }
  IoResult Write(std::string_view bytes) override {
    if (bytes.find("SLOW") != bytes.npos) {
      test_.writes_slowly.Notify();
      // Without the timeout, a writer that waits for these bytes would wait for ever.
      test_.goes_on.WaitForNotificationWithTimeout(absl::Milliseconds(100));
    }
    const IoResult result = real_->Write(bytes);
    if (bytes.find("LAST") != bytes.npos) test_.last_is_written = true;
    return result;
  }
  bool full_duplex() const override { return real_->full_duplex(); }
  Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) override {
    return real_->Wait(interest, wake_fd, deadline);
  }
  Polled BeginPoll(Interest interest) override { return real_->BeginPoll(interest); }
  void DiscardUnsent() override { real_->DiscardUnsent(); }

 private:
  Test& test_;
  const std::unique_ptr<Transport> real_;
};

// The process may end as soon as unlock() has returned.
TEST(Connection, PostReturnsOnceItsBytesAreWritten) {
  support::FakeServer server(&support::FakeServer::Polite);
  SlowTransport::Test test;
  Connection connection(
      *ParseUrl(server.url()),
      {.open = [&](const Target& target) -> absl::StatusOr<std::unique_ptr<Transport>> {
        auto real = OpenTransport(target);
        if (!real.ok()) return real.status();
        return std::make_unique<SlowTransport>(test, *std::move(real));
      }});
  const base::Instant deadline = base::Now() + absl::Seconds(10);
  ASSERT_TRUE(connection.Connect(deadline).ok());
  std::thread leader([&] {
    EXPECT_TRUE(connection.Call(Command({"PING", "SLOW"}), deadline).ok());
  });
  test.writes_slowly.WaitForNotification();
  absl::StatusOr<Reply> reply = Reply();
  absl::Notification done;
  InFlight last;
  last.results = absl::MakeSpan(&reply, 1);
  last.done = [&] { done.Notify(); };
  const Command command({"PING", "LAST"});
  EXPECT_TRUE(connection.Post(absl::MakeConstSpan(&command, 1), last).ok());
  EXPECT_TRUE(test.last_is_written);
  test.goes_on.Notify();
  leader.join();
  EXPECT_TRUE(connection.Drain(deadline));
  done.WaitForNotification();
}

}  // namespace
}  // namespace redlatch::redis
