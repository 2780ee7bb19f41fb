#include <sys/resource.h>

#include "src/redis/link/connection.h"
#include "src/redis/link/listener.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/fake_server.h"
#include "tests/support/messages_fixture.h"

namespace redlatch::redis {
namespace {

class MessagesTest : public support::MessagesFixture {};

TEST_F(MessagesTest, RecoversFromNoDescriptors) {
  EXPECT_EQ(Publish("c", "m"), 0);  // connects the fixture
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 3, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto connection = Make(server_->url());
  const absl::Status subscribed = connection->Subscribe("c", In(absl::Milliseconds(20)));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(subscribed, IsError(absl::StatusCode::kUnavailable, HasSubstr("ulimit -n")));
  EXPECT_TRUE(connection->Subscribe("c", Soon()).ok());
}

TEST_F(MessagesTest, TooLongMessageBreaksOnlyConnection) {
  server_->Command({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"});
  const auto connection = Make(server_->url());
  ASSERT_TRUE(connection->Subscribe("c", Soon()).ok());
  server_->Command({"PUBLISH", "c", std::string(size_t{65} << 20, 'm')});
  EXPECT_TRUE(Await([&] { return Publish("c", "m") == 1; }));
  EXPECT_TRUE(recorder_.Await("message c m"));
}

// Looking up a host or starting a server cannot be interrupted.
TEST_F(MessagesTest, DestructorDoesNotWaitForServerStart) {
  EmbeddedHome home;
  WriteScript(home.Aside("redis-server"), "exec sleep 60\n");
  const std::string path = home.Aside("") + ":" + getenv("PATH");
  ScopedEnvironment environment("PATH", path.c_str());
  ScopedEnvironment unnamed("REDLATCH_REDIS_SERVER", nullptr);
  auto connection = Make("embedded:" + home.directory() + "?connect_timeout=60s");
  EXPECT_EQ(connection->Subscribe("c", In(absl::Milliseconds(100))).code(),
            absl::StatusCode::kUnavailable);
  const base::Instant begun = base::Now();
  connection.reset();
  EXPECT_LT(base::Now() - begun, absl::Seconds(2));
}

TEST_F(MessagesTest, SlowReaderIsDroppedAndReconnects) {
  server_->Command({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 64kb 0 0"});
  std::promise<void> go_on;
  ConnectionOptions options = recorder_.Options();
  options.on_message = [&, forward = options.on_message](std::string_view channel,
                                                         std::string_view message) {
    if (message == "stay") return go_on.get_future().wait();
    if (message.size() < 100) forward(channel, message);
  };
  Connection connection(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(connection.Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "stay"), 1);
  // The kernel's buffers must fill up first.
  const std::string filler(1 << 20, '.');
  while (Publish("c", filler) > 0) {
  }
  go_on.set_value();
  EXPECT_TRUE(recorder_.Await("again"));
  // Messages may be lost until there is a connection.
  EXPECT_TRUE(Await([&] {
    return Publish("c", "probe") > 0 && recorder_.Await("message c probe", 1, absl::Seconds(1));
  }));
  EXPECT_EQ(recorder_.lines().front(), "down");
}

// A connection may be destroyed at any moment when no call of it is in progress.

struct MessagesEnd : support::MessagesFixture {
  const std::string clients_ = server_->Info("connected_clients");  // connects the fixture
  const int threads_ = support::ThreadCount();
  const int descriptors_ = support::OpenDescriptors();
};

TEST_F(MessagesEnd, WaitsForRunningCallback) {
  std::atomic<bool> running{false};
  std::atomic<bool> over{false};
  ConnectionOptions options;
  options.on_message = [&](std::string_view, std::string_view) {
    running = true;
    running.notify_all();
    server_->Text({"DEBUG", "SLEEP", "0.1"});
    over = true;
  };
  auto connection = std::make_unique<Connection>(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(connection->Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "m"), 1);
  running.wait(false);
  connection.reset();
  EXPECT_TRUE(over);
}

TEST_F(MessagesEnd, LeaksNothingAtAnyMoment) {
  const int rounds = support::Scaled(400);
  for (int i = 0; i < rounds; ++i) {
    auto connection = Make(server_->url());
    (void)connection->Subscribe("c", In(absl::Microseconds(5 * i)));
    if (i % 3 == 0) KillSubscribed();
    connection->Unsubscribe("c");
  }
  EXPECT_TRUE(server_->AwaitInfo("connected_clients", "1"));  // the fixture's own
  const auto before = recorder_.lines();
  EXPECT_EQ(Publish("c", "no subscriber"), 0);
  EXPECT_EQ(recorder_.lines(), before);
  // A joined thread may still be in /proc for a moment.
  EXPECT_TRUE(Await([&] { return support::ThreadCount() == threads_; }));
  EXPECT_EQ(support::OpenDescriptors(), descriptors_);
}

// A server that denies a channel, or the client.

constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;

struct MessagesRefusal : support::MessagesFixture {
  MessagesRefusal()
      : MessagesFixture(
            {.acl = {"user app on >secret ~* resetchannels &ok* -@all +info +ping +subscribe "
                     "+unsubscribe"}}) {}

  std::string AppUrl() const { return "redis://app:secret@" + server_->url().substr(8); }
  void Acl(const std::vector<std::string>& rules) {
    std::vector<std::string> command = {"ACL", "SETUSER", "app"};
    command.insert(command.end(), rules.begin(), rules.end());
    ASSERT_EQ(server_->Text(command), "OK");
  }
};

TEST_F(MessagesRefusal, DeniedChannelFailsAtOnceAndAlone) {
  const auto connection = Make(AppUrl());
  Crew threads;
  for (const char* channel : {"ok-1", "denied", "ok-2", "denied", "ok-3"}) {
    threads.Start([&, channel] {
      const base::Instant begun = base::Now();
      const absl::Status subscribed = connection->Subscribe(channel, Soon());
      EXPECT_LT(base::Now() - begun, kAmpleTime / 2);
      if (*channel == 'o') {
        EXPECT_TRUE(subscribed.ok()) << subscribed;
      } else {
        EXPECT_THAT(subscribed,
                    IsError(kDenied, AllOf(HasSubstr(server_->url()), HasSubstr("NOPERM"),
                                           HasSubstr("ACL SETUSER"), Not(HasSubstr("secret")))));
      }
    });
  }
  threads.Join();
  EXPECT_TRUE(connection->connected());
  EXPECT_EQ(connection->stats().breaks, 0);
  EXPECT_EQ(Publish("ok-1", "m"), 1);
  EXPECT_TRUE(recorder_.Await("message ok-1 m"));
  EXPECT_THAT(recorder_.lines(), ElementsAre("message ok-1 m"));  // nothing for the other callbacks

  EXPECT_EQ(connection->Subscribe("denied", Soon()).code(), kDenied);
  Acl({"&denied"});
  EXPECT_TRUE(connection->Subscribe("denied", Soon()).ok());
  EXPECT_EQ(Publish("denied", "m"), 1);
  EXPECT_TRUE(recorder_.Await("message denied m"));
}

TEST_F(MessagesRefusal, RevokedChannelAloneIsRefused) {
  const auto connection = Make(AppUrl());
  for (const char* channel : {"ok-1", "ok-2", "ok-3"}) {
    ASSERT_TRUE(connection->Subscribe(channel, Soon()).ok());
  }
  Acl({"resetchannels", "&ok-1", "&ok-3"});  // the server then closes the connection
  EXPECT_TRUE(recorder_.Await("refused ok-2"));
  EXPECT_THAT(recorder_.lines(), ElementsAre("down", "again", "refused ok-2"));
  EXPECT_THAT(recorder_.why_refused(), IsError(kDenied, HasSubstr("NOPERM")));
  EXPECT_TRUE(connection->connected());
  EXPECT_EQ(Publish("ok-3", "m"), 1);
  EXPECT_TRUE(recorder_.Await("message ok-3 m"));
  EXPECT_EQ(connection->Subscribe("ok-2", Soon()).code(), kDenied);
  EXPECT_EQ(recorder_.Count("refused ok-2"), 1);  // the call itself returned the error
}

TEST_F(MessagesRefusal, LiveChannelOutlastsRefusedConnections) {
  const auto connection = Make(AppUrl());
  ASSERT_TRUE(connection->Subscribe("ok-1", Soon()).ok());
  Acl({"resetpass"});
  KillSubscribed();
  EXPECT_TRUE(recorder_.Await("down", 2));
  Acl({">secret"});
  EXPECT_TRUE(recorder_.Await("again"));
  EXPECT_TRUE(Await([&] { return Publish("ok-1", "m") == 1; }));
  EXPECT_EQ(recorder_.Count("refused ok-1"), 0);
}

// A server, or another program at its address, that sends nonsense.

using support::FakeServer;

constexpr char kMessage[] = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";

struct MessagesNonsense : ::testing::TestWithParam<std::string> {
  static constexpr absl::Duration kAmpleTime = absl::Seconds(10);
  static base::Instant Soon() { return base::Now() + kAmpleTime; }

  // Sends the parameter after `verb` on its first connection, and a message on later ones.
  static FakeServer::Answer After(std::string verb) {
    return [verb](const FakeServer::Asked& asked) -> std::optional<std::string> {
      std::optional<std::string> answer = FakeServer::Polite(asked);
      if (asked.connection == 1 && asked.command[0] == verb) answer->append(GetParam());
      if (asked.connection > 1 && asked.command[0] == "SUBSCRIBE") answer->append(kMessage);
      return answer;
    };
  }
  void ExpectOneLoss(FakeServer::Answer answer) {
    FakeServer server(std::move(answer));
    Connection connection(*ParseUrl(server.url()),
                          recorder_.Options({.first_backoff = absl::Milliseconds(1),
                                             .ping_interval = absl::Milliseconds(200),
                                             .answer_timeout = absl::Milliseconds(200)}));
    EXPECT_TRUE(connection.Subscribe("c", Soon()).ok());
    EXPECT_TRUE(recorder_.Await("message c m"));
    EXPECT_THAT(recorder_.lines(), ElementsAre("down", "again", "message c m"));
    EXPECT_EQ(server.connections(), 2);
  }

  support::MessageRecorder recorder_;
};

TEST_P(MessagesNonsense, CostsOnlyTheConnectionAfterSubscribe) {
  ExpectOneLoss(After("SUBSCRIBE"));
}

TEST_P(MessagesNonsense, CostsOnlyTheConnectionAfterHello) { ExpectOneLoss(After("HELLO")); }

INSTANTIATE_TEST_SUITE_P(
    Said, MessagesNonsense,
    ::testing::Values("+OK\r\n", "+PONG\r\n", ":5\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
                      "HTTP/1.1 400 Bad Request\r\n\r\n", std::string("\0\0\0\0\r\n", 6),
                      "*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", "*1\r\n*1\r\n*1\r\n*0\r\n",
                      "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
                      "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
                      "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\nm\r\n",
                      "%1\r\n+a\r\n:1\r\n", "$99999999999\r\n", "*99999999\r\n:1\r\n",
                      "$1000\r\n" + std::string(1000, 'x') + "\r\n"));

// A node of a cluster whose slot moves while the client leaves a channel of it.
class MessagesLeaves : public ::testing::TestWithParam<bool> {};

TEST_P(MessagesLeaves, MovingSlotWithoutLosingConnection) {
  const std::string moved = absl::StrCat("-MOVED ", SlotOf("{a}"), " 127.0.0.1:1\r\n");
  const std::string asks = absl::StrCat("-ASK ", SlotOf("{a}"), " 127.0.0.1:1\r\n");
  const auto said = [](const std::string& word, const std::string& channel) {
    return absl::StrCat(">3\r\n$", word.size(), "\r\n", word, "\r\n$", channel.size(), "\r\n",
                        channel, "\r\n:1\r\n");
  };
  const bool unasked = GetParam();
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (asked.command[0] == "SSUBSCRIBE") return said("ssubscribe", asked.command[1]);
    if (asked.command[0] != "SUNSUBSCRIBE") return FakeServer::Polite(asked);
    return unasked ? said("sunsubscribe", asked.command[1]) + moved : asks;
  });
  support::MessageRecorder recorder;
  Connection connection(*ParseUrl(server.url()), recorder.Options({.sharded = true}));
  const base::Instant soon = base::Now() + absl::Seconds(10);
  EXPECT_TRUE(connection.Subscribe("{a}", soon).ok());
  connection.Unsubscribe("{a}");
  EXPECT_TRUE(connection.Subscribe("{b}", soon).ok());
  EXPECT_EQ(server.connections(), 1);
}
INSTANTIATE_TEST_SUITE_P(ToldUnasked, MessagesLeaves, ::testing::Bool());

// One thread that listens for several connections.

struct ListenerTest : support::MessagesFixture {
  std::unique_ptr<Connection> MakeOneOfSeveral(const std::string& url) {
    return Make(url, {.listener = listener_});
  }

  // Messages arrive, and the slowest delay is noted.
  void ExpectMessages(const std::string& channel) {
    for (int i = 0; i < 50; ++i) {
      const std::string message = absl::StrCat("quick ", i);
      const base::Instant published = base::Now();
      ASSERT_EQ(Publish(channel, message), 1);
      ASSERT_TRUE(recorder_.Await(absl::StrCat("message ", channel, " ", message)));
      slowest_ = std::max(slowest_, base::Now() - published);
    }
  }

  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  TcpProxy proxy_{{.port = server_->port()}};
  absl::Duration slowest_ = absl::ZeroDuration();
};

TEST_F(ListenerTest, UnreachableServerDelaysNoOther) {
  const auto well = MakeOneOfSeveral(server_->url());
  ASSERT_TRUE(well->Subscribe("c", Soon()).ok());
  for (const Arrival arrival : {Arrival::kIgnore, Arrival::kHang, Arrival::kRefuse}) {
    proxy_.SetArrival(arrival);
    const auto sick = MakeOneOfSeveral(proxy_.url() + "?connect_timeout=30s");
    EXPECT_TRUE(absl::IsUnavailable(sick->Subscribe("sick", In(absl::Milliseconds(50)))));
    ExpectMessages("c");
    recorder_.Forget();
  }
  EXPECT_LT(slowest_, absl::Seconds(5)) << "the connect_timeout is far longer";
}

// A forked child and the connection of its parent.

using MessagesFork = support::MessagesFixture;

// glibc's condition variables wait in their destructor for their waiters, of which a child has
// none.
TEST_F(MessagesFork, ChildsDestructorDoesNotHang) {
  TcpProxy proxy({.port = server_->port()});
  auto connection = Make(proxy.url());
  ASSERT_TRUE(connection->Subscribe("c", Soon()).ok());
  proxy.Hold(Direction::kToServer);
  std::jthread waiter([&] { EXPECT_TRUE(connection->Subscribe("d", Soon()).ok()); });
  // The request was taken under the lock, so the waiting thread has released the lock.
  EXPECT_TRUE(proxy.Await([](const support::ProxyStats& its) { return its.bytes_waiting > 0; }));
  const int code = support::CodeOfFork([&] {
    connection.reset();
    return 0;
  });
  EXPECT_EQ(code, 0);
  proxy.Heal();
}

// A sanitizer's forked children must start no threads.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// A forked child does not have the thread of its parent's connection. glibc reuses the memory of
// that thread for the next thread of the child, which then has the same id.
TEST_F(MessagesFork, ChildsConnectionIsNotItsParents) {
  auto connection = Make(server_->url());
  ASSERT_TRUE(connection->Subscribe("c", Soon()).ok());
  const int code = support::CodeOfFork([&] {
    auto own = Make(server_->url());
    const absl::Status subscribed = own->Subscribe("own", Soon());
    EXPECT_TRUE(subscribed.ok()) << subscribed;
    connection.reset();
    EXPECT_EQ(server_->Text({"PING"}), "PONG");
    EXPECT_TRUE(own->Subscribe("own too", Soon()).ok());
    own.reset();
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
}
#endif

// The thread that watches the connections: the listener's, or one that waits for a message.

using base::Parker;

constexpr uint32_t kReceived = 1;

// One connection, or several that share a listener. They set `parker_` for each message, and count
// those that the test's own thread read.
struct MessagesWatcherTest : support::MessagesFixture, public ::testing::WithParamInterface<int> {
  void SetUp() override {
    const auto listener = std::make_shared<Listener>();
    for (int i = 0; i < GetParam(); ++i) {
      ConnectionOptions options = recorder_.Options({.listener = listener});
      options.on_message = [this, forward = options.on_message, me = std::this_thread::get_id()](
                               std::string_view channel, std::string_view message) {
        forward(channel, message);
        if (std::this_thread::get_id() == me) ++read_by_me_;
        parker_.Set(kReceived);
      };
      all_.push_back(std::make_shared<Connection>(*ParseUrl(server_->url()), options));
      ASSERT_TRUE(all_.back()->Subscribe(absl::StrCat("c", i), Soon()).ok());
    }
  }

  uint32_t Await(base::Instant deadline = Soon()) {
    return all_.size() == 1 ? all_[0]->Await(parker_, deadline)
                            : Connection::AwaitAny(all_, parker_, deadline);
  }
  // Waits as a lock does; the message mostly comes after the wait has begun.
  uint32_t AwaitMessage() {
    const std::string channel = absl::StrCat("c", ++messages_ % GetParam());
    parker_.Arm();
    std::thread publisher([&] {
      Parker().ParkUntil(In(absl::Milliseconds(1)));
      Publish(channel, "m");
    });
    const uint32_t value = Await();
    publisher.join();
    return value;
  }
  // Waits until the next waiter reads in the listener's place.
  void BecomeReader() {
    const base::Instant deadline = Soon();
    while (read_by_me_ == 0) {
      ASSERT_LT(base::Now(), deadline);
      EXPECT_EQ(AwaitMessage(), kReceived);
    }
  }

  Parker parker_;
  std::atomic<int> read_by_me_{0};
  int messages_ = 0;
  std::vector<std::shared_ptr<Connection>> all_;
};
INSTANTIATE_TEST_SUITE_P(Connections, MessagesWatcherTest, ::testing::Values(1, 3));

TEST_P(MessagesWatcherTest, LoneWaiterReadsForItself) {
  BecomeReader();
  const int before = read_by_me_;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(AwaitMessage(), kReceived);
  EXPECT_GT(read_by_me_, before + 50);
}

// How often the thread that listens has gone to sleep.
int64_t SleepsOfTheThread() {
  int64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "redlatch-listen") continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      constexpr std::string_view kCounted = "voluntary_ctxt_switches:";
      if (line.starts_with(kCounted)) sleeps += std::stoll(line.substr(kCounted.size()));
    }
  }
  return sleeps;
}

TEST_P(MessagesWatcherTest, ThreadSleepsWhileWaiterReads) {
  BecomeReader();
  constexpr int kRounds = 200;
  ASSERT_TRUE(support::Await([] { return SleepsOfTheThread() > 0; }));
  const int64_t before = SleepsOfTheThread();
  for (int i = 0; i < kRounds; ++i) EXPECT_EQ(AwaitMessage(), kReceived);
  EXPECT_LT(SleepsOfTheThread() - before, kRounds / 2);
}

TEST_P(MessagesWatcherTest, LongWaitCostsNothing) {
  BecomeReader();
  parker_.Arm();
  const absl::Duration before = support::ProcessCpuTime();
  EXPECT_EQ(Await(In(absl::Seconds(1))), Parker::kArmed);
  EXPECT_LT(support::ProcessCpuTime() - before, absl::Milliseconds(20));
}

TEST_P(MessagesWatcherTest, BrokenConnectionsAreMadeAgain) {
  EXPECT_EQ(AwaitMessage(), kReceived);
  parker_.Arm();
  std::thread killer([&] {
    EXPECT_GT(KillSubscribed(), 0);
    EXPECT_TRUE(recorder_.Await("again", GetParam()));
    EXPECT_TRUE(support::Await([&] { return Publish("c0", "after") == 1; }));
  });
  EXPECT_EQ(Await(), kReceived);
  killer.join();
  EXPECT_TRUE(recorder_.Await("message c0 after"));
}

TEST(Messages, WaiterOfNoneSleeps) {
  Parker parker;
  parker.Arm();
  parker.Set(kReceived);
  EXPECT_EQ(Connection::AwaitAny({}, parker, base::Now() + absl::Seconds(10)), kReceived);
}

}  // namespace
}  // namespace redlatch::redis
