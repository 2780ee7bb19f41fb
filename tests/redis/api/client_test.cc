#include "tests/redis/redis/embedded/home.h"

namespace redlatch {
namespace {

// How late a call may return.
constexpr absl::Duration kGrace = absl::Milliseconds(50);
constexpr absl::Duration kClientTimeout = absl::Seconds(10);
constexpr char kPassword[] = "s3cret-w0rd";

struct ClientTest : ::testing::Test {
  // The server's URL with a user and a password.
  std::string UrlFor(const std::string& credentials) const {
    return "redis://" + credentials + "@" + server_->url().substr(8);
  }
  ClientOptions RecordWarnings() {
    return {.on_warning = [this](std::string_view message) { warnings_.emplace_back(message); }};
  }

  // After a failed attempt to connect, the client waits before the next one.
  static void ExpectPingsSoon(const Client& client) {
    const base::Instant deadline = base::Now() + kClientTimeout;
    absl::Status status;
    do {
      status = client.Ping().status();
    } while (!status.ok() && base::Now() < deadline);
    EXPECT_TRUE(status.ok()) << status;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  std::vector<std::string> warnings_;
};

TEST_F(ClientTest, ConnectsAndPings) {
  const Client client = Connect(server_->url() + "?name=me", RecordWarnings());
  EXPECT_EQ(client.server(), server_->url());
  const base::Instant begun = base::Now();
  const absl::Duration trip = Must(client.Ping());
  EXPECT_GT(trip, absl::ZeroDuration());
  EXPECT_LE(trip, base::Now() - begun);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_THAT(server_->Text({"CLIENT", "LIST"}), HasSubstr("name=me"));
}

TEST_F(ClientTest, LazyClientDoesNothingBeforeFirstCall) {
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

TEST_F(ClientTest, HungServerFailsAfterUnreachableAfter) {
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

TEST_F(ClientTest, WarnsOfServerProblems) {
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  ASSERT_TRUE(Client::Connect(server_->url(), RecordWarnings()).ok());
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr(server_->url()), HasSubstr("allkeys-lru"),
                                           HasSubstr("CONFIG SET maxmemory-policy noeviction"))));
  server_->Command(
      {"ACL", "SETUSER", "app", "on", ">" + std::string(kPassword), "~*", "&*", "+@all", "-info"});
  warnings_.clear();
  ASSERT_TRUE(Client::Connect(UrlFor("app:" + std::string(kPassword)), RecordWarnings()).ok());
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("INFO"), HasSubstr("+info"), Not(HasSubstr(kPassword)))));
}

TEST_F(ClientTest, WarningsGoToStderrByDefault) {
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Client::Connect(server_->url()).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("redlatch: warning: "), HasSubstr("allkeys-lru")));
}

TEST_F(ClientTest, LastCopyClosesTheConnection) {
  std::optional<Client> client = Connect(server_->url());
  std::vector<Client> copies(8, *client);
  Crew().Start(8, [&](int copy) {
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(copies[copy].Ping().ok());
  });
  EXPECT_EQ(server_->Info("connected_clients"), "2");  // one is the fixture's
  client.reset();
  copies.resize(1, copies.front());
  EXPECT_TRUE(copies.front().Ping().ok());
  Client moved = std::move(copies.front());
  copies.clear();
  EXPECT_TRUE(moved.Ping().ok());
  EXPECT_EQ(server_->Info("connected_clients"), "2");
  moved = Connect(server_->url(), {.connect = ConnectPolicy::kLazy});
  EXPECT_TRUE(server_->AwaitInfo("connected_clients", "1"));
}

TEST_F(ClientTest, ReleasesHoldThatWasLostAMomentAgo) {
  TcpProxy proxy({.port = server_->port()});
  {
    auto lease =
        Must(SimpleLock(Connect(proxy.url()), "lock").Acquire({.lease = absl::Seconds(1)}));
    ASSERT_TRUE(lease.Extend(absl::Seconds(1)).ok());  // the server knows the script from now on
    proxy.Hold(Direction::kToClient);
    const std::jthread extends([&] { EXPECT_TRUE(IsLeaseLost(lease.Extend(absl::Minutes(1)))); });
    EXPECT_TRUE(Await([&] { return server_->Integer({"PTTL", "lock"}) > 2000; }));
    EXPECT_TRUE(Fires(lease.lost()));
    proxy.Heal();
  }
  EXPECT_EQ(server_->Integer({"EXISTS", "lock"}), 0);
}

TEST_F(ClientTest, NegativeUnreachableAfterIsRefused) {
  const ClientOptions options{.unreachable_after = -absl::Seconds(1)};
  const absl::Status refused = Client::Connect(server_->url(), options).status();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kInvalidArgument, HasSubstr("unreachable_after")));
  EXPECT_TRUE(Client::Connect(server_->url(), {.unreachable_after = absl::Seconds(1)}).ok());
}

TEST(ClientEmbeddedTest, StartsNewServerIfOldOneIsGone) {
  const redis::EmbeddedHome home;
  const Client client =
      Connect("embedded:" + home.directory() + "?idle_stop=100ms&command_timeout=10s");
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(client.Ping().ok());
    if (round == 0) {
      // This server loses its only user with that client, and stops by itself.
      auto other = home.Connect();
      EXPECT_GE(other.Command({"CLIENT", "KILL", "TYPE", "normal"}).integer, 1);
    } else {
      for (const pid_t pid : home.Servers()) redis::Kill(pid);
    }
    ASSERT_TRUE(home.ProcessesEnd());
    const absl::StatusOr<absl::Duration> trip = client.Ping();
    EXPECT_TRUE(trip.ok()) << trip.status();
    EXPECT_EQ(home.Servers().size(), 1);
  }
}

// A forked child uses its parent's client.

struct ClientFork : ::testing::Test {
  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  std::optional<Client> client_ = Connect(server_->url());
};

TEST_F(ClientFork, ChildClosesDescriptorsOfDestroyedClient) {
  auto lock = std::make_unique<SimpleLock>(*client_, "lock");
  lock->lock();
  const int code = support::CodeOfFork([&] {
    const int before = support::OpenDescriptors();
    lock.reset();
    client_.reset();
    // A socket, an event descriptor each for its leader and the listener, and a gate once a thread
    // has watched it.
    EXPECT_THAT(before - support::OpenDescriptors(), AnyOf(3, 4));
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(lock->current().valid());
  lock->unlock();
}

// Under a sanitizer, a forked child must not start threads: another thread may have held the
// sanitizer's own locks during the fork.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

// A daemon closes all descriptors that it finds open, and opens files of its own.
TEST_F(ClientTest, IdlesAndWorksAfterItsDescriptorsWereClosed) {
  for (const bool reopened : {false, true}) {
    const int code = support::CodeOfFork([&] {
      const Client client = Connect(server_->url());
      SimpleLock lock(client, "lock", {.cache_for = absl::Seconds(20)});
      std::promise<void> granted;
      lock.AcquireAsync({}, [&](const absl::StatusOr<Lease>&) { granted.set_value(); });
      granted.get_future().wait();
      lock.lock();
      lock.unlock();
      const int end = support::OpenDescriptors() + 10;
      close_range(3, ~0U, 0);
      std::FILE* const file = std::tmpfile();
      const int own = fileno(file);
      for (int fd = 3; fd < end && reopened; ++fd) {
        if (fd != own) dup2(own, fd);
      }
      std::this_thread::sleep_for(std::chrono::seconds(1));  // a spin is seen by what it costs
      const absl::Duration before = support::ProcessCpuTime();
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (support::ProcessCpuTime() - before > absl::Milliseconds(250)) return 2;
      if (!Await([&] { return lock.Acquire().ok(); })) return 3;
      // A waiter needs the connection for messages.
      SimpleLock other(Connect(server_->url()), "lock");
      std::optional<Lease> held = *other.Acquire();
      std::thread waiter([&] { lock.lock(), lock.unlock(); });
      if (!Await([&] { return other.Inspect()->waiters.size() == 1; })) return 4;
      const absl::Duration took = TimeOf([&] { held.reset(), waiter.join(); });
      if (took > absl::Seconds(1)) return 5;
      if (std::fseek(file, 0, SEEK_END) != 0 || std::ftell(file) != 0) return 6;
      return 0;
    });
    EXPECT_EQ(code, 0) << reopened;
  }
}
#endif

}  // namespace
}  // namespace redlatch
