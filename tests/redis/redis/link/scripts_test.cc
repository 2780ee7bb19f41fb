// The script runner at a real server.
#include "lua/scripts.h"

#include "src/redis/link/connection.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/wire/errors.h"
#include "tests/support/fake_server.h"
#include "tests/support/messages_fixture.h"

namespace redlatch::redis {
namespace {

// A script that a test defines. It cannot be copied: its source points into it.
class OwnScript {
 public:
  // Asks `server` for the SHA-1, and makes it forget the script again.
  OwnScript(RedisServer& server, std::string body)
      : body_(std::move(body)), sha1_(server.Text({"SCRIPT", "LOAD", body_})) {
    server.Command({"SCRIPT", "FLUSH"});
    server.Command({"CONFIG", "RESETSTAT"});
  }
  OwnScript(const OwnScript&) = delete;
  OwnScript& operator=(const OwnScript&) = delete;

  ScriptCall Call(absl::Span<const std::string_view> keys = {},
                  absl::Span<const std::string_view> args = {}) const {
    return {.script = &source_, .keys = keys, .args = args};
  }
  const std::string& sha1() const { return sha1_; }

 private:
  const std::string body_;
  const std::string sha1_;
  const LuaScript source_{.name = "test/script", .body = body_, .sha1 = sha1_};
};

struct ScriptsFixture : ::testing::Test {
  static constexpr absl::Duration kAmpleTime = absl::Seconds(10);
  static constexpr std::string_view kCounter[] = {"counter"};
  static constexpr char kCount[] = "return redis.call('INCR', KEYS[1])";

  static base::Instant In(absl::Duration time) { return base::Now() + time; }
  static base::Instant Soon() { return In(kAmpleTime); }
  static std::string Text(const absl::StatusOr<Reply>& reply) {
    return reply.ok() ? reply->DebugString() : reply.status().ToString();
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Connection connection_{*ParseUrl(server_->url())};
  ScriptServer known_{&connection_};
  const ScriptRunner scripts_{known_};
};

class ScriptsTest : public ScriptsFixture {};

TEST_F(ScriptsTest, EmbeddedScriptsHaveTheServersHashes) {
  for (const LuaScript& script : lua::kAll) {
    EXPECT_EQ(server_->Text({"SCRIPT", "LOAD", std::string(script.body)}), script.sha1)
        << script.name;
  }
}

TEST_F(ScriptsTest, WrongTypesAndMistakesAreStatuses) {
  server_->Command({"LPUSH", "counter", "x"});
  const OwnScript count(*server_, kCount);
  const absl::Status type = scripts_.Run(count.Call(kCounter), Soon()).status();
  EXPECT_THAT(type, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("WRONGTYPE")));
  EXPECT_THAT(std::string(type.message()), HasSubstr(server_->url()));
  const OwnScript mistake(*server_, "return nil + 1");
  EXPECT_EQ(scripts_.Run(mistake.Call(), Soon()).status().code(), absl::StatusCode::kInternal);
  const OwnScript unknown(*server_, "return redis.call('NOSUCH')");  // as if it were renamed
  EXPECT_EQ(scripts_.Run(unknown.Call(), Soon()).status().code(),
            absl::StatusCode::kFailedPrecondition);

  const OwnScript own_error(*server_, "return redis.error_reply('MINE because')");
  EXPECT_THAT(std::string(scripts_.Run(own_error.Call(), Soon()).status().message()),
              HasSubstr("MINE because"));
}

TEST_F(ScriptsTest, MissingPermissionIsAStatus) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">secret", "~counter", "&*", "+@all"});
  Connection connection(*ParseUrl("redis://app:secret@" + server_->url().substr(8)));
  ScriptServer known(&connection);
  const ScriptRunner scripts(known);
  const OwnScript count(*server_, kCount);
  const OwnScript set(*server_, "return redis.call('SET', KEYS[1], 1)");
  EXPECT_EQ(Text(scripts.Run(count.Call(kCounter), Soon())), "1");
  server_->Command({"ACL", "SETUSER", "app", "-set"});
  const std::string_view other_key[] = {"other"};
  for (const ScriptCall& call : {set.Call(kCounter), count.Call(other_key)}) {
    const absl::Status denied = scripts.Run(call, Soon()).status();
    EXPECT_THAT(denied, IsError(absl::StatusCode::kPermissionDenied, HasSubstr("ACL SETUSER")));
  }
}

// Scripts that cannot be run now.

using support::FakeServer;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

using ScriptsFault = ScriptsFixture;

TEST_F(ScriptsFault, LoadingServerIsAwaited) {
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

TEST_F(ScriptsFault, TextIsSentOnlyOnce) {
  std::atomic<int> taught{0};
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    const bool mine = asked.command.back() == "mine";
    if (!mine) return FakeServer::Polite(asked);
    if (asked.command[0] == "EVAL") ++taught;
    return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
  });
  Connection connection(*ParseUrl(server.url()));
  ScriptServer known(&connection);
  const ScriptRunner scripts(known);
  const OwnScript any(*server_, "return 1");
  const std::string_view args[] = {"mine"};
  const absl::Status status = scripts.Run(any.Call({}, args), Soon()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("NOSCRIPT"));
  EXPECT_EQ(taught, 1);
}

// CLIENT KILL of every connection, 100 times, under load: no caller is lost, all subscriptions are
// live again, and nothing grows.

constexpr int kCallers = 16;
constexpr int kChannels = 50;
constexpr absl::Duration kTimeout = absl::Seconds(1);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;  // a sanitizer keeps what was freed
#else
constexpr bool kMemoryIsOurs = true;
#endif

struct ClientKill : support::MessagesFixture {
  // Each caller runs a script that counts, and gets its own argument back.
  void CallUntilStopped(const std::stop_token& stop, int caller) {
    for (int64_t i = 0; !stop.stop_requested(); ++i) {
      const std::string mine = absl::StrCat(caller, ":", i);
      const std::string_view args[] = {mine};
      const absl::StatusOr<Reply> reply = scripts_.Run(count_.Call(kKeys, args), In(kTimeout));
      if (reply.ok()) {
        EXPECT_EQ(reply->text, mine);
        ++answered_;
      } else {
        EXPECT_TRUE(absl::IsUnavailable(reply.status())) << reply.status();
        if (MayHaveExecuted(reply.status())) ++unknown_;
      }
    }
  }
  // Returns when the callers have `more` further answers.
  bool AwaitAnswers(int64_t more) {
    return Await([this, enough = answered_ + more] { return answered_ >= enough; });
  }
  void KillAndAwaitRecovery() {
    recorder_.Forget();
    ASSERT_TRUE(AwaitAnswers(100)) << "callers are stuck";
    EXPECT_EQ(server_->Integer({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}), 1);
    EXPECT_EQ(KillSubscribed(), 1);
    ASSERT_TRUE(recorder_.Await("again"));
    for (int i = 0; i < kChannels; ++i) {
      ASSERT_TRUE(Await([&] { return Publish(std::to_string(i), "m") == 1; })) << i;
      ASSERT_TRUE(recorder_.Await(absl::StrCat("message ", i, " m")));
    }
    EXPECT_EQ(recorder_.Count("down"), 1);
    EXPECT_EQ(recorder_.Count("again"), 1);
  }

  static constexpr std::string_view kKeys[] = {"counter"};
  Connection connection_{*ParseUrl(server_->url())};
  ScriptServer known_{&connection_};
  const ScriptRunner scripts_{known_};
  const OwnScript count_{*server_, "redis.call('INCR', KEYS[1]); return ARGV[1]"};
  std::atomic<int64_t> answered_{0};
  std::atomic<int64_t> unknown_{0};
};

TEST_F(ClientKill, UnderLoadLosesNoCallerAndNoMemory) {
  const auto connection = Make(server_->url());
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_TRUE(connection->Subscribe(std::to_string(i), Soon()).ok());
  }
  std::vector<std::jthread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back(std::bind_front(&ClientKill::CallUntilStopped, this), i);
  }
  const int rounds = support::Scaled(100);
  for (int i = 0; i < rounds / 10 + 1 && !HasFatalFailure(); ++i) KillAndAwaitRecovery();  // warm
  EXPECT_TRUE(AwaitAnswers(100));
  const int descriptors = support::OpenDescriptors();
  const int threads = support::ThreadCount();
  const int64_t memory = support::ResidentBytes();
  const uint64_t breaks = connection_.stats().breaks;

  for (int i = 0; i < rounds && !HasFatalFailure(); ++i) KillAndAwaitRecovery();

  EXPECT_TRUE(AwaitAnswers(100));
  const int64_t growth = support::ResidentBytes() - memory;
  EXPECT_EQ(support::OpenDescriptors(), descriptors);
  EXPECT_EQ(support::ThreadCount(), threads);
  EXPECT_TRUE(!kMemoryIsOurs || growth < int64_t{1} << 20) << growth;
  EXPECT_EQ(connection_.stats().breaks - breaks, rounds);
  callers.clear();
  // Every script that was answered ran once. The others ran only if their outcome is unknown.
  const int64_t executed = server_->Integer({"INCRBY", "counter", "0"});
  EXPECT_GE(executed, answered_);
  EXPECT_LE(executed, answered_ + unknown_);
  EXPECT_TRUE(connection->connected());
}

}  // namespace
}  // namespace redlatch::redis
