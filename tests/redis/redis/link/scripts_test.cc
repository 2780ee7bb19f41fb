#include "src/redis/link/scripts.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "src/redis/link/shared_connection.h"
#include "tests/redis/redis/link/scripts_fixture.h"
#include "tests/support/redis_server.h"

namespace redlatch::redis {
namespace {

using ::testing::HasSubstr;

class ScriptsTest : public ScriptsFixture {};

TEST_F(ScriptsTest, EachEmbeddedScriptHasTheHashThatTheServerGivesIt) {
  for (const LuaScript& script : lua::kAll) {
    EXPECT_EQ(server_->Text({"SCRIPT", "LOAD", std::string(script.body)}), script.sha1)
        << script.name;
  }
}

TEST_F(ScriptsTest, TheTextIsSentOnceAndTheHashEverAfter) {
  ASSERT_TRUE(connection_.Connect(Soon()).ok());  // its handshake is not counted
  const OwnScript count(*server_, kCount);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(Text(scripts_.Run(count.Call(kCounter), Soon())), std::to_string(i));
  }
  EXPECT_EQ(Calls("eval"), 1);
  EXPECT_EQ(Calls("evalsha"), 10);  // the first of them in vain
  EXPECT_EQ(Calls("incr"), 10);
}

TEST_F(ScriptsTest, KeysAndArgumentsAreAnyBytesAndAnyNumber) {
  const OwnScript echo(*server_,
                       "return {#KEYS, #ARGV, KEYS[1], ARGV[1], KEYS[#KEYS], ARGV[#ARGV]}");
  const std::string odd("\0\r\n$3\r\n\xff{}", 10);
  const std::string large(1 << 20, '\0');
  for (const size_t count : {size_t{1}, size_t{23}, size_t{5000}}) {
    std::vector<std::string_view> keys(count, odd);
    std::vector<std::string_view> args(count + 1, std::string_view(large).substr(0, 10));
    keys.back() = "";
    args.back() = large;
    if (count == 1) keys.front() = odd;
    const absl::StatusOr<Reply> reply = scripts_.Run(echo.Call(keys, args), Soon());
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->elements.size(), 6);
    EXPECT_EQ(reply->elements[0].integer, count);
    EXPECT_EQ(reply->elements[1].integer, count + 1);
    EXPECT_EQ(reply->elements[2].text, odd);
    EXPECT_EQ(reply->elements[4].text, keys.back());
    EXPECT_EQ(reply->elements[5].text, large);
  }
}

TEST_F(ScriptsTest, WrongTypesAndMistakesAreStatuses) {
  server_->Command({"LPUSH", "counter", "x"});
  const OwnScript count(*server_, kCount);
  const absl::Status type = scripts_.Run(count.Call(kCounter), Soon()).status();
  EXPECT_EQ(type.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(type.message()), HasSubstr("WRONGTYPE"));
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

TEST_F(ScriptsTest, OutOfMemoryIsAStatusAndRunsNothingTwice) {
  const OwnScript count(*server_, kCount);
  ASSERT_TRUE(scripts_.Run(count.Call(kCounter), Soon()).ok());
  server_->Command({"CONFIG", "SET", "maxmemory", "1"});
  const absl::Status full = scripts_.Run(count.Call(kCounter), Soon()).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("maxmemory"));
  EXPECT_EQ(server_->Text({"GET", "counter"}), "1");
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
    EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied) << denied;
    EXPECT_THAT(std::string(denied.message()), HasSubstr("ACL SETUSER"));
  }
}

}  // namespace
}  // namespace redlatch::redis
