#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/redis/link/connection.h"
#include "src/redis/link/script_runner.h"
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
  std::string bytes;  // of its commands
};

struct PipelineTest : ::testing::Test {
  static Command Numbered(int i) { return Command{"ECHO", std::to_string(i)}; }

  // Appends that many commands: first, first + 1, ...
  Caller& Call(int first, int count) {
    Caller& caller = callers_.emplace_back(count);
    std::vector<Command> commands;
    for (int i = first; i < first + count; ++i) {
      commands.push_back(Numbered(i));
      caller.bytes.append(commands.back().bytes());
    }
    pipeline_.Append(commands, caller.in_flight);
    return caller;
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

  std::deque<Caller> callers_;
  Pipeline pipeline_;
  Finished finished_;
};

TEST_F(PipelineTest, PairsRepliesWithCommandsInOrder) {
  Caller& a = Call(0, 2);
  Caller& b = Call(2, 1);
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
  Caller& a = Call(0, 1);
  EXPECT_FALSE(Deliver(1)) << "it is not sent yet";
  Take();
  EXPECT_TRUE(Deliver(2));
  EXPECT_FALSE(Deliver(3));
  EXPECT_THAT(a.Results(), ElementsAre("2"));
}

Reply Push(const std::string& kind, const std::string& channel) {
  const auto text = [](const std::string& its) {
    return Reply{.type = Reply::Type::kString, .text = its};
  };
  return {.type = Reply::Type::kPush, .elements = {text(kind), text(channel), Answer(1)}};
}

Reply Error() { return {.type = Reply::Type::kError, .text = "BUSY"}; }

TEST_F(PipelineTest, SubscriptionIsAnsweredByPushOrError) {
  for (const bool refused : {false, true}) {
    Caller& a = Call(0, 1);
    ASSERT_TRUE(pipeline_.AppendAbout(Pipeline::About::kSubscribe, "c", false, nullptr));
    Caller& b = Call(1, 1);
    Take();
    EXPECT_FALSE(pipeline_.Deliver(Push("subscribe", "c"), finished_)) << "it is not its turn";
    EXPECT_EQ(pipeline_.NextAbout(Pipeline::About::kSubscribe), nullptr);
    EXPECT_TRUE(Deliver(10));
    EXPECT_EQ(*pipeline_.NextAbout(Pipeline::About::kSubscribe), "c");
    EXPECT_FALSE(Deliver(11));
    EXPECT_FALSE(pipeline_.Deliver(Push("subscribe", "d"), finished_));
    EXPECT_TRUE(pipeline_.Deliver(refused ? Error() : Push("subscribe", "c"), finished_));
    EXPECT_TRUE(Deliver(11));
    EXPECT_THAT(a.Results(), ElementsAre("10"));
    EXPECT_THAT(b.Results(), ElementsAre("11"));
  }
}

// The push that answers it may also have been sent unasked, so it does not count.
TEST_F(PipelineTest, EndOfSubscriptionIsAnsweredByHello) {
  const Reply hello{.type = Reply::Type::kArray};
  for (const bool refused : {false, true}) {
    ASSERT_TRUE(pipeline_.AppendAbout(Pipeline::About::kUnsubscribe, "c", true, nullptr));
    Caller& a = Call(0, 1);
    Take();
    if (refused) {
      EXPECT_TRUE(pipeline_.Deliver(Error(), finished_));
    }
    EXPECT_TRUE(pipeline_.Deliver(hello, finished_));
    EXPECT_TRUE(Deliver(10));
    EXPECT_THAT(a.Results(), ElementsAre("10"));
  }
  ASSERT_TRUE(pipeline_.AppendAbout(Pipeline::About::kUnsubscribe, "c", true, nullptr));
  Take();
  EXPECT_TRUE(pipeline_.Deliver(Error(), finished_));
  EXPECT_FALSE(pipeline_.Deliver(Error(), finished_)) << "which reply is whose is not known";
}

TEST_F(PipelineTest, DropsLateReplyToAbandonedCommand) {
  Caller& late = Call(0, 2);
  Caller& other = Call(2, 1);
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
  std::vector<Caller*> callers;
  std::string kept;
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(&Call(2 * i, 2));
    if (i % 10 == 3) kept += callers.back()->bytes;
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
  Caller& sent = Call(0, 1);
  Take();
  Caller& chosen = Call(1, 2);
  Caller& other = Call(3, 1);
  pipeline_.FailUnsent([&](const InFlight* each) { return each == &chosen.in_flight; },
                       absl::PermissionDeniedError("refused"), finished_);
  EXPECT_THAT(TakeFinished(), ElementsAre(&chosen.in_flight));
  EXPECT_THAT(chosen.Results(), ElementsAre("refused", "refused"));
  EXPECT_EQ(pipeline_.size(), 2);
  EXPECT_TRUE(Deliver(10));
  EXPECT_THAT(sent.Results(), ElementsAre("10"));
  EXPECT_EQ(Take(), other.bytes);
}

TEST_F(PipelineTest, PrependKeepsOtherCommands) {
  Caller& gone = Call(0, 1);
  Caller& waits = Call(1, 1);
  EXPECT_FALSE(GiveUp(gone));
  const Command first = Numbered(2);
  pipeline_.Prepend(first);
  EXPECT_EQ(pipeline_.size(), 2);
  EXPECT_EQ(Take(), absl::StrCat(std::string(first.bytes()), waits.bytes));
  EXPECT_TRUE(Deliver(12));
  EXPECT_TRUE(Deliver(11));
  EXPECT_THAT(waits.Results(), ElementsAre("11"));
  EXPECT_EQ(pipeline_.size(), 0);
}

struct LostConnectionTest : PipelineTest {
  void Lose(const std::string& rest) {
    pipeline_.ConnectionLost(rest, absl::UnavailableError("lost"),
                             absl::UnavailableError("not sent"), finished_);
    EXPECT_FALSE(pipeline_.awaits_reply());
  }
};

TEST_F(LostConnectionTest, UnwrittenCommandsAreUnsentAgainInOrder) {
  Caller& written = Call(0, 1);
  Caller& first = Call(1, 2);
  Caller& second = Call(3, 1);
  const std::string rest = first.bytes + second.bytes;
  Take();
  Caller& third = Call(4, 1);
  Lose(rest);
  EXPECT_THAT(TakeFinished(), ElementsAre(&written.in_flight));
  EXPECT_EQ(pipeline_.FirstWaiting(), &first.in_flight);
  EXPECT_EQ(Take(), rest + third.bytes);
  for (int i = 11; i <= 14; ++i) EXPECT_TRUE(Deliver(i));
  EXPECT_THAT(first.Results(), ElementsAre("11", "12"));
  EXPECT_THAT(second.Results(), ElementsAre("13"));
  EXPECT_THAT(third.Results(), ElementsAre("14"));
}

TEST_F(LostConnectionTest, PartlyWrittenCommandsFail) {
  Caller& torn = Call(0, 2);
  Caller& unwritten = Call(2, 1);
  Take();
  Lose(torn.bytes.substr(1) + unwritten.bytes);
  EXPECT_THAT(torn.Results(), ElementsAre("lost", "lost"));
  EXPECT_THAT(TakeFinished(), ElementsAre(&torn.in_flight));
  EXPECT_EQ(Take(), unwritten.bytes);
}

TEST_F(LostConnectionTest, DropsCommandsWithoutWaiter) {
  Caller& late = Call(0, 1);
  Caller& written = Call(1, 1);
  Take();
  EXPECT_TRUE(GiveUp(late));
  Caller& unsent = Call(2, 1);
  const Caller& waits = Call(3, 1);
  written.in_flight.done = unsent.in_flight.done = [] {};
  Lose(late.bytes + written.bytes);
  EXPECT_THAT(late.Results(), ElementsAre("sent"));
  EXPECT_THAT(written.Results(), ElementsAre("not sent"));
  EXPECT_THAT(unsent.Results(), ElementsAre("not sent"));
  EXPECT_EQ(pipeline_.size(), 1);
  EXPECT_EQ(Take(), waits.bytes);
}

struct SpinPolicyTest : ::testing::Test {
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
  Connection connection(*ParseUrl(server.url()));
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
