// Scripts that cannot be run now, and scripts of which nobody knows whether they were.
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/scripts.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/scripts_fixture.h"
#include "tests/support/fake_server.h"
#include "tests/support/punctuality.h"
#include "tests/support/raw_connection.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::redis {
namespace {

using support::Direction;
using support::FakeServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class ScriptsFault : public ScriptsFixture {
 protected:
  std::string Counter() { return server_->Text({"GET", "counter"}); }

  support::TcpProxy proxy_{{.port = server_->port()}};
  SharedConnection proxied_{*ParseUrl(proxy_.url())};
  Scripts through_proxy_{proxied_};
};

// A script that runs until it is killed; the server answers BUSY meanwhile.
class Busy {
 public:
  explicit Busy(support::RedisServer& server)
      : server_(server), script_(support::RawConnection::ToSocket(server.socket_path())) {
    server_.Command({"CONFIG", "SET", "busy-reply-threshold", "20"});
    EXPECT_TRUE(script_.Send({"EVAL", "while true do end", "0"}));
    while (server_.Text({"GET", "k"}).find("BUSY") == std::string::npos) {
    }
  }
  ~Busy() { End(); }
  void End() { server_.Command({"SCRIPT", "KILL"}); }

 private:
  support::RedisServer& server_;
  support::RawConnection script_;
};

TEST_F(ScriptsFault, AServerThatStaysBusyIsUnavailableByTheDeadlineInItsOwnWords) {
  const OwnScript count(*server_, kCount);
  ASSERT_TRUE(scripts_.Run(count.Call(kCounter), Soon()).ok());
  Busy busy(*server_);
  Punctuality punctuality;
  absl::Status refused;
  int wanted = 0;
  // Until the deadline does not come while an attempt is on its way.
  for (int i = 0; i == 0 || (i < 20 && MayHaveExecuted(refused)); ++i) {
    const base::Instant begun = base::Now();
    const base::Instant deadline = begun + absl::Milliseconds(300);
    wanted = 0;
    refused = scripts_.Run(count.Call(kCounter), deadline, [&] { return ++wanted > 0; }).status();
    punctuality.Note(deadline);
    EXPECT_GT(base::Now() - begun, absl::Milliseconds(100));
  }
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(50)));
  EXPECT_EQ(refused.code(), kUnavailable);
  EXPECT_FALSE(MayHaveExecuted(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("BUSY"), HasSubstr(server_->url()), HasSubstr("SCRIPT KILL")));
  // With backoff: 2, 4, 8, ... ms, jittered.
  EXPECT_GE(wanted, 4);
  EXPECT_LE(wanted, 20);
  busy.End();
  EXPECT_EQ(Text(scripts_.Run(count.Call(kCounter), Soon())), "2");
}

TEST_F(ScriptsFault, AServerThatLoadsItsDataIsAwaited) {
  const OwnScript count(*server_, kCount);
  server_->Command({"DEBUG", "POPULATE", "200", "key", "2000"});
  server_->Command({"CONFIG", "SET", "loading-process-events-interval-bytes", "1024"});
  server_->Command({"CONFIG", "SET", "key-load-delay", "1000"});
  ASSERT_TRUE(scripts_.Run(count.Call(kCounter), Soon()).ok());
  auto reloading = support::RawConnection::ToSocket(server_->socket_path());
  ASSERT_TRUE(reloading.Send({"DEBUG", "RELOAD"}));
  while (server_->Text({"GET", "k"}).find("LOADING") == std::string::npos) {
  }
  EXPECT_EQ(Text(scripts_.Run(count.Call(kCounter), Soon())), "2");
  EXPECT_EQ(reloading.Receive().text, "OK");
}

TEST_F(ScriptsFault, AServerThatNeverLearnsAScriptIsNotTaughtForEver) {
  std::atomic<int> taught{0};
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    const bool mine = asked.command.back() == "mine";
    if (!mine) return FakeServer::Polite(asked);
    if (asked.command[0] == "EVAL") ++taught;
    return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
  });
  SharedConnection connection(*ParseUrl(server.url()));
  Scripts scripts(connection);
  const OwnScript any(*server_, "return 1");
  const std::string_view args[] = {"mine"};
  const absl::Status status = scripts.Run(any.Call({}, args), Soon()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("NOSCRIPT"));
  EXPECT_EQ(taught, 1);
}

TEST_F(ScriptsFault, AScriptWhoseReplyIsLostIsNeverSentAgain) {
  const OwnScript count(*server_, kCount);
  ASSERT_TRUE(through_proxy_.Run(count.Call(kCounter), Soon()).ok());
  int expected = 1;
  const std::function<void()> ways[] = {
      [&] { proxy_.CutAfter(Direction::kToClient, 0); },
      [&] { proxy_.DropReplies(1); },
      [&] { proxy_.CutAfter(Direction::kToClient, 1); },
  };
  for (const auto& lose : ways) {
    lose();
    int wanted = 0;
    const absl::Status lost =
        through_proxy_
            .Run(count.Call(kCounter), In(absl::Milliseconds(200)), [&] { return ++wanted > 0; })
            .status();
    EXPECT_EQ(lost.code(), kUnavailable) << lost;
    EXPECT_TRUE(MayHaveExecuted(lost)) << lost;
    EXPECT_THAT(std::string(lost.message()), HasSubstr("may have been executed"));
    EXPECT_EQ(Counter(), std::to_string(++expected));
    EXPECT_EQ(wanted, 0);
    proxy_.Heal();
    absl::StatusOr<Reply> next;
    do {  // until the connection is there again
      next = through_proxy_.Run(count.Call(kCounter), Soon());
    } while (absl::IsUnavailable(next.status()));
    EXPECT_EQ(Text(next), Counter());
    expected = static_cast<int>(next->integer);
  }
}

TEST_F(ScriptsFault, WithoutAConnectionNothingMayHaveBeenExecuted) {
  const OwnScript count(*server_, kCount);
  proxy_.SetArrival(support::Arrival::kRefuse);
  const absl::Status unsent =
      through_proxy_.Run(count.Call(kCounter), In(absl::Milliseconds(50))).status();
  EXPECT_EQ(unsent.code(), kUnavailable) << unsent;
  EXPECT_FALSE(MayHaveExecuted(unsent)) << unsent;
  EXPECT_THAT(std::string(unsent.message()), HasSubstr("not sent"));
  proxy_.Heal();
  EXPECT_EQ(Text(through_proxy_.Run(count.Call(kCounter), Soon())), "1");
}

}  // namespace
}  // namespace redlatch::redis
