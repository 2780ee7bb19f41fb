// What the tests of the latch's scripts share.
#ifndef REDLATCH_TESTS_SIM_LUA_LATCH_FIXTURE_H_
#define REDLATCH_TESTS_SIM_LUA_LATCH_FIXTURE_H_

#include "absl/strings/str_join.h"
#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {

inline constexpr char kGranted[] = "[\"granted\", 0, 30000, 0]";
inline constexpr int kTtlMs = 60000;

struct LatchScripts : LockScriptsFixture {
  LatchScripts() : LockScriptsFixture(LatchKind()) {}

  std::string Counted() const { return "{" + name_ + "}:counted"; }

  // The latch that client `a` made as its first; another where `made` is another number.
  static std::string Incarnation(int made = 1) { return GrantId('a', made); }
  static std::string Of(const std::string& incarnation, int ttl_ms = kTtlMs) {
    return absl::StrCat("latch:", ttl_ms, ":", incarnation);
  }
  // One that waits.
  static Request Waiter(char client, int sequence = 1,
                        const std::string& incarnation = Incarnation()) {
    return {.grant = GrantId(client, sequence), .owner = Of(incarnation)};
  }
  // What a script answers, as it is.
  std::string Say(const LuaScript& script, const std::vector<std::string>& args) {
    return ScriptServer::TextOf(
        server_->Eval(script, {name_, Queue(), Waiters(), Fence(), Counted()}, args));
  }
  std::string Create(int64_t total, const std::string& incarnation = Incarnation(),
                     int ttl_ms = kTtlMs) {
    return Say(lua::kLatchCreate, {absl::StrCat(total), absl::StrCat(ttl_ms), incarnation});
  }
  // The count, and notes; when it counted is then in when_.
  std::string CountDown(const std::string& id, int64_t n = 1,
                        const std::string& incarnation = Incarnation()) {
    return WithoutWhen(Say(lua::kLatchCountDown, {Of(incarnation), id, absl::StrCat(n)}));
  }
  // As a client repeats it that was told when it counted.
  std::string Repeat(const std::string& id, const std::string& when, int64_t n = 1) {
    return WithoutWhen(Say(lua::kLatchCountDown, {Of(Incarnation()), id, absl::StrCat(n), when}));
  }
  std::string WithoutWhen(const std::string& reply) {
    std::vector<std::string> words = absl::StrSplit(reply, ' ');
    if (words[0] == "GONE" || words[0] == "REFUSED" || words.size() < 2) return reply;
    if (reply.find_first_not_of("0123456789") != words[0].size()) return reply;  // an error
    when_ = words[1];
    words.erase(words.begin() + 1);
    return absl::StrJoin(words, " ");
  }
  std::string Count(const std::string& incarnation = Incarnation()) {
    return Say(lua::kLatchCount, {Of(incarnation)});
  }
  static std::string Made(int64_t count, const std::string& incarnation = Incarnation()) {
    return absl::StrCat(incarnation, " ", count);
  }
  // What is stored of the latch and of the ids that counted.
  std::vector<std::string> Stored() {
    std::vector<std::string> stored;
    for (const std::string& key : {name_, Counted(), Queue(), Waiters()}) {
      stored.push_back(server_->Text({"DUMP", key}));
    }
    return stored;
  }
  int64_t Keys() { return server_->Integer({"DBSIZE"}); }

  // Waiters that came first, subscribed to that channel.
  void MakeWaiters(int count, const std::string& channel,
                   const std::string& incarnation = Incarnation()) {
    MakeWaitersIn(Queue(), Waiter('x', 1, incarnation), count, channel);
  }
  std::string when_;  // of the last CountDown()

  // The next message, except those that report a count.
  static std::string NextGrant(Inbox& inbox) {
    std::string message = inbox.Next();
    while (absl::StartsWith(message, "look ")) message = inbox.Next();
    return message;
  }
  // How many grants there are on that channel.
  static int Grants(Inbox& inbox) {
    int grants = 0;
    while (absl::StartsWith(NextGrant(inbox), "grant ")) ++grants;
    return grants;
  }
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_LATCH_FIXTURE_H_
