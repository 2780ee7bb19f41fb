// What a quorum sends to a node that did not answer, was down, or has lost a grant.
#include <mutex>

#include "src/redis/wire/errors.h"
#include "tests/support/await.h"
#include "tests/unit/quorum/fake_node.h"

namespace redlatch::quorum {
namespace {

using Reply = absl::StatusOr<redis::Reply>;

redis::Reply Text(std::string text) {
  return {.type = redis::Reply::Type::kString, .text = std::move(text)};
}

// A script that a node has run.
struct Ran {
  std::string script;
  std::vector<std::string> args;
  bool refused = false;
};

// A node that grants what it is asked for, unless a test says otherwise.
class Server {
 public:
  std::atomic<bool> up{true};
  std::atomic<bool> falls{false};  // it goes down with the next script
  std::atomic<int> refusals{0};    // how many times it will say BUSY if it is told of an end
  std::atomic<bool> keeps{false};  // the next acquire goes unanswered until it breaks

  void Answer(const LuaScript& script, Reply reply) {
    const std::lock_guard lock(mu_);
    answers_.insert_or_assign(std::string(script.name), std::move(reply));
  }
  std::vector<Ran> ran() const {
    const std::lock_guard lock(mu_);
    return ran_;
  }
  void Break() {
    late_->results[0] = redis::MarkMayHaveExecuted(absl::UnavailableError("cut"));
    std::exchange(late_->done, nullptr)();
  }
  bool HasRun(const LuaScript& script) const {
    const std::vector<Ran> all = ran();
    return std::any_of(all.begin(), all.end(),
                       [&](const Ran& each) { return each.script == script.name; });
  }
  // Returns true if it was told that a hold has ended.
  bool WasTold(std::string_view hold) const {
    const std::vector<Ran> all = ran();
    return std::any_of(all.begin(), all.end(), [&](const Ran& each) {
      return Tells(each) && each.args[0] == hold && !each.refused;
    });
  }

  FakeNodeEvents Events() {
    FakeNodeEvents events;
    events.connect = [this] { return Reachable(); };
    events.run = [this](const redis::ScriptCall& call) { return Run(call); };
    events.keeps = [this](const redis::ScriptCall& call, redis::InFlight& in_flight) {
      if (call.script->name != lua::kQuorumAcquire.name || !keeps.exchange(false)) return false;
      late_ = &in_flight;
      return true;
    };
    return events;
  }

 private:
  absl::Status Reachable() const {
    return up ? absl::OkStatus() : absl::UnavailableError("it is down");
  }

  static bool Tells(const Ran& ran) {
    return ran.script == lua::kQuorumRelease.name || ran.script == lua::kQuorumCancel.name;
  }

  Reply Run(const redis::ScriptCall& call) {
    Ran ran{.script = std::string(call.script->name), .args = {call.args.begin(), call.args.end()}};
    ran.refused = Tells(ran) && refusals-- > 0;
    const std::lock_guard lock(mu_);
    if (falls.exchange(false)) up = false;
    ran_.push_back(ran);
    if (ran.refused) return redis::Reply{.type = redis::Reply::Type::kError, .text = "BUSY"};
    const auto its = answers_.find(ran.script);
    return its != answers_.end() ? its->second : Text(UsualAnswer(*call.script, ran.args));
  }

  static std::string UsualAnswer(const LuaScript& script, const std::vector<std::string>& args) {
    if (script.name == lua::kQuorumAcquire.name) return "granted " + args.back() + " 30000 0 1";
    if (script.name == lua::kQuorumRenew.name) return "held";
    if (script.name == lua::kQuorumRelease.name) return "released";
    return script.name == lua::kQuorumRaise.name ? "raised" : "unknown";
  }

  mutable std::mutex mu_;
  std::map<std::string, Reply> answers_;
  std::vector<Ran> ran_;
  redis::InFlight* late_ = nullptr;
};

struct QuorumAftermath : FakeQuorumTest {
  bool Acquires(uint32_t tokens = 1, bool wait = false) {
    const Result result =
        Run(*quorum_, internal::AcquireRequest{.grant = 7,
                                               .terms = {.lease = absl::Seconds(30)},
                                               .attempt = 5,
                                               .wait = wait,
                                               .amount = tokens});
    return std::holds_alternative<internal::AcquireGranted>(result.acquire());
  }
  bool Releases() {
    return std::holds_alternative<internal::Freed>(Run(*quorum_, internal::ReleaseRequest()).what);
  }

  // A cancellation refuses later requests; a release would not.
  void ExpectRefusal(const Ran& told) {
    ASSERT_EQ(told.script, lua::kQuorumCancel.name);
    EXPECT_EQ(told.args[0], grant_);
    EXPECT_GE(std::stoll(told.args[1]), 20'000);
  }

  std::array<Server, 3> servers_;
  Server& last_ = servers_[2];
  std::unique_ptr<internal::QuorumRunner> quorum_ =
      Quorum::Make({.name = "redlock:nowhere",
                    .servers = 3,
                    .make =
                        [this](size_t node, const redis::ServerGroup::Events&) {
                          return std::make_unique<FakeNode>(servers_[node].Events());
                        }},
                   {.on_message = [](std::string_view) {},
                    .on_reconnected = [] {},
                    .on_subscribed = [](bool, std::string_view) {}});
};

TEST_F(QuorumAftermath, LateNodeIsToldToRefuse) {
  last_.Answer(lua::kQuorumAcquire, redis::MarkMayHaveExecuted(absl::UnavailableError("cut")));
  EXPECT_TRUE(Acquires());
  EXPECT_TRUE(Releases());
  ExpectRefusal(last_.ran().back());
  EXPECT_EQ(servers_[0].ran().back().script, lua::kQuorumRelease.name);
}

TEST_F(QuorumAftermath, LateNodeIsToldToRefuseFailedTry) {
  servers_[0].Answer(lua::kQuorumAcquire, Text("busy 1000"));
  last_.Answer(lua::kQuorumAcquire, redis::MarkMayHaveExecuted(absl::UnavailableError("cut")));
  EXPECT_FALSE(Acquires());
  ExpectRefusal(last_.ran().back());
}

TEST_F(QuorumAftermath, NodeWhoseConnectionBreaksAfterReleaseIsToldToRefuse) {
  last_.keeps = true;
  EXPECT_TRUE(Acquires());
  EXPECT_TRUE(Releases());
  EXPECT_FALSE(last_.HasRun(lua::kQuorumCancel));
  last_.Break();
  ASSERT_TRUE(support::Await([this] { return last_.HasRun(lua::kQuorumCancel); }));
  ExpectRefusal(last_.ran().back());
}

TEST_F(QuorumAftermath, NodesRaiseTheirFenceToTheLastTokenOfABlock) {
  for (size_t i = 0; i < 3; ++i) {
    servers_[i].Answer(lua::kQuorumAcquire, Text(absl::StrCat("granted ", 50 + i, " 30000 0 1")));
  }
  EXPECT_TRUE(Acquires(/*tokens=*/5));
  for (const Server& each : servers_) {
    ASSERT_EQ(each.ran().back().script, lua::kQuorumRaise.name);
    EXPECT_EQ(each.ran().back().args[1], "56");
  }
}

TEST_F(QuorumAftermath, NodeThatReturnsDoesNotQueueGrantThatHasEnded) {
  servers_[0].Answer(lua::kQuorumAcquire, Text("granted 50 30000 0 1"));
  servers_[1].Answer(lua::kQuorumAcquire, Text("queued 30000 0 9"));
  last_.Answer(lua::kQuorumAcquire, redis::MarkMayHaveExecuted(absl::UnavailableError("cut")));
  last_.falls = true;
  EXPECT_FALSE(Acquires(1, /*wait=*/true));
  EXPECT_THAT(servers_[0].ran().back().args.back(), ::testing::EndsWith(" queue"));
  Run(*quorum_, internal::CancelRequest());
  last_.up = true;
  EXPECT_TRUE(support::Await([this] { return last_.WasTold(grant_); }));
  for (const Ran& each : last_.ran())
    EXPECT_THAT(each.args.back(), Not(::testing::EndsWith(" queue")));
}

TEST_F(QuorumAftermath, ForcedGrantIsRefusedAsLongAsAnyNodeWouldHaveHadIt) {
  for (size_t i = 0; i < 3; ++i) {
    redis::Reply reply{.type = redis::Reply::Type::kArray};
    reply.elements = {Text("released"), {}, Text(grant_), {}};
    reply.elements[3].integer = i == 0 ? 20'000 : 10;
    servers_[i].Answer(lua::kQuorumForceRelease, std::move(reply));
  }
  const std::vector<std::string> channels = {""};
  EXPECT_TRUE(quorum_
                  ->RunScript(subject_, lua::kQuorumForceRelease, channels, "",
                              base::Now() + absl::Seconds(10))
                  .ok());
  for (const Server& each : servers_) ExpectRefusal(each.ran().back());
}

TEST_F(QuorumAftermath, CancelOfRoundNamesItsAttempt) {
  servers_[0].Answer(lua::kQuorumAcquire, Text("granted 50 30000 0 1"));
  servers_[1].Answer(lua::kQuorumAcquire, Text("gone"));
  last_.Answer(lua::kQuorumAcquire, Text("gone"));
  EXPECT_FALSE(Acquires(1, /*wait=*/true));
  const Ran cancel = servers_[0].ran().back();
  EXPECT_EQ(cancel.script, lua::kQuorumCancel.name);
  EXPECT_EQ(cancel.args.back(), "5") << "a later attempt stays";
}

// The last node may still execute the first round's request, which was sent over a broken
// connection.
TEST_F(QuorumAftermath, NodeThatLostEarlierRoundIsToldToRefuseForcedGrant) {
  servers_[0].Answer(lua::kQuorumAcquire, Text("queued 30000 0 9"));
  servers_[1].Answer(lua::kQuorumAcquire, Text("queued 30000 0 9"));
  last_.Answer(lua::kQuorumAcquire, redis::MarkMayHaveExecuted(absl::UnavailableError("cut")));
  EXPECT_FALSE(Acquires(1, /*wait=*/true));
  servers_[0].Answer(lua::kQuorumAcquire, Text("gone"));
  servers_[1].Answer(lua::kQuorumAcquire, Text("gone"));
  last_.Answer(lua::kQuorumAcquire, Text("queued 30000 0 9"));
  EXPECT_FALSE(Acquires(1, /*wait=*/true));
  ExpectRefusal(last_.ran().back());
}

TEST_F(QuorumAftermath, ReconnectedNodeIsToldOfRelease) {
  EXPECT_TRUE(Acquires());
  last_.up = false;
  EXPECT_TRUE(Releases());
  EXPECT_FALSE(last_.WasTold(grant_));
  last_.up = true;
  EXPECT_TRUE(support::Await([this] { return last_.WasTold(grant_); }));
}

TEST_F(QuorumAftermath, LastReleaseIsRepeatedAtNodeThatRefusedIt) {
  EXPECT_TRUE(Acquires());
  last_.refusals = 2;
  EXPECT_TRUE(Releases());
  EXPECT_TRUE(support::Await([this] { return last_.refusals <= 0; }));
  quorum_.reset();  // before the third attempt is due
  EXPECT_TRUE(last_.WasTold(grant_));
}

TEST_F(QuorumAftermath, NodeThatLostGrantIsHealed) {
  EXPECT_TRUE(Acquires(/*tokens=*/5));
  const int64_t token = std::stoll(last_.ran().back().args.back());
  last_.Answer(lua::kQuorumRenew, Text("not_held"));
  EXPECT_TRUE(
      std::holds_alternative<internal::StillHeld>(Run(*quorum_, internal::RenewRequest()).what));
  const Ran healed = last_.ran().back();
  ASSERT_EQ(healed.script, lua::kQuorumRaise.name);
  ASSERT_EQ(healed.args.size(), 4U);
  EXPECT_EQ(healed.args[0], grant_);
  EXPECT_EQ(healed.args[1], absl::StrCat(token + 4)) << "the last one of the block";
  EXPECT_GT(std::stoll(healed.args[2]), 0);
  EXPECT_EQ(healed.args[3], "5");
  EXPECT_EQ(servers_[0].ran().back().script, lua::kQuorumRenew.name);
}

TEST_F(QuorumAftermath, NodeThatDidNotAnswerHealIsToldToRefuse) {
  EXPECT_TRUE(Acquires());
  last_.Answer(lua::kQuorumRenew, Text("not_held"));
  last_.Answer(lua::kQuorumRaise, redis::MarkMayHaveExecuted(absl::UnavailableError("cut")));
  Run(*quorum_, internal::RenewRequest());
  ASSERT_TRUE(last_.HasRun(lua::kQuorumRaise));
  EXPECT_TRUE(Releases());
  ExpectRefusal(last_.ran().back());
}

TEST_F(QuorumAftermath, NodeThatReturnsIsNotHealedAfterRelease) {
  EXPECT_TRUE(Acquires());
  last_.Answer(lua::kQuorumRenew, Text("not_held"));
  last_.falls = true;
  Run(*quorum_, internal::RenewRequest());
  EXPECT_TRUE(Releases());
  last_.up = true;
  EXPECT_TRUE(support::Await([this] { return last_.WasTold(grant_); }));
  EXPECT_FALSE(last_.HasRun(lua::kQuorumRaise));
}

}  // namespace
}  // namespace redlatch::quorum
