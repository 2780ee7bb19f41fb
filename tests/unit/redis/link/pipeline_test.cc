#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/url/url.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

Reply Answer(int64_t value) { return {.type = Reply::Type::kInteger, .integer = value}; }

// An InFlight with its results.
struct Caller {
  explicit Caller(size_t commands) : results(commands, absl::UnknownError("open")) {
    in_flight.results = absl::MakeSpan(results);
  }

  // The result of each command as text, in order.
  std::vector<std::string> Results() const {
    std::vector<std::string> texts;
    for (const auto& result : results) {
      texts.push_back(result.ok() ? result->DebugString() : std::string(result.status().message()));
    }
    return texts;
  }

  InFlight in_flight;
  std::vector<absl::StatusOr<Reply>> results;
};

class PipelineTest : public ::testing::Test {
 protected:
  static Command Numbered(int i) { return Command{"ECHO", std::to_string(i)}; }

  // Appends commands first, first + 1, ... and returns their bytes.
  std::string Append(InFlight& in_flight, int first, int count) {
    std::vector<Command> commands;
    std::string bytes;
    for (int i = first; i < first + count; ++i) {
      commands.push_back(Numbered(i));
      bytes.append(commands.back().bytes());
    }
    pipeline_.Append(commands, in_flight);
    return bytes;
  }

  std::string Take() {
    std::string taken;
    pipeline_.TakeUnsent(taken);
    return taken;
  }

  bool Deliver(int64_t value) { return pipeline_.Deliver(Answer(value), finished_); }

  std::vector<InFlight*> TakeFinished() {
    std::vector<InFlight*> finished(finished_.begin(), finished_.end());
    finished_.clear();
    return finished;
  }

  bool GiveUp(Caller& caller) {
    return pipeline_.Abandon(caller.in_flight, absl::UnavailableError("sent"),
                             absl::UnavailableError("unsent"));
  }

  Pipeline pipeline_;
  Finished finished_;
};

TEST_F(PipelineTest, PairsRepliesWithCommandsInOrder) {
  Caller a(2);
  Caller b(1);
  Append(a.in_flight, 0, 2);
  Append(b.in_flight, 2, 1);
  Take();
  EXPECT_TRUE(Deliver(10));
  EXPECT_THAT(TakeFinished(), ElementsAre());
  EXPECT_TRUE(Deliver(11));
  EXPECT_THAT(TakeFinished(), ElementsAre(&a.in_flight));
  EXPECT_TRUE(Deliver(12));
  EXPECT_THAT(TakeFinished(), ElementsAre(&b.in_flight));
  EXPECT_THAT(a.Results(), ElementsAre("10", "11"));
  EXPECT_THAT(b.Results(), ElementsAre("12"));
  EXPECT_EQ(pipeline_.size(), 0);
}

TEST_F(PipelineTest, RefusesUnexpectedReply) {
  EXPECT_FALSE(Deliver(1));
  Caller a(1);
  Append(a.in_flight, 0, 1);
  EXPECT_FALSE(Deliver(1)) << "it is not sent yet";
  Take();
  EXPECT_TRUE(Deliver(2));
  EXPECT_FALSE(Deliver(3));
  EXPECT_THAT(a.Results(), ElementsAre("2"));
}

TEST_F(PipelineTest, DropsLateReplyToAbandonedCommand) {
  Caller late(2);
  Caller other(1);
  Append(late.in_flight, 0, 2);
  Append(other.in_flight, 2, 1);
  Take();
  EXPECT_TRUE(Deliver(10));
  EXPECT_TRUE(GiveUp(late));
  EXPECT_THAT(late.Results(), ElementsAre("10", "sent"));
  EXPECT_EQ(late.in_flight.open, 0);
  EXPECT_EQ(pipeline_.FirstWaiting(), &other.in_flight);
  EXPECT_TRUE(Deliver(11));
  EXPECT_TRUE(Deliver(12));
  EXPECT_THAT(late.Results(), ElementsAre("10", "sent"));
  EXPECT_THAT(other.Results(), ElementsAre("12"));
  EXPECT_THAT(TakeFinished(), ElementsAre(&other.in_flight));
}

TEST_F(PipelineTest, KeepsOrderWhenManyCommandsAreAbandoned) {
  constexpr int kCallers = 100;
  std::vector<std::unique_ptr<Caller>> callers;
  std::string kept;
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(std::make_unique<Caller>(2));
    const std::string bytes = Append(callers.back()->in_flight, 2 * i, 2);
    if (i % 10 == 3) kept += bytes;
  }
  for (int i = 0; i < kCallers; ++i) {
    if (i % 10 == 3) continue;
    EXPECT_FALSE(GiveUp(*callers[i]));
    EXPECT_THAT(callers[i]->Results(), ElementsAre("unsent", "unsent"));
  }
  EXPECT_EQ(pipeline_.unsent_bytes(), kept.size());
  EXPECT_EQ(pipeline_.size(), 20);
  EXPECT_EQ(pipeline_.FirstWaiting(), &callers[3]->in_flight);
  EXPECT_EQ(Take(), kept);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Deliver(i));
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(callers[10 * i + 3]->Results(),
                ElementsAre(std::to_string(2 * i), std::to_string(2 * i + 1)));
  }
}

TEST_F(PipelineTest, FailsOnlySelectedUnsentCommands) {
  Caller sent(1);
  Caller chosen(2);
  Caller other(1);
  Append(sent.in_flight, 0, 1);
  Take();
  Append(chosen.in_flight, 1, 2);
  const std::string kept = Append(other.in_flight, 3, 1);
  pipeline_.FailUnsent([&](const InFlight* each) { return each == &chosen.in_flight; },
                       absl::PermissionDeniedError("refused"), finished_);
  EXPECT_THAT(TakeFinished(), ElementsAre(&chosen.in_flight));
  EXPECT_THAT(chosen.Results(), ElementsAre("refused", "refused"));
  EXPECT_EQ(pipeline_.size(), 2);
  EXPECT_TRUE(Deliver(10));
  EXPECT_THAT(sent.Results(), ElementsAre("10"));
  EXPECT_EQ(Take(), kept);
}

TEST_F(PipelineTest, PrependKeepsOtherCommands) {
  Caller gone(1);
  Caller waits(1);
  Append(gone.in_flight, 0, 1);
  const std::string kept = Append(waits.in_flight, 1, 1);
  EXPECT_FALSE(GiveUp(gone));
  const Command first = Numbered(2);
  pipeline_.Prepend(first);
  EXPECT_EQ(pipeline_.size(), 2);
  EXPECT_EQ(Take(), absl::StrCat(std::string(first.bytes()), kept));
  EXPECT_TRUE(Deliver(12));
  EXPECT_TRUE(Deliver(11));
  EXPECT_THAT(waits.Results(), ElementsAre("11"));
  EXPECT_EQ(pipeline_.size(), 0);
}

class LostConnectionTest : public PipelineTest {
 protected:
  void Lose(const std::string& rest) {
    pipeline_.ConnectionLost(rest, absl::UnavailableError("lost"),
                             absl::UnavailableError("not sent"), finished_);
    EXPECT_FALSE(pipeline_.awaits_reply());
  }
};

TEST_F(LostConnectionTest, UnwrittenCommandsAreUnsentAgainInOrder) {
  Caller written(1);
  Caller first(2);
  Caller second(1);
  Caller third(1);
  Append(written.in_flight, 0, 1);
  std::string rest = Append(first.in_flight, 1, 2);
  rest += Append(second.in_flight, 3, 1);
  Take();
  const std::string waits = Append(third.in_flight, 4, 1);
  Lose(rest);
  EXPECT_THAT(TakeFinished(), ElementsAre(&written.in_flight));
  EXPECT_EQ(pipeline_.FirstWaiting(), &first.in_flight);
  EXPECT_EQ(Take(), rest + waits);
  for (int i = 11; i <= 14; ++i) EXPECT_TRUE(Deliver(i));
  EXPECT_THAT(first.Results(), ElementsAre("11", "12"));
  EXPECT_THAT(second.Results(), ElementsAre("13"));
  EXPECT_THAT(third.Results(), ElementsAre("14"));
}

TEST_F(LostConnectionTest, PartlyWrittenCommandsFail) {
  Caller torn(2);
  Caller unwritten(1);
  const std::string bytes = Append(torn.in_flight, 0, 2);
  const std::string rest = Append(unwritten.in_flight, 2, 1);
  Take();
  Lose(bytes.substr(1) + rest);
  EXPECT_THAT(torn.Results(), ElementsAre("lost", "lost"));
  EXPECT_THAT(TakeFinished(), ElementsAre(&torn.in_flight));
  EXPECT_EQ(Take(), rest);
}

TEST_F(LostConnectionTest, DropsCommandsWithoutWaiter) {
  Caller late(1);
  Caller written(1);
  Caller unsent(1);
  Caller waits(1);
  written.in_flight.done = unsent.in_flight.done = [] {};
  std::string rest = Append(late.in_flight, 0, 1);
  rest += Append(written.in_flight, 1, 1);
  Take();
  EXPECT_TRUE(GiveUp(late));
  Append(unsent.in_flight, 2, 1);
  const std::string kept = Append(waits.in_flight, 3, 1);
  Lose(rest);
  EXPECT_THAT(late.Results(), ElementsAre("sent"));
  EXPECT_THAT(written.Results(), ElementsAre("not sent"));
  EXPECT_THAT(unsent.Results(), ElementsAre("not sent"));
  EXPECT_EQ(pipeline_.size(), 1);
  EXPECT_EQ(Take(), kept);
}

class SpinPolicyTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kLength = absl::Microseconds(80);

  // Makes calls one after another, each answered alone after `latency`. Returns how long it spun.
  absl::Duration Live(absl::Duration latency, int calls) {
    absl::Duration spun;
    for (int i = 0; i < calls; ++i) {
      spun += std::min(spin_.Length(), latency);
      const base::Instant begun = now_;
      now_ = now_ + latency;
      spin_.Received(1);
      spin_.Completed(begun, now_);
    }
    return spun;
  }

  // `reads` reads, each of which brings `replies` replies.
  void ReceiveMany(size_t replies, int reads) {
    for (int i = 0; i < reads; ++i) spin_.Received(replies);
  }

  base::Instant now_ = base::Instant::FromNanos(1'000'000'000);
  SpinPolicy spin_{kLength};
};

TEST_F(SpinPolicyTest, NeverSpinsWithoutLength) {
  SpinPolicy off(absl::ZeroDuration());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(off.Length(), absl::ZeroDuration());
    off.Received(64);
    off.Completed(now_, now_ + absl::Microseconds(10));
  }
}

TEST_F(SpinPolicyTest, CostsAlmostNothingIfServerIsSlow) {
  const absl::Duration spun = Live(absl::Milliseconds(50), 1000);
  EXPECT_LT(spun, 1000 * absl::Milliseconds(50) * 0.0005);
}

TEST_F(SpinPolicyTest, SpinsLongerForManyCallers) {
  ReceiveMany(64, 100);
  EXPECT_GT(spin_.Length(), 10 * kLength);
  EXPECT_LT(spin_.Length(), absl::Milliseconds(2));
}

TEST_F(SpinPolicyTest, OccasionalPairDoesNotCountAsMany) {
  for (int i = 0; i < 100; ++i) {
    ReceiveMany(2, 1);
    ReceiveMany(1, 4);
    ASSERT_EQ(spin_.Length(), kLength);
  }
}

TEST_F(SpinPolicyTest, SlowLoneCallsDoNotAffectManyCallers) {
  Live(absl::Milliseconds(50), 100);
  EXPECT_EQ(spin_.Length(), absl::ZeroDuration());
  ReceiveMany(64, 100);
  EXPECT_GT(spin_.Length(), absl::ZeroDuration());
}

constexpr absl::Duration kSpin = absl::Microseconds(80);

// A single thread makes `calls` calls; returns true if it is eager after them.
bool EagerAfter(int calls, absl::Duration eager, absl::Duration patient, bool in_vain) {
  SpinPolicy policy(kSpin);
  base::Instant now;
  for (int i = 0; i < calls; ++i) {
    const base::Instant begun = now;
    policy.Begun();
    const absl::Duration length = policy.Length();
    if (length > absl::ZeroDuration() && in_vain) policy.InVain(length);
    now = now + (length > absl::ZeroDuration() ? eager : patient);
    policy.Received(1);
    policy.Completed(begun, now);
  }
  return policy.Length() > absl::ZeroDuration();
}

TEST(SpinPolicy, StaysEagerIfThatIsFaster) {
  const auto eager_after = [](int eager_us, int patient_us, bool in_vain) {
    return EagerAfter(100, absl::Microseconds(eager_us), absl::Microseconds(patient_us), in_vain);
  };
  EXPECT_TRUE(eager_after(40, 60, /*in_vain=*/false));
  EXPECT_FALSE(eager_after(100, 120, /*in_vain=*/true)) << "the reply comes after the spin";
  EXPECT_TRUE(eager_after(100, 300, /*in_vain=*/true)) << "sleep is very long";
}

TEST(SpinPolicy, ChargesSpinOnlyToTheThreadThatSpun) {
  SpinPolicy policy(kSpin);
  base::Instant now;
  for (int i = 0; i < 100; ++i) {
    policy.Begun();
    policy.InVain(kSpin);  // a call that got no reply
    policy.Begun();
    const base::Instant begun = now;
    now = now + (policy.Length() > absl::ZeroDuration() ? absl::Microseconds(40)
                                                        : absl::Microseconds(60));
    policy.Received(1);
    policy.Completed(begun, now);
  }
  EXPECT_GT(policy.Length(), absl::ZeroDuration());
}

TEST(Scripts, SendsTextOfEachUnknownScriptInBatch) {
  support::FakeServer server(support::FakeServer::Polite);  // it knows no script by its hash
  SharedConnection connection(*ParseUrl(server.url()));
  const LuaScript script{.name = "test/script", .body = "return 1", .sha1 = "e0e1f9fabfc9d4800c87"};
  const std::vector<ScriptCall> calls(3, ScriptCall{.script = &script, .keys = {}, .args = {}});
  std::vector<absl::StatusOr<Reply>> replies(calls.size());
  ScriptServer known(&connection);
  ScriptRunner(known).Run(calls, base::Now() + absl::Seconds(10), absl::MakeSpan(replies));
  for (const auto& reply : replies) {
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->integer, 1);
  }
}

}  // namespace
}  // namespace redlatch::redis
