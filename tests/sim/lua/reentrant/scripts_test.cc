
#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

struct ReentrantScripts : LockScriptsFixture {
  ReentrantScripts() : LockScriptsFixture(ReentrantKind()) {}
};

// A server may be suspended between reading the time and writing.
TEST_F(ReentrantScripts, ExpiryDuringScriptLeavesNoKeyWithoutTtl) {
  const auto late = [](const LuaScript& script) {
    constexpr std::string_view kNow = "local now = now_us()\n";
    std::string body(script.body);
    const size_t at = body.find(kNow);
    EXPECT_NE(at, body.npos);
    return body.insert(at + kNow.size(), R"lua(
for i = 1, 100000 do
  local time = redis.call('TIME')
  if time[1] * 1000000 + time[2] > now + 60000 then break end
end
)lua");
  };
  Request request = Manual(For(50, Of('a')));
  Ask(request);
  request.attempt = 2;
  const std::string acquire = late(scripts_.acquire);
  Eval({.body = acquire}, {Gone(request.grant)}, request.Args());
  EXPECT_NE(Pttl(name_), -1) << server_->Command({"HGETALL", name_}).DebugString();

  server_->Command({"DEL", name_});
  Request first = Job('a'), second = Job('b');
  second.lease_ms = 50;
  Ask(first);
  Ask(second);
  const std::string release = late(scripts_.release);
  Eval({.body = release}, {}, {first.grant, "0 0 0", kJob});
  EXPECT_NE(Pttl(name_), -1) << server_->Command({"HGETALL", name_}).DebugString();
}

TEST_F(ReentrantScripts, OwnersWaitersAllGetInWithTheFirst) {
  Ask(Of('x'));
  const Inbox first(*server_, Channel('a')), second(*server_, Channel('b'));
  for (const char client : {'a', 'b'}) EXPECT_EQ(Outcome(Job(client)), "queued");
  server_->Do({"DEL", name_});
  EXPECT_EQ(Outcome(Again(Job('b'))), "granted");
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReentrantScripts, HeartbeatThatCrossedTheGrantLeavesTheQueue) {
  Ask(Of('a'));
  Ask(Of('b'));
  SetRecord(GrantId('a'), Record(GrantId('b')));
  server_->Do({"ZADD", Queue(), "1", GrantId('a')});
  EXPECT_EQ(Outcome(Again(Of('a'))), "granted");
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b')));
}

}  // namespace
}  // namespace redlatch
