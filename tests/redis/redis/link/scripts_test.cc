#include "lua/scripts.h"

#include "src/redis/link/scripts.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/scripts_fixture.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

class ScriptsTest : public ScriptsFixture {};

TEST_F(ScriptsTest, EachEmbeddedScriptHasTheHashThatTheServerGivesIt) {
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
  const OwnScript unknown(*server_, "return redis.call('NOSUCH')");  // renamed, as it seems
  EXPECT_EQ(scripts_.Run(unknown.Call(), Soon()).status().code(),
            absl::StatusCode::kFailedPrecondition);

  const OwnScript own_error(*server_, "return redis.error_reply('MINE because')");
  EXPECT_THAT(std::string(scripts_.Run(own_error.Call(), Soon()).status().message()),
              HasSubstr("MINE because"));
}

TEST_F(ScriptsTest, APermissionThatAScriptLacksIsAStatus) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">secret", "~counter", "&*", "+@all"});
  SharedConnection connection(*ParseUrl("redis://app:secret@" + server_->url().substr(8)));
  Scripts scripts(connection);
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

}  // namespace
}  // namespace redlatch::redis
