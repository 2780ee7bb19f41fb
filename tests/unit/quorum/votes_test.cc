// A waiter of a quorum whose nodes vote for it by message.
#include "absl/strings/str_split.h"
#include "src/redis/wire/errors.h"
#include "tests/unit/quorum/fake_node.h"

namespace redlatch::quorum {
namespace {

constexpr size_t kNodes = 3;

// Three nodes that queue each acquire, unless a test says otherwise.
struct QuorumVotes : FakeQuorumTest {
  std::unique_ptr<redis::ServerGroup> Make(size_t node, const redis::ServerGroup::Events& events) {
    tell_[node] = events.on_message;
    FakeNodeEvents its;
    its.connect = [] { return absl::OkStatus(); };
    its.run = [this, node](const redis::ScriptCall& call) { return Reply(node, call); };
    return std::make_unique<FakeNode>(its);
  }
  absl::StatusOr<redis::Reply> Reply(size_t node, const redis::ScriptCall& call) {
    if (call.script->name == lua::kQuorumRaise.name) raised_to_ = std::string(call.args[1]);
    const std::vector<std::string> last = absl::StrSplit(std::string(call.args.back()), ' ');
    if (last.back() == "queue" || last.back() == "yield") {
      ++given_back_[node];
    } else if (last.size() == 2) {
      secrets_[node] = std::string(last[1]);
    }
    const std::string text = meanwhile_ ? meanwhile_(node) : "queued 30000 0 9";
    if (text == "silence") return redis::MarkMayHaveExecuted(absl::UnavailableError("no answer"));
    return redis::Reply{.type = redis::Reply::Type::kString, .text = text};
  }

  internal::AcquireResult Asks(internal::Terms terms = {.lease = absl::Seconds(30)}) {
    return Run(quorum_, internal::AcquireRequest{.grant = 7,
                                                 .terms = std::move(terms),
                                                 .attempt = ++attempt_,
                                                 .wait = true,
                                                 .amount = tokens_})
        .acquire();
  }
  // A message on the channel of that node.
  void Tell(size_t node, uint32_t attempt, uint64_t token, const std::string& secret,
            int claim_ms = 2000) {
    tell_[node](absl::StrCat("vote ", grant_, " ", attempt, " ", token, " ", claim_ms, " 1 17 ",
                             secret, " two words"));
  }
  void Votes(size_t node, uint64_t token) { Tell(node, attempt_, token, secrets_[node]); }

  std::function<std::string(size_t)> meanwhile_;
  std::array<std::function<void(std::string_view)>, kNodes> tell_;
  std::array<std::string, kNodes> secrets_;
  std::array<int, kNodes> given_back_ = {};
  std::string raised_to_;  // the last node whose fence was raised
  uint32_t tokens_ = 1;
  uint32_t attempt_ = 0;
  std::vector<std::string> told_;
  Quorum quorum_{{.name = "redlock:nowhere",
                  .servers = kNodes,
                  .make = [this](size_t node,
                                 redis::ServerGroup::Events events) { return Make(node, events); }},
                 {.on_message = [this](std::string_view text) { told_.emplace_back(text); },
                  .on_reconnected = [] {},
                  .on_subscribed = [](bool, std::string_view) {}}};
};

TEST_F(QuorumVotes, MajorityIsToldAsOneGrant) {
  EXPECT_TRUE(std::holds_alternative<internal::AcquireQueued>(Asks()));
  Tell(2, 1, 50, secrets_[2], /*claim_ms=*/8000);  // the shorter one counts
  EXPECT_THAT(told_, ElementsAre("vote " + grant_ + " two words"));
  told_.clear();
  Votes(0, 50);
  EXPECT_THAT(told_, ElementsAre("grant " + grant_ + " 1 50 2000 1 two words"));
  told_.clear();
  Votes(1, 50);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(QuorumVotes, SecretOfOtherNodeProvesNothing) {
  Asks();
  Votes(0, 50);
  told_.clear();
  Tell(1, 1, 50, secrets_[0]);
  Tell(1, 1, 50, "0123456789abcdef");
  Tell(1, 1, 50, "");
  Tell(1, 2, 50, secrets_[1]);
  tell_[1]("grant " + grant_ + " 1 50 2000 1 two words");
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(QuorumVotes, DifferentTokensMakeTheClientAsk) {
  Asks();
  Votes(0, 50);
  told_.clear();
  Votes(1, 51);
  EXPECT_THAT(told_, ElementsAre("look " + grant_ + " two words"));
}

TEST_F(QuorumVotes, VotesByMessageAndByReplyAddUp) {
  meanwhile_ = [&](size_t node) {
    if (node == 2) Votes(0, 50);  // after node 0 has queued it
    return node == 2 ? "granted 50 30000 0 17" : "queued 30000 0 9";
  };
  const internal::AcquireResult result = Asks();
  const auto* const granted = std::get_if<internal::AcquireGranted>(&result);
  ASSERT_NE(granted, nullptr);
  EXPECT_EQ(granted->token, 50U);
  EXPECT_EQ(granted->lease, absl::Seconds(2));
  EXPECT_TRUE(granted->claimed) << "it must be confirmed";
  EXPECT_EQ(given_back_[2], 0);
}

TEST_F(QuorumVotes, VoteOfGivenBackAttemptIsNotCounted) {
  meanwhile_ = [](size_t node) { return node == 2 ? "granted 50 30000 0 17" : "queued 30000 0 9"; };
  EXPECT_TRUE(std::holds_alternative<internal::AcquireQueued>(Asks()));
  EXPECT_EQ(given_back_[2], 1);
  Votes(2, 50);
  Votes(0, 50);
  EXPECT_THAT(told_, Not(Contains(StartsWith("grant "))));
}

TEST_F(QuorumVotes, HealedNodeKnowsLastTokenOfBlock) {
  tokens_ = 5;
  Asks();
  Votes(2, 50);
  Votes(0, 50);
  meanwhile_ = [](size_t node) { return node == 1 ? "not_held" : "held"; };
  Run(quorum_, internal::RenewRequest());
  EXPECT_EQ(raised_to_, "54");
}

TEST_F(QuorumVotes, RoundThatFailsDoesNotQueueGrantThatHasEnded) {
  meanwhile_ = [&](size_t node) {
    if (node == 2) meanwhile_ = nullptr, Run(quorum_, internal::CancelRequest());
    return node == 2 ? "granted 50 30000 0 17" : "queued 30000 0 9";
  };
  Asks();
  EXPECT_THAT(given_back_, Each(0));
}

TEST_F(QuorumVotes, GrantByMessageIsNotGivenBackByRoundThatFails) {
  Asks();
  const std::array<std::string, kNodes> first = secrets_;
  meanwhile_ = [&](size_t node) {
    for (const size_t other : {0, 1}) {
      if (node == 2) Tell(other, 1, 50, first[other]);
    }
    return node == 2 ? "granted 51 30000 0 17" : "queued 30000 0 9";
  };
  Asks();
  EXPECT_THAT(told_, Contains("grant " + grant_ + " 1 50 2000 1 two words"));
  EXPECT_EQ(given_back_[2], 0);
}

TEST_F(QuorumVotes, GrantByMessageIsNotGivenBackByLaterRoundsThatFail) {
  Asks();
  for (const size_t node : {0, 1}) Votes(node, 50);
  for (const char* const others : {"queued 30000 0 9", "silence"}) {
    meanwhile_ = [&](size_t node) { return node == 2 ? "granted 51 30000 0 17" : others; };
    Asks();
    EXPECT_THAT(given_back_, Each(0)) << others;
  }
}

TEST_F(QuorumVotes, ClientThatGotOneNodeAsksAgainSoon) {
  meanwhile_ = [](size_t node) { return node == 2 ? "granted 51 30000 0 17" : "queued 30000 0 9"; };
  const auto wait = [&] { return std::get<internal::AcquireQueued>(Asks()).retry_after; };
  for (int i = 0; i < 6; ++i) EXPECT_LT(wait(), absl::Seconds(1)) << "others may have one each";
  EXPECT_GE(wait(), absl::Seconds(30)) << "another client has the other two";
}

TEST_F(QuorumVotes, GrantByMessageWhoseReleaseWasForcedIsOver) {
  Asks();
  Votes(0, 50);
  Votes(1, 50);
  meanwhile_ = [](size_t) { return "gone"; };
  EXPECT_TRUE(std::holds_alternative<internal::AcquireCancelled>(Asks()));
}

TEST_F(QuorumVotes, RoundEndsWhenMessagesHaveGranted) {
  meanwhile_ = [&](size_t node) {
    if (node == 1) Votes(0, 50);
    if (node == 2) Votes(1, 50);
    return "queued 30000 0 9";
  };
  const internal::AcquireResult result = Asks();
  EXPECT_THAT(told_, Contains("grant " + grant_ + " 1 50 2000 1 two words"));
  const auto* const granted = std::get_if<internal::AcquireGranted>(&result);
  ASSERT_NE(granted, nullptr);
  EXPECT_EQ(granted->lease, absl::ZeroDuration()) << "only the message has granted it";
  // A client that does not trust the message asks again, and goes by the replies.
  meanwhile_ = [](size_t) { return "granted 50 30000 0 17"; };
  const internal::AcquireResult again = Asks();
  ASSERT_TRUE(std::holds_alternative<internal::AcquireGranted>(again));
  EXPECT_EQ(std::get<internal::AcquireGranted>(again).lease, absl::Seconds(30));
}

TEST_F(QuorumVotes, WholeLeaseIsAskedFor) {
  Asks({.lease = absl::Seconds(30), .whole = true});
  EXPECT_EQ(secrets_[0], "");
  Asks({.lease = absl::Seconds(30), .manual = true});
  EXPECT_EQ(secrets_[0], "");
}

}  // namespace
}  // namespace redlatch::quorum
