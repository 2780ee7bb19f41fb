// A transport around a real one, whose steps a test may watch, replace or delay.
//
// Hooks are set while no thread is in a call, and outlive the transports.
#include "src/redis/link/connection.h"

#include <sys/resource.h>

#include "absl/types/span.h"
#include "src/redis/transport/transport.h"
#include "tests/redis/redis/link/connection_fixture.h"

namespace redlatch::redis {
namespace {

struct TransportHooks {
  std::function<IoResult(Transport& real, std::string_view bytes)> write;
  std::function<Readiness(Transport& real, Interest, int wake_fd, base::Instant)> wait;

  bool half_duplex = false;  // as over TLS
  std::atomic<int> reads = 0;
  std::atomic<int> writes = 0;
  std::atomic<int> waits = 0;

  void ResetCounts() { reads = writes = waits = 0; }
};

class HookedTransport final : public Transport {
 public:
  HookedTransport(TransportHooks& hooks, std::unique_ptr<Transport> real)
      : hooks_(hooks), real_(std::move(real)) {}

  IoResult Connect() override { return real_->Connect(); }
  IoResult Read(char* buffer, size_t size) override {
    ++hooks_.reads;
    return real_->Read(buffer, size);
  }
  IoResult Write(std::string_view bytes) override {
    ++hooks_.writes;
    return hooks_.write ? hooks_.write(*real_, bytes) : real_->Write(bytes);
  }
  Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) override {
    ++hooks_.waits;
    return hooks_.wait ? hooks_.wait(*real_, interest, wake_fd, deadline)
                       : real_->Wait(interest, wake_fd, deadline);
  }
  Polled BeginPoll(Interest interest) override {
    ++hooks_.waits;
    return real_->BeginPoll(interest);
  }
  bool full_duplex() const override { return !hooks_.half_duplex && real_->full_duplex(); }
  void DiscardUnsent() override { real_->DiscardUnsent(); }

 private:
  TransportHooks& hooks_;
  const std::unique_ptr<Transport> real_;
};

TransportFactory Hooked(TransportHooks& hooks, TransportFactory open = OpenTransport) {
  return [&hooks, open = std::move(open)](
             const Target& target) -> absl::StatusOr<std::unique_ptr<Transport>> {
    auto real = open(target);
    if (!real.ok()) return real.status();
    return std::make_unique<HookedTransport>(hooks, *std::move(real));
  };
}

class ConnectionTest : public ConnectionFixture {};

TEST_F(ConnectionTest, BatchesAreNotInterleaved) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  const auto connection = Direct();
  Crew().Start(kThreads, [&](int thread) {
    const std::string mine = std::to_string(thread);
    std::vector<Command> commands;
    commands.push_back({"SET", "shared", mine});
    for (int i = 0; i < 4; ++i) commands.push_back({"GET", "shared"});
    for (int round = 0; round < kRounds; ++round) {
      std::vector<absl::StatusOr<Reply>> replies(commands.size());
      connection->CallBatch(commands, In(kAmpleTime), absl::MakeSpan(replies));
      for (size_t i = 1; i < replies.size(); ++i) {
        ASSERT_EQ(Text(replies[i]), absl::StrCat("\"", mine, "\""));
      }
    }
  });
}

// The values are larger than the sockets' buffers, each way: the write is blocked while the reply
// of an earlier command comes.
TEST_F(ConnectionTest, BigValuesTravelBothWaysOverSlowLink) {
  const std::string big(size_t{16} << 20, 'b');
  const auto connection = Proxied();
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    proxy_.Delay(direction, absl::Milliseconds(2));
  }
  Crew().Start(3, [&](int thread) {
    if (thread > 0) {
      for (int i = 0; i < 20; ++i) {
        const std::string unique = absl::StrCat(thread, ":", i);
        ASSERT_EQ(Echo(*connection, unique), unique);
      }
      return;
    }
    EXPECT_TRUE(Echo(*connection, big) == big);
    EXPECT_TRUE(Echo(*connection, big) == big);
  });
  EXPECT_EQ(connection->stats().connects, 1);
}

// The kernel takes no more until Heal().
struct ConnectionBacklogTest : ConnectionTest {
  void SetUp() override {
    hooks_.write = [this](Transport& real, std::string_view bytes) {
      return blocked_ ? IoResult{.kind = IoResult::Kind::kWantWrite} : real.Write(bytes);
    };
    hooks_.wait = [this](Transport& real, Interest, int wake_fd, base::Instant until) {
      Readiness ready;
      do {
        ready = real.Wait(Interest::kRead, wake_fd, std::min(until, In(absl::Milliseconds(2))));
        ready.writable = !blocked_;
      } while (!ready.readable && !ready.writable && !ready.woken && base::Now() < until);
      return ready;
    };
    const std::string big(size_t{1} << 20, 'b');
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(Post(*connection_, {"SET", "big", big}).ok());
    while ((refused_ = Post(*connection_, {"SET", "big", big})).ok()) continue;
  }

  ConnectionOptions Options() {
    ConnectionOptions options;
    options.backlog_bytes = size_t{1} << 20;
    options.stall_timeout = absl::InfiniteDuration();
    options.open = Hooked(hooks_);
    return options;
  }

  void Heal() { blocked_ = false; }

  TransportHooks hooks_;
  const std::unique_ptr<Connection> connection_ = Connected(Direct(Options()));
  std::atomic<bool> blocked_ = true;
  absl::Status refused_;
};

TEST_F(ConnectionBacklogTest, RefusesCommandsIfBacklogIsFull) {
  EXPECT_THAT(refused_, IsError(absl::StatusCode::kUnavailable, HasSubstr("does not keep up")));
  // Two threads call: one of them leads, and the other is refused.
  const auto refused = [](const absl::Status& status) {
    return absl::StrContains(status.message(), "does not keep up");
  };
  std::thread other([&] {
    while (refused(connection_->Call({"PING"}, In(kAmpleTime)).status())) continue;
  });
  std::string key;
  absl::Status status;
  EXPECT_TRUE(Await([&, i = 0]() mutable {
    key = absl::StrCat("key ", i++);
    status = connection_->Call({"SET", key, "1"}, In(absl::Milliseconds(1))).status();
    return refused(status);
  })) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(MayHaveExecuted(status));
  Heal();
  other.join();
  EXPECT_EQ(Text(connection_->Call({"EXISTS", key}, In(kAmpleTime))), "0");
  EXPECT_EQ(connection_->stats().connects, 1);
}

// Commands whose reply goes to a function.

struct ConnectionDoneTest : ConnectionFixture {
  // Keeps the answers in the order in which they came.
  std::function<void(absl::StatusOr<Reply>)> Keep() {
    return [this](absl::StatusOr<Reply> answer) { answers_.push_back(std::move(answer)); };
  }

  TransportHooks hooks_;
  std::vector<absl::StatusOr<Reply>> answers_;
};

TEST_F(ConnectionDoneTest, ReplacedConnectionSendsNothing) {
  const auto connection = Connected(Direct());
  connection->Replace("a test wants it");
  EXPECT_TRUE(absl::IsUnavailable(Post(*connection, {"PING"}, Keep())));
  ASSERT_TRUE(connection->Connect(In(kAmpleTime)).ok());
  ASSERT_TRUE(Post(*connection, {"PING"}, Keep()).ok());
  EXPECT_TRUE(connection->Drain(In(kAmpleTime)));
  EXPECT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(connection->stats().connects, 2u);
}

// The socket had no room for the second command. Each drain finds the connection idle.
TEST_F(ConnectionDoneTest, ShortDrainsEndReplacedConnection) {
  bool blocked = false;
  hooks_.write = [&](Transport& real, std::string_view bytes) {
    return blocked ? IoResult{.kind = IoResult::Kind::kWantWrite} : real.Write(bytes);
  };
  const auto connection = Connected(Direct({.open = Hooked(hooks_)}));
  blocked = true;
  ASSERT_TRUE(Post(*connection, {"ECHO", "in flight"}, Keep()).ok());
  ASSERT_TRUE(Post(*connection, {"ECHO", "behind it"}, Keep()).ok());
  connection->Replace("a test wants it");
  blocked = false;
  for (int i = 0; i < 500 && !connection->Drain(base::Now()); ++i) {
    support::Sleep(absl::Milliseconds(6));
  }
  ASSERT_THAT(answers_, SizeIs(2));
  EXPECT_EQ(Text(answers_[0]), "\"in flight\"");
  EXPECT_TRUE(NotSent(answers_[1].status())) << answers_[1].status();
}

// If that was a release, the process may end now, and with it the thread that leads.
TEST_F(ConnectionDoneTest, PostWritesItsCommandBeforeItReturnsEvenIfAnotherThreadWrites) {
  std::atomic<bool> writing = false, returned = false, written = false;
  hooks_.write = [&](Transport& real, std::string_view bytes) {
    if (bytes.find("leader") != std::string_view::npos) {
      writing = true;
      EXPECT_FALSE(Await([&] { return returned.load(); }, absl::Milliseconds(50)));
    }
    const IoResult put = real.Write(bytes);
    if (bytes.find("posted") != std::string_view::npos) written = true;
    return put;
  };
  const auto connection = Connected(Direct({.open = Hooked(hooks_)}));
  std::thread leader([&] { EXPECT_EQ(Echo(*connection, "leader"), "leader"); });
  EXPECT_TRUE(Await([&] { return writing.load(); }));
  EXPECT_TRUE(Post(*connection, {"ECHO", "posted"}, Keep()).ok());
  EXPECT_TRUE(written);
  returned = true;
  leader.join();
  EXPECT_TRUE(connection->Drain(In(kAmpleTime)));
  EXPECT_THAT(answers_, SizeIs(1));
}

TEST_F(ConnectionDoneTest, PostWhileRepliesAreHandedOutDoesNotWait) {
  hooks_.half_duplex = true;
  const auto connection = Connected(Direct({.open = Hooked(hooks_)}));
  ASSERT_TRUE(Post(*connection, {"PING"}, [&](const absl::StatusOr<Reply>&) {
                EXPECT_TRUE(Post(*connection, {"ECHO", "posted"}, Keep()).ok());
              }).ok());
  // Its own reply comes later, so this thread tells the other one and goes on reading.
  EXPECT_TRUE(connection->Call({"BLPOP", "no list", "0.1"}, In(kAmpleTime)).ok());
  EXPECT_TRUE(connection->Drain(In(kAmpleTime)));
  EXPECT_THAT(answers_, SizeIs(1));
}

TEST_F(ConnectionDoneTest, PostDoesNotWaitForCommandsThatAreWithdrawn) {
  std::atomic<bool> writing = false, withdrawn = false;
  hooks_.write = [&](Transport& real, std::string_view bytes) {
    if (bytes.find("leader") != std::string_view::npos) {
      writing = true;
      EXPECT_TRUE(Await([&] { return withdrawn.load(); }));
    }
    return real.Write(bytes);
  };
  const auto connection = Connected(Direct({.open = Hooked(hooks_)}));
  std::thread leader([&] { EXPECT_EQ(Echo(*connection, "leader"), "leader"); });
  EXPECT_TRUE(Await([&] { return writing.load(); }));
  absl::StatusOr<Reply> answer;
  InFlight late{.results = absl::MakeSpan(&answer, 1)};
  ASSERT_TRUE(connection->Post({Command({"ECHO", "late"})}, late).ok());
  std::thread withdraws([&] {
    connection->Finish(late, In(absl::Milliseconds(100)));
    EXPECT_TRUE(absl::IsUnavailable(answer.status()) && !MayHaveExecuted(answer.status()));
    withdrawn = true;
  });
  EXPECT_TRUE(Post(*connection, {"ECHO", "posted"}, Keep()).ok());
  withdraws.join();
  leader.join();
  EXPECT_TRUE(connection->Drain(In(kAmpleTime)));
}

// Calls while the connection is lost, cannot be made, or is refused.

absl::Status Call(Connection& connection, const Command& command,
                  absl::Duration wait = kAmpleTime) {
  return connection.Call(command, In(wait)).status();
}

using ConnectionReconnectTest = ConnectionFixture;

// The kernel would send it again after a second.
TEST_F(ConnectionReconnectTest, RetriesSoonIfPacketIsLost) {
  const auto connection = Proxied();
  proxy_.SetArrival(Arrival::kHang);
  std::jthread call(
      [&] { EXPECT_EQ(Echo(*connection, "soon", In(absl::Milliseconds(950))), "soon"); });
  absl::SleepFor(absl::Milliseconds(50));
  proxy_.Heal();
}

TEST_F(ConnectionReconnectTest, RefusalKeepsItsCode) {
  ConnectionOptions options;
  options.first_backoff = options.longest_backoff = absl::Seconds(10);
  const auto connection = Direct(options);
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Call(*connection, {"PING"}, absl::Milliseconds(50));
    EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, HasSubstr("NOAUTH")));
  }
}

TEST_F(ConnectionReconnectTest, OldRefusalIsNoReasonWhileConnectionIsMadeAgain) {
  ConnectionOptions options;
  options.first_backoff = options.longest_backoff = absl::Milliseconds(1);
  const auto connection = Proxied(options);
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  EXPECT_THAT(Call(*connection, {"PING"}),
              IsError(absl::StatusCode::kPermissionDenied, HasSubstr("NOAUTH")));
  proxy_.SetArrival(Arrival::kHang);
  EXPECT_THAT(Call(*connection, {"PING"}, absl::Milliseconds(100)),
              IsError(absl::StatusCode::kUnavailable, HasSubstr("NOAUTH")));
}

// The process can open no descriptor while this exists.
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

TEST_F(ConnectionReconnectTest, RecoversFromNoDescriptors) {
  const auto connection = Direct();
  std::unique_ptr<Connection> born_without;
  std::vector<absl::Status> refused;  // checked later: sanitizers need descriptors, too
  {
    const NoDescriptors none;
    born_without = Direct();
    for (Connection* each : {connection.get(), born_without.get()}) {
      refused.push_back(Call(*each, {"PING"}, absl::Milliseconds(50)));
    }
  }
  for (const absl::Status& status : refused) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kUnavailable, HasSubstr("Too many open files")));
    EXPECT_FALSE(MayHaveExecuted(status));
  }
  EXPECT_EQ(Echo(*connection, "healed"), "healed");
  EXPECT_EQ(Echo(*born_without, "healed as well"), "healed as well");
}

// The cost of calls: system calls, descriptors.

constexpr int kCalls = 1000;

struct ConnectionCostTest : ConnectionFixture {
  std::unique_ptr<Connection> Counted(absl::Duration spin) {
    ConnectionOptions options;
    options.spin = spin;
    options.open = Hooked(hooks_);
    auto connection = Connected(Direct(std::move(options)));
    hooks_.ResetCounts();
    return connection;
  }

  TransportHooks hooks_;
};

// A connection that was idle for a while (even only because the machine paused the caller) is read
// once more before it is written to.
TEST_F(ConnectionCostTest, CallWritesWaitsAndReadsOnce) {
  const auto connection = Counted(absl::ZeroDuration());
  int busy = 0;
  for (int i = 0; i < kCalls; ++i) {
    hooks_.ResetCounts();
    ASSERT_EQ(Echo(*connection, "counted"), "counted");
    ASSERT_EQ(hooks_.writes, 1);
    ASSERT_EQ(hooks_.waits, 1);
    ASSERT_LE(hooks_.reads, 2);
    if (hooks_.reads == 1) ++busy;
  }
  EXPECT_GT(busy, kCalls * 9 / 10);
}

TEST_F(ConnectionCostTest, SpinThatGetsReplyNeedsNoWait) {
  const auto connection = Counted(absl::Seconds(1));
  ASSERT_EQ(Echo(*connection, "counted"), "counted");
  EXPECT_EQ(hooks_.writes, 1);
  EXPECT_EQ(hooks_.waits, 0);
}

TEST_F(ConnectionCostTest, BatchTravelsInOneWrite) {
  const auto connection = Counted(absl::ZeroDuration());
  std::vector<Command> commands;
  for (int i = 0; i < 100; ++i) commands.push_back({"ECHO", std::to_string(i)});
  std::vector<absl::StatusOr<Reply>> replies(commands.size());
  connection->CallBatch(commands, In(kAmpleTime), absl::MakeSpan(replies));
  EXPECT_EQ(Text(replies.back()), "\"99\"");
  EXPECT_EQ(hooks_.writes, 1);
}

TEST_F(ConnectionCostTest, CommandWithoutReplyCostsOneWrite) {
  const auto connection = Counted(absl::ZeroDuration());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Post(*connection, {"INCR", "counter"}).ok());
  EXPECT_EQ(hooks_.writes, 100);
  EXPECT_EQ(hooks_.waits, 0);
  EXPECT_EQ(hooks_.reads, 0);
}

TEST_F(ConnectionCostTest, HoldsTwoDescriptorsAndClosesThem) {
  const int before = support::OpenDescriptors();
  {
    const auto connection = Connected(Direct());
    EXPECT_EQ(support::OpenDescriptors(), before + 2);
  }
  EXPECT_EQ(support::OpenDescriptors(), before);
}

// A connection's effects on its process and its children: fork, exec, signals.

using support::Child;
using support::LinePipe;

constexpr absl::Duration kChildsTime = absl::Seconds(10);

struct ConnectionForkTest : ConnectionFixture {
  std::unique_ptr<Connection> connection_ = Connected(Direct());
};

// A child that lives on holds a copy of the descriptor: closing ours alone would not end the
// connection, and bytes that the kernel still has would arrive.
struct ChildLivesOnTest : ConnectionForkTest {
  // Forks a child that waits for its parent's end.
  std::unique_ptr<Child> Fork() {
    return Child::Fork([](LinePipe& parent) {
      parent.ReadLine(absl::InfiniteDuration());
      return 0;
    });
  }
  bool AwaitOpen(int connections) {
    return proxy_.Await([=](const support::ProxyStats& stats) { return stats.open == connections; },
                        kChildsTime / 2);
  }
};

TEST_F(ChildLivesOnTest, ConnectionThatIsGivenUpEnds) {
  ConnectionOptions options;
  options.stall_timeout = absl::Milliseconds(1);
  const auto connection = Connected(Proxied(options));
  const auto child = Fork();
  proxy_.Hold(Direction::kToClient, Scope::kExisting);
  EXPECT_FALSE(connection->Call({"PING"}, In(absl::Milliseconds(50))).ok());
  EXPECT_EQ(Echo(*connection, "again"), "again");
  EXPECT_EQ(connection->stats().connects, 2);
  proxy_.ReleaseHeld();
  EXPECT_TRUE(AwaitOpen(1));
}

TEST_F(ChildLivesOnTest, UnsentCommandsNeverArrive) {
  ConnectionOptions options;
  options.stall_timeout = absl::Milliseconds(1);
  Connection connection(UrlOf(server_->url()), options);
  ASSERT_TRUE(connection.Connect(In(kAmpleTime)).ok());
  const auto child = Fork();
  // More than the server's side takes while it is stopped; the last byte stays in our kernel.
  server_->Stop();
  const std::string big(size_t{8} << 20, 'b');
  EXPECT_FALSE(connection.Call({"SET", "big", big}, In(absl::Milliseconds(200))).ok());
  server_->Continue();
  EXPECT_EQ(Echo(connection, "again"), "again");
  EXPECT_EQ(server_->Text({"EXISTS", "big"}), "0");
  EXPECT_TRUE(server_->AwaitInfo("connected_clients", "3")) << server_->Info("connected_clients");
}

// How many descriptors "ls" has open if this process runs it.
int DescriptorsOfAnExecedChild() {
  FILE* list = popen("ls /proc/self/fd", "r");
  int count = 0;
  for (int c = 0; (c = std::fgetc(list)) != EOF;) count += c == '\n';
  pclose(list);
  return count;
}

TEST_F(ConnectionForkTest, ExecedChildInheritsNoDescriptor) {
  connection_.reset();
  const int before = DescriptorsOfAnExecedChild();
  connection_ = Connected(Direct());
  const Connection over_unix(UrlOf(server_->unix_url()));
  EXPECT_EQ(DescriptorsOfAnExecedChild(), before);
}

TEST_F(ConnectionForkTest, WriteAfterCloseRaisesNoSignal) {
  ASSERT_NE(signal(SIGPIPE, SIG_DFL), SIG_ERR);  // it would end this process
  for (int i = 0; i < 5; ++i) {
    server_->Kill();
    // The first is answered with a reset, the next finds the pipe broken.
    for (int k = 0; k < 3; ++k) (void)Post(*connection_, {"PING"});
    server_->Restart();
    EXPECT_TRUE(Await([&] { return Echo(*connection_, "still here") == "still here"; }));
  }
}

}  // namespace
}  // namespace redlatch::redis
