// What becomes of calls where the connection is lost, cannot be made, or is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/punctuality.h"

namespace redlatch::redis {
namespace {

using ::testing::HasSubstr;

using support::Arrival;

absl::Status Call(SharedConnection& connection, const Command& command,
                  absl::Duration wait = kPatience) {
  return connection.Call(command, In(wait)).status();
}

class SharedConnectionReconnectTest : public ChannelFixture {
 protected:
  std::string Counter() { return server_->Text({"GET", "counter"}); }
};

// The kernel would send it again after a second.
TEST_F(SharedConnectionReconnectTest, AConnectionWhoseFirstPacketIsLostIsTriedAgainSoon) {
  const auto connection = Proxied();
  proxy_.SetArrival(Arrival::kHang);
  std::thread call(
      [&] { EXPECT_EQ(Echo(*connection, "soon", In(absl::Milliseconds(950))), "soon"); });
  absl::SleepFor(absl::Milliseconds(50));
  proxy_.Heal();
  call.join();
}

TEST_F(SharedConnectionReconnectTest,
       CallsWhileAttemptsAreHeldBackEndByTheirDeadlineWithTheReason) {
  SharedConnectionOptions options;
  options.first_backoff = options.longest_backoff = absl::Seconds(10);
  const auto connection = Proxied(options);
  proxy_.SetArrival(Arrival::kRefuse);
  Punctuality punctuality;
  InThreads(8, [&](int thread) {
    for (int i = 0; i < 5; ++i) {
      const base::Instant deadline = In(absl::Milliseconds(10 + 5 * thread));
      const absl::Status status = connection->Call({"PING"}, deadline).status();
      punctuality.Note(deadline);
      EXPECT_GE(base::Now(), deadline) << "an attempt that may yet succeed is waited for";
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
    }
  });
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_F(SharedConnectionReconnectTest, AttemptsAreHeldBackWhereTheyFail) {
  std::atomic<int> attempts{0};
  SharedConnectionOptions options;
  options.first_backoff = options.longest_backoff = absl::Milliseconds(100);
  options.open = [&](const Target& target) {
    ++attempts;
    return OpenTransport(target);
  };
  const auto connection = Proxied(options);
  proxy_.SetArrival(Arrival::kRefuse);
  EXPECT_FALSE(Call(*connection, {"PING"}, absl::Milliseconds(500)).ok());
  EXPECT_GE(attempts, 4);
  EXPECT_LE(attempts, 11);  // the pause is jittered down to its half
}

TEST_F(SharedConnectionReconnectTest,
       ConnectTellsWhyTheFirstAttemptFailedWithoutWaitingForAnother) {
  const auto connection = Proxied();
  proxy_.SetArrival(Arrival::kRefuse);
  const base::Instant begun = base::Now();
  const absl::Status status = connection->Connect(In(kPatience));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
  EXPECT_LT(base::Now() - begun, kPatience / 2);
  proxy_.Heal();
  EXPECT_TRUE(connection->Connect(In(kPatience)).ok());
}

TEST_F(SharedConnectionReconnectTest,
       AServerThatRefusesFailsAllThatWaitAtOnceAndHealsWhenItIsMended) {
  const auto connection = Direct();
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  const base::Instant begun = base::Now();
  InThreads(8, [&](int) {
    const absl::Status status = Call(*connection, {"INCR", "counter"});
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr("NOAUTH"));
    EXPECT_FALSE(MayHaveExecuted(status));
  });
  EXPECT_LT(base::Now() - begun, kPatience / 2);
  server_->Command({"CONFIG", "SET", "requirepass", ""});
  EXPECT_TRUE(Await([&] { return Call(*connection, {"PING"}).ok(); }));
  EXPECT_EQ(Counter(), "");
}

TEST_F(SharedConnectionReconnectTest, ARefusalKeepsItsCodeUntilTheServerIsAskedAgain) {
  SharedConnectionOptions options;
  options.first_backoff = options.longest_backoff = absl::Seconds(10);
  const auto connection = Direct(options);
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Call(*connection, {"PING"}, absl::Milliseconds(50));
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NOAUTH"));
  }
}

TEST_F(SharedConnectionReconnectTest, WhatIsPermittedAgainIsAskedAlsoWhereAttemptsAreNotAwaited) {
  SharedConnectionOptions options;
  options.fail_fast = true;
  options.first_backoff = options.longest_backoff = absl::Milliseconds(500);
  const auto connection = Direct(options);
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  EXPECT_EQ(Call(*connection, {"PING"}).code(), absl::StatusCode::kPermissionDenied);
  server_->Command({"CONFIG", "SET", "requirepass", ""});
  const absl::Status permitted = Call(*connection, {"PING"});
  EXPECT_TRUE(permitted.ok()) << permitted;
}

TEST_F(SharedConnectionReconnectTest, AServerThatEvictsAfterAReconnectIsRefused) {
  const auto connection = Connected(Direct());
  server_->Command({"CONFIG", "SET", "maxmemory", "100mb"});
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  server_->Command({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_TRUE(Await(
      [&] { return Call(*connection, {"PING"}).code() == absl::StatusCode::kFailedPrecondition; }));
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  EXPECT_TRUE(Await([&] { return Call(*connection, {"PING"}).ok(); }));
}

// No new descriptor can be had while this lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(SharedConnectionReconnectTest, AProcessWithoutDescriptorsIsUnavailableAndHeals) {
  const auto connection = Direct();
  std::unique_ptr<SharedConnection> born_without;
  std::vector<absl::Status> refused;  // looked at later: sanitizers need descriptors, too
  {
    const NoDescriptors none;
    born_without = Direct();
    for (SharedConnection* each : {connection.get(), born_without.get()}) {
      refused.push_back(Call(*each, {"PING"}, absl::Milliseconds(50)));
    }
  }
  for (const absl::Status& status : refused) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("Too many open files"));
    EXPECT_FALSE(MayHaveExecuted(status));
  }
  EXPECT_EQ(Echo(*connection, "healed"), "healed");
  EXPECT_EQ(Echo(*born_without, "healed as well"), "healed as well");
}

}  // namespace
}  // namespace redlatch::redis
