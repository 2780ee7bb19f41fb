#include "tests/redis/redis/embedded/home.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

// How much later than its deadline a call may return.
constexpr absl::Duration kGrace = absl::Milliseconds(50);
constexpr absl::Duration kClientPatience = absl::Seconds(10);
constexpr char kPassword[] = "s3cret-w0rd";

class ClientTest : public ::testing::Test {
 protected:
  // The server's URL with a user and a password.
  std::string UrlFor(const std::string& credentials) const {
    return "redis://" + credentials + "@" + server_->url().substr(8);
  }
  ClientOptions Heard() {
    return {.on_warning = [this](std::string_view message) { warnings_.emplace_back(message); }};
  }

  // Attempts to connect that failed hold the next one back.
  static void ExpectPingsSoon(const Client& client) {
    const base::Instant patience = base::Now() + kClientPatience;
    absl::Status status;
    do {
      status = client.Ping().status();
    } while (!status.ok() && base::Now() < patience);
    EXPECT_TRUE(status.ok()) << status;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  std::vector<std::string> warnings_;
};

TEST_F(ClientTest, ConnectsAndPings) {
  const Client client = Connect(server_->url() + "?name=me", Heard());
  EXPECT_EQ(client.server(), server_->url());
  const base::Instant begun = base::Now();
  const absl::StatusOr<absl::Duration> trip = client.Ping();
  ASSERT_TRUE(trip.ok()) << trip.status();
  EXPECT_GT(*trip, absl::ZeroDuration());
  EXPECT_LE(*trip, base::Now() - begun);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_THAT(server_->Text({"CLIENT", "LIST"}), HasSubstr("name=me"));
}

TEST_F(ClientTest, LazilyItDoesNothingUntilTheFirstCall) {
  server_->Kill();
  const int descriptors = support::OpenDescriptors();
  const int threads = support::ThreadCount();
  const Client client =
      Connect(server_->url() + "?command_timeout=100ms", {.connect = ConnectPolicy::kLazy});
  EXPECT_LE(support::ThreadCount(), threads);
  EXPECT_EQ(support::OpenDescriptors(), descriptors);
  redis::Punctuality punctuality;
  const base::Instant deadline = base::Now() + absl::Milliseconds(100);
  const absl::Status down = client.Ping().status();
  punctuality.Note(deadline);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_THAT(down, IsError(absl::StatusCode::kUnavailable,
                            AllOf(HasSubstr(server_->url()), HasSubstr("refused"))));
  server_->Restart();
  ExpectPingsSoon(client);
}

TEST_F(ClientTest, AServerThatHangsIsWaitedForNoLongerThanUnreachableAfter) {
  constexpr absl::Duration kGiveUp = absl::Milliseconds(100);
  server_->Stop();
  redis::Punctuality punctuality;
  const base::Instant give_up_at = base::Now() + kGiveUp;
  const auto client = Client::Connect(server_->url(), {.unreachable_after = kGiveUp});
  punctuality.Note(give_up_at);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable) << client.status();
  EXPECT_TRUE(punctuality.Within(kGrace));
  server_->Continue();
}

TEST_F(ClientTest, WhatIsNotAsItShouldBeIsAWarning) {
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  ASSERT_TRUE(Client::Connect(server_->url(), Heard()).ok());
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr(server_->url()), HasSubstr("allkeys-lru"),
                                           HasSubstr("CONFIG SET maxmemory-policy noeviction"))));
  server_->Command(
      {"ACL", "SETUSER", "app", "on", ">" + std::string(kPassword), "~*", "&*", "+@all", "-info"});
  warnings_.clear();
  ASSERT_TRUE(Client::Connect(UrlFor("app:" + std::string(kPassword)), Heard()).ok());
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("INFO"), HasSubstr("+info"), Not(HasSubstr(kPassword)))));
}

TEST_F(ClientTest, WarningsGoToStderrWhereNobodyListens) {
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Client::Connect(server_->url()).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("redlatch: warning: "), HasSubstr("allkeys-lru")));
}

TEST_F(ClientTest, CopiesShareOneConnectionAndTheLastClosesIt) {
  absl::StatusOr<Client> client = Client::Connect(server_->url());
  ASSERT_TRUE(client.ok()) << client.status();
  std::vector<Client> copies(8, *client);
  std::vector<std::thread> threads;
  threads.reserve(copies.size());
  for (const Client& copy : copies) {
    threads.emplace_back([&copy] {
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(copy.Ping().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_->Info("connected_clients"), "2");  // one is the fixture's
  client = absl::CancelledError();
  copies.resize(1, copies.front());
  EXPECT_TRUE(copies.front().Ping().ok());
  Client moved = std::move(copies.front());
  copies.clear();
  EXPECT_TRUE(moved.Ping().ok());
  EXPECT_EQ(server_->Info("connected_clients"), "2");
  moved = Connect(server_->url(), {.connect = ConnectPolicy::kLazy});
  EXPECT_TRUE(server_->AwaitInfo("connected_clients", "1"));
}

TEST_F(ClientTest, NegativeUnreachableAfterIsRefused) {
  const ClientOptions options{.unreachable_after = -absl::Seconds(1)};
  const absl::Status refused = Client::Connect(server_->url(), options).status();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kInvalidArgument, HasSubstr("unreachable_after")));
  EXPECT_TRUE(Client::Connect(server_->url(), {.unreachable_after = absl::Seconds(1)}).ok());
}

TEST(ClientEmbeddedTest, StartsAServerAndSharesIt) {
  const redis::EmbeddedHome home;
  const std::string url = "embedded:" + home.directory();
  const absl::StatusOr<Client> first = Client::Connect(url);
  const absl::StatusOr<Client> second = Client::Connect(url);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(first->Ping().ok());
  EXPECT_TRUE(second->Ping().ok());
  EXPECT_EQ(home.Servers().size(), 1);
  EXPECT_EQ(first->server(), url);
}

TEST(ClientEmbeddedTest, ANewServerIsStartedWhereTheOldOneIsGone) {
  const redis::EmbeddedHome home;
  const Client client =
      Connect("embedded:" + home.directory() + "?idle_stop=100ms&command_timeout=10s");
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(client.Ping().ok());
    if (round == 0) {
      // Alone: with this client's connection it has nobody, and stops by itself.
      auto other = home.Connect();
      EXPECT_GE(other.Command({"CLIENT", "KILL", "TYPE", "normal"}).integer, 1);
    } else {
      for (const pid_t pid : home.Servers()) redis::Kill(pid);
    }
    ASSERT_TRUE(home.Empties());
    const absl::StatusOr<absl::Duration> trip = client.Ping();
    EXPECT_TRUE(trip.ok()) << trip.status();
    EXPECT_EQ(home.Servers().size(), 1);
  }
}

}  // namespace
}  // namespace redlatch
