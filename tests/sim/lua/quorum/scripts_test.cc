// One node of a quorum: rounds that fail since others have the other nodes, healing, restarts.

#include "lua/scripts.h"

#include "tests/sim/lua/script_clients.h"

namespace redlatch {
namespace {

// A node of a quorum. Its keys have short names.
struct QuorumNode : ::testing::Test {
  using Words = std::vector<std::string>;

  // `own`: the keys that follow those that every script of a lock has.
  std::string Eval(const LuaScript& script, const Words& own, const Words& args) {
    Words keys = {"orders", "queue", "waiters", "fence"};
    keys.insert(keys.end(), own.begin(), own.end());
    return server_->Eval(script, keys, args).text;
  }
  // What the node's clock shows when it runs the next script, and that much more.
  std::string Clock(int64_t ahead_us = 0) const {
    return absl::StrCat(server_->clock() + 50 + ahead_us);
  }
  std::string Holder() { return server_->Text({"GET", "orders"}); }
  std::string Fence() { return server_->Text({"GET", "fence"}); }

  const std::unique_ptr<ScriptServer> server_ = std::make_unique<ScriptServer>();
};

struct QuorumVote : QuorumNode {
  struct Client {
    Request request;
    Inbox inbox;
  };
  // The first client has the smaller ticket.
  Client Made(char id, const std::string& ticket) {
    const std::string name(32, id);
    return {.request = {.grant = name + ":1", .owner = name, .attempt = 0, .ticket = ticket},
            .inbox = Inbox(*server_, "redlatch:" + name)};
  }
  // Its next attempt.
  std::string Takes(Client& client) {
    ++client.request.attempt;
    return Run(client, "take");
  }
  void TakesAndIsAwaited(Client& client, Client& waiter) {
    EXPECT_TRUE(Takes(client).starts_with("granted "));
    EXPECT_TRUE(Takes(waiter).starts_with("queued "));
  }
  // Its first attempt, with this proposal for token and ticket.
  std::string Proposes(Client& client, const std::string& proposal) {
    client.request.ticket = "0";
    ++client.request.attempt;
    return Run(client, "", proposal);
  }
  // The same by the node's own clock, as most often.
  std::string TakesAtOnce(Client& client) { return Proposes(client, Clock()); }
  // Its next attempt, for which it wants a vote by message.
  std::string TakesSecretly(Client& client) {
    ++client.request.attempt;
    return Run(client, kSecret + std::string(" take"));
  }
  // A plain release that proposes a token.
  std::string Releases(const Client& client, const std::string& proposal) {
    return Eval(lua::kQuorumRelease, {"turn"}, {client.request.grant, proposal});
  }
  std::string Releases(const Client& client) { return Releases(client, Clock(1000)); }
  // A release with a tombstone that queues a fresh grant.
  std::string ReleasesAndWaits(const Client& client, const Client& fresh) {
    Words args = {client.request.grant, "0 0 5000", client.request.owner};
    for (std::string& arg : fresh.request.Args()) args.push_back(std::move(arg));
    args.push_back("0");
    return Eval(lua::kQuorumRelease, {"gone", "gone of fresh", "turn"}, args);
  }
  // The vote's words, without the clock.
  static std::vector<std::string> VoteIn(const std::string& message) {
    std::vector<std::string> words = absl::StrSplit(message, ' ');
    if (words.size() == 9) words.erase(words.begin() + 6);
    return words;
  }
  std::string GivesBack(const Client& client) { return Run(client, "queue"); }
  std::string Yields(const Client& client) { return Run(client, "yield"); }

  std::string Cancels(const Client& client, int attempt) {
    return Cancel(client, {"0", "1", absl::StrCat(attempt)});
  }
  // As a forced release does that found the grant at another node.
  std::string CancelsByForce(const Client& client) {
    return Cancel(client, {"1000", "1", "", "redlatch:"});
  }

  void Heals(const Client& client) {
    server_->Command({"SET", "orders", client.request.grant + " 1", "PX", "30000"});
  }
  std::string ReleasesPlainly(const Client& client) {
    return Eval(lua::kQuorumRelease, {"turn"}, {client.request.grant, "0"});
  }
  std::string Turn() { return server_->Text({"GET", "turn"}).substr(0, 34); }

  static constexpr char kSecret[] = "0123456789abcdef";
  Client first_ = Made('1', "1000");
  Client second_ = Made('2', "2000");

  std::string Cancel(const Client& client, Words words) {
    words.insert(words.begin(), client.request.grant);
    return Eval(lua::kQuorumCancel, {"gone", "turn"}, words);
  }
  std::string Run(const Client& client, const std::string& mode,
                  const std::string& proposal = "0 ") {
    Words args = client.request.Args();
    args.push_back(proposal + mode);
    return Eval(lua::kQuorumAcquire, {"gone", "turn"}, args);
  }
};

TEST_F(QuorumVote, ForcedReleaseDoesNotShortenTombstone) {
  EXPECT_EQ(Cancel(first_, {"30000", "1"}), "unknown");
  EXPECT_EQ(CancelsByForce(first_), "unknown");
  EXPECT_GT(server_->Integer({"PTTL", "gone"}), 20'000);
  EXPECT_EQ(Cancel(first_, {"60000", "1"}), "unknown");
  EXPECT_GT(server_->Integer({"PTTL", "gone"}), 50'000);
}

TEST_F(QuorumVote, CrashedWaitersLeaveAmongLiveOnes) {
  Client holder = Made('a', "0");
  holder.request.lease_ms = 600'000;
  Takes(holder);
  const auto numbered = [&](char id, int i) {
    Client client = Made(id, "0");
    client.request.grant = absl::StrCat(client.request.owner, ":", i);
    return client;
  };
  for (int i = 1; i <= 20; ++i) {
    Client crashed = numbered('c', i);
    TakesAtOnce(crashed);
  }
  for (int i = 1; i <= 600; ++i) {  // newcomers, for a lease and three heartbeats
    server_->Pass(100);
    Client newcomer = numbered('b', i);
    TakesAtOnce(newcomer);
    Cancels(newcomer, 1);
    if (i % 100 == 0) Takes(first_);
    if (i % 100 == 50) Takes(second_);
  }
  EXPECT_EQ(server_->Integer({"ZCARD", "queue"}), 2);
}

// Two that have a part of the nodes each would else exchange them for ever.
TEST_F(QuorumVote, GivenBackGoesToFirstWaiter) {
  TakesAndIsAwaited(second_, first_);
  EXPECT_TRUE(GivesBack(second_).ends_with(" look 100"));
  EXPECT_EQ(first_.inbox.Next(), absl::StrCat("look ", first_.request.grant, " orders"));
  EXPECT_EQ(second_.inbox.Next(), "");
  EXPECT_EQ(Turn(), first_.request.grant);
  EXPECT_EQ(Cancels(first_, 1), "left look 100");
  EXPECT_EQ(Turn(), second_.request.grant) << "the turn of one that leaves is the next one's";
}

TEST_F(QuorumVote, GivenBackByFirstWaiterReturnsToIt) {
  TakesAndIsAwaited(first_, second_);
  EXPECT_TRUE(GivesBack(first_).starts_with("queued 0 0 "));
  EXPECT_EQ(Holder(), "");
  EXPECT_TRUE(Takes(second_).starts_with("queued "));
  EXPECT_EQ(Turn(), first_.request.grant);
  EXPECT_TRUE(GivesBack(first_).starts_with("queued "));  // again, as after a lost answer
  EXPECT_EQ(Turn(), first_.request.grant);
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_EQ(second_.inbox.Next(), "");
}

// Otherwise each node would have its own order, and be reserved for another waiter.
TEST_F(QuorumVote, LateWaiterIsQueuedAtItsProposal) {
  EXPECT_TRUE(Takes(second_).starts_with("granted "));
  const std::string proposal = Clock(-900'000);
  EXPECT_TRUE(Proposes(first_, proposal + " take").starts_with("queued "));
  EXPECT_EQ(server_->Text({"ZSCORE", "queue", first_.request.grant}), proposal);
}

TEST_F(QuorumVote, ProposalFarFromClockIsIgnored) {
  Takes(first_);  // so that there is a fence
  ReleasesPlainly(first_);
  for (const int64_t ahead_us : {-1'000'000, 1'001'000}) {
    for (const std::string mode : {"", " take"}) {  // with and without the fast paths
      SCOPED_TRACE(absl::StrCat(ahead_us, mode));
      Client holder = Made('3', "0"), waiter = Made('4', "0");
      const std::string proposal = Clock(ahead_us);
      EXPECT_THAT(Proposes(holder, proposal + mode), StartsWith("granted "));
      EXPECT_NE(Fence(), proposal);
      EXPECT_THAT(Proposes(waiter, proposal + " " + kSecret + mode), StartsWith("queued "));
      EXPECT_NE(server_->Text({"ZSCORE", "queue", waiter.request.grant}), proposal);
      EXPECT_EQ(Releases(holder, proposal), "released look 30000");
      EXPECT_NE(Fence(), proposal);
      ReleasesPlainly(waiter);
    }
  }
}

TEST_F(QuorumVote, ProposedTokenIsGrantedOnce) {
  const std::string proposal = Clock(1000);
  Takes(first_);  // so that there is a fence
  for (Client* client : {&first_, &second_}) {
    ReleasesPlainly(first_);
    EXPECT_THAT(Proposes(*client, proposal), StartsWith("granted "));
    EXPECT_EQ(Fence() > proposal, client == &second_);
  }
}

// So that a grant that other nodes have, and this one lost, can be healed.
TEST_F(QuorumVote, NodeIsNotReservedForLoneWaiter) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(GivesBack(first_).starts_with("queued 0 0 "));
  EXPECT_EQ(Turn(), "");
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
}

// A node may execute the first attempt last, over a connection that was given up.
TEST_F(QuorumVote, LateFirstAttemptKeepsLaterRecord) {
  EXPECT_TRUE(Takes(second_).starts_with("granted "));
  first_.request.attempt = 1;
  EXPECT_TRUE(Takes(first_).starts_with("queued "));
  EXPECT_TRUE(GivesBack(first_).starts_with("queued "));
  first_.request.attempt = 0;
  EXPECT_TRUE(TakesAtOnce(first_).starts_with("queued "));
  EXPECT_EQ(server_->Text({"ZSCORE", "queue", first_.request.grant}), "1000");
  EXPECT_EQ(Cancels(second_, 1), "passed_on look 100");
  EXPECT_EQ(Turn(), first_.request.grant);
  first_.request.attempt = 1;
  first_.request.ticket = "1000";
  EXPECT_TRUE(Takes(first_).starts_with("queued ")) << "it was given up";
  EXPECT_EQ(Holder(), "");
}

TEST_F(QuorumVote, CancelOfOldAttemptKeepsLaterVote) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_EQ(Cancels(first_, 1), "unknown");
  first_.request.attempt = 1;
  EXPECT_EQ(Run(first_, "take"), "busy 0") << "nor does a late request";
  EXPECT_EQ(Holder(), first_.request.grant + " 2");
  EXPECT_EQ(Cancels(first_, 2), "passed_on");
  EXPECT_EQ(Holder(), "");
  TakesAndIsAwaited(first_, second_);
  EXPECT_EQ(Cancels(second_, 0), "unknown");
  EXPECT_EQ(Cancels(second_, 1), "left");
}

TEST_F(QuorumVote, ManualGrantIsRepeatedInItsLastMillisecond) {
  first_.request.manual = true;
  first_.request.lease_ms = 100;
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  while (server_->Integer({"PTTL", "orders"}) > 0) server_->Pass(1);
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
}

TEST_F(QuorumVote, ReleasedGrantIsNotNext) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(GivesBack(first_).starts_with("queued "));
  Heals(first_);
  EXPECT_TRUE(Takes(second_).starts_with("queued "));
  EXPECT_EQ(ReleasesPlainly(first_), "released look 100");
  EXPECT_EQ(Turn(), second_.request.grant);
}

TEST_F(QuorumVote, ReleaseRemovesOwnQueueEntry) {
  TakesAndIsAwaited(first_, second_);
  EXPECT_TRUE(GivesBack(second_).starts_with("queued "));
  EXPECT_TRUE(GivesBack(first_).starts_with("queued "));
  Heals(second_);
  EXPECT_EQ(ReleasesPlainly(second_), "released look 100");
  EXPECT_EQ(Turn(), first_.request.grant);
  EXPECT_EQ(server_->Integer({"ZCARD", "queue"}), 1);
  EXPECT_EQ(server_->Integer({"HLEN", "waiters"}), 1);
}

TEST_F(QuorumVote, ReleaseKeepsOutGrantsThatAreOver) {
  EXPECT_EQ(ReleasesAndWaits(first_, second_), "not_held");
  EXPECT_EQ(Takes(first_), "gone") << "a late request";
  server_->Command({"RENAME", "gone", "gone of fresh"});  // the fresh grant was given up
  Takes(first_);
  EXPECT_EQ(ReleasesAndWaits(first_, second_), "released gone");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders", "queue"}), 0);
}

TEST_F(QuorumVote, YieldLetsOtherGoFirstOnce) {
  TakesAndIsAwaited(first_, second_);
  EXPECT_TRUE(Yields(first_).ends_with(" look 100"));
  EXPECT_EQ(second_.inbox.Next(), absl::StrCat("look ", second_.request.grant, " orders"));
  EXPECT_TRUE(Takes(second_).starts_with("granted "));
  EXPECT_TRUE(GivesBack(second_).ends_with(" look 100"));
  EXPECT_EQ(Turn(), first_.request.grant);
}

TEST_F(QuorumVote, YieldOfReservationIsNotNext) {
  TakesAndIsAwaited(first_, second_);
  EXPECT_TRUE(GivesBack(first_).starts_with("queued "));
  EXPECT_TRUE(Takes(second_).starts_with("queued "));
  EXPECT_EQ(Turn(), first_.request.grant);
  EXPECT_TRUE(Yields(first_).ends_with(" look 100"));
  EXPECT_EQ(Turn(), second_.request.grant);
}

// It may have come here after the forced release had found the node free.
TEST_F(QuorumVote, ForcedCancelTellsClient) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_EQ(CancelsByForce(first_), "passed_on");
  EXPECT_EQ(first_.inbox.Next(), absl::StrCat("forced ", first_.request.grant, " orders"));
  EXPECT_EQ(Holder(), "");
  EXPECT_EQ(Takes(first_), "gone");
  EXPECT_EQ(CancelsByForce(second_), "unknown");
  EXPECT_EQ(second_.inbox.Next(), "");
}

TEST_F(QuorumVote, QueueHasTtlAfterOnlyWaiterYields) {
  TakesAndIsAwaited(second_, first_);
  EXPECT_EQ(Cancels(second_, 1), "passed_on look 100");
  EXPECT_TRUE(Yields(first_).starts_with("queued "));
  EXPECT_GT(server_->Integer({"PTTL", "queue"}), 0);
}

TEST_F(QuorumVote, DeletedRecordsGetTtlAgain) {
  TakesAndIsAwaited(second_, first_);
  EXPECT_EQ(server_->Integer({"DEL", "waiters"}), 1);
  Client third = Made('3', "0");
  EXPECT_TRUE(TakesAtOnce(third).starts_with("queued "));
  EXPECT_GT(server_->Integer({"PTTL", "waiters"}), 0);
}

TEST_F(QuorumVote, ReservedNodeRefusesOthers) {
  for (const char* ticket : {"500", "3000"}) {
    server_->Command({"FLUSHALL"});
    TakesAndIsAwaited(first_, second_);
    EXPECT_EQ(Cancels(first_, first_.request.attempt), "passed_on look 100");
    Client third = Made('3', ticket);
    EXPECT_TRUE(Takes(third).starts_with("queued 100 "));
    EXPECT_EQ(Turn(), second_.request.grant);
    server_->Pass(101);  // the waiter did not come
    EXPECT_TRUE(Takes(third).starts_with("granted ")) << ticket;
  }
}

TEST_F(QuorumVote, GivenBackAttemptIsNotGrantedLate) {
  ++first_.request.attempt;
  EXPECT_TRUE(GivesBack(first_).starts_with("queued "));
  EXPECT_TRUE(Run(first_, "take").starts_with("queued "));
  EXPECT_EQ(Holder(), "");
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
}

TEST_F(QuorumVote, LateAttemptIsNotGrantedWhileReserved) {
  TakesAndIsAwaited(second_, first_);
  ++first_.request.attempt;
  EXPECT_TRUE(GivesBack(first_).starts_with("queued "));
  EXPECT_EQ(Cancels(second_, 1), "passed_on look 100");
  EXPECT_EQ(Turn(), first_.request.grant);
  --first_.request.attempt;
  EXPECT_TRUE(TakesAtOnce(first_).starts_with("queued "));
  EXPECT_EQ(Holder(), "");
  EXPECT_TRUE(TakesAtOnce(first_).starts_with("granted "));
}

TEST_F(QuorumVote, ReleaseVotesForFirstWaiterByMessage) {
  first_.request.claim_ms = second_.request.claim_ms = 2000;
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(TakesSecretly(second_).starts_with("queued "));
  Client third = Made('3', "3000");
  EXPECT_TRUE(TakesSecretly(third).starts_with("queued "));
  const std::string token = Clock(1000);
  EXPECT_EQ(Releases(first_, token), "released look 2000");
  EXPECT_EQ(Holder(), second_.request.grant + " 1");
  EXPECT_LE(server_->Integer({"PTTL", "orders"}), 2000);
  EXPECT_EQ(Fence(), token);
  EXPECT_EQ(VoteIn(second_.inbox.Next()),
            (std::vector<std::string>{"vote", second_.request.grant, "1", token, "2000", "1",
                                      kSecret, "orders"}));
  EXPECT_EQ(third.inbox.Next(), "");
  EXPECT_EQ(server_->Integer({"ZCARD", "queue"}), 1);
  // Asked for the whole lease, it keeps the token.
  EXPECT_EQ(Takes(second_).substr(0, 30), "granted " + token + " 30000");
}

TEST_F(QuorumVote, TokenOfMessageIsLargerThanFence) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(TakesSecretly(second_).starts_with("queued "));
  const std::string fence = "5000000000000000";
  server_->Command({"SET", "fence", fence});
  EXPECT_TRUE(Releases(first_).starts_with("released look "));
  EXPECT_EQ(VoteIn(second_.inbox.Next())[3], "5000000000000001");
}

TEST_F(QuorumVote, PlaceOfGivenBackVoteIsInvitedOnly) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(TakesSecretly(second_).starts_with("queued "));
  EXPECT_TRUE(GivesBack(second_).starts_with("queued "));
  EXPECT_EQ(Releases(first_), "released look 100");
  EXPECT_EQ(second_.inbox.Next(), absl::StrCat("look ", second_.request.grant, " orders"));
  EXPECT_EQ(Holder(), "");
}

// A client counts a vote by message only if its secret is that of the attempt that it names.
TEST_F(QuorumVote, LateRequestDoesNotMixAttempts) {
  constexpr char kOther[] = "fedcba9876543210";
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  second_.request.attempt = 2;
  EXPECT_TRUE(Run(second_, kSecret + std::string(" take")).starts_with("queued "));
  second_.request.attempt = 1;
  EXPECT_TRUE(Run(second_, kOther + std::string(" take")).starts_with("queued "));
  EXPECT_TRUE(Releases(first_).starts_with("released look "));
  const std::vector<std::string> vote = VoteIn(second_.inbox.Next());
  ASSERT_EQ(vote.size(), 8);
  EXPECT_EQ(vote[2], "2");
  EXPECT_EQ(vote[6], kSecret);
}

TEST_F(QuorumVote, LateRequestDoesNotBringBackVoteByMessage) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(TakesSecretly(second_).starts_with("queued "));
  EXPECT_TRUE(GivesBack(second_).starts_with("queued "));
  EXPECT_TRUE(Run(second_, kSecret + std::string(" take")).starts_with("queued "));
  EXPECT_EQ(Releases(first_), "released look 100");
  EXPECT_EQ(second_.inbox.Next(), absl::StrCat("look ", second_.request.grant, " orders"));
}

TEST_F(QuorumVote, YieldVotesForOtherByMessage) {
  EXPECT_TRUE(Takes(first_).starts_with("granted "));
  EXPECT_TRUE(TakesSecretly(second_).starts_with("queued "));
  EXPECT_TRUE(Yields(first_).starts_with("queued "));
  EXPECT_EQ(VoteIn(second_.inbox.Next())[0], "vote");
  EXPECT_EQ(Holder(), second_.request.grant + " 1");
}

struct QuorumRaise : QuorumNode {
  void GrantId(const std::string& grant, int64_t fence) {
    server_->Command({"SET", "orders", grant + " 1", "PX", "30000"});
    server_->Command({"SET", "fence", absl::StrCat(fence), "PX", "30000"});
  }
  std::string Raise(const std::string& grant, int64_t last, int lease_ms = 0) {
    return Eval(lua::kQuorumRaise, {"gone", "turn"},
                {grant, absl::StrCat(last), absl::StrCat(lease_ms), "1"});
  }
};

TEST_F(QuorumRaise, CountsIfGrantHasNode) {
  GrantId("a", 7);
  EXPECT_EQ(Raise("a", 9), "raised");
  EXPECT_EQ(Raise("a", 9), "raised");  // again, since its answer was lost
  EXPECT_EQ(Raise("b", 11), "not_held");
  EXPECT_EQ(Fence(), "9");
}

TEST_F(QuorumRaise, DoesNotCountIfLargerTokenWasIssued) {
  GrantId("a", 12);
  EXPECT_EQ(Raise("a", 9), "above");
  EXPECT_EQ(Fence(), "12");
}

TEST_F(QuorumRaise, HealsGrantWithAnyFence) {
  GrantId("b", 12);
  EXPECT_EQ(Raise("a", 9, 1000), "not_held");
  server_->Command({"DEL", "orders"});
  EXPECT_EQ(Raise("a", 9, 1000), "raised");
  EXPECT_EQ(server_->Text({"GET", "orders"}), "a 1");
  EXPECT_EQ(Fence(), "12");
}

TEST_F(QuorumRaise, HealsNodeThatIsReservedForWaiter) {
  server_->Command({"SET", "turn", "b 9999999999999999", "PX", "2000"});
  EXPECT_EQ(Raise("a", 9, 1000), "raised");
  EXPECT_EQ(server_->Text({"GET", "orders"}), "a 1");
  EXPECT_EQ(server_->Integer({"EXISTS", "turn"}), 0);
}

TEST_F(QuorumRaise, DoesNotHealReleasedGrant) {
  server_->Command({"SET", "gone", "", "PX", "30000"});
  EXPECT_EQ(Raise("a", 9, 1000), "not_held");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 0);
}

// A node that has restarted lately, and the restart delay.
struct YoungNode : QuorumNode {
  std::string Take(const std::string& delay_ms) {
    Words args = request_.Args();
    args.push_back("0 take " + delay_ms + " ab");  // an earlier run of the server
    return Eval(lua::kQuorumAcquire, {"gone", "turn", "node"}, args);
  }

  Request request_ = Impatient({.grant = std::string(32, '1') + ":1"});
};

TEST_F(YoungNode, HasNoVoteDuringRestartDelay) {
  EXPECT_EQ(Take("4000"), "young 4000");
  server_->Pass(3000);
  EXPECT_EQ(Take("4000").substr(0, 6), "young ");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 0);
  server_->Pass(1000);
  EXPECT_EQ(Take("4000").substr(0, 8), "granted ");
}

TEST_F(YoungNode, IsYoungAgainAfterRestartWithData) {
  server_->Command({"SET", "node", "cd 1 4000", "PX", "2000000"});
  EXPECT_EQ(Take("4000"), "young 4000");
}

// Its queue may be older than a grant that it has forgotten.
TEST_F(YoungNode, ReleaseDoesNotVote) {
  const auto release = [&](const std::string& delay_and_run) {
    server_->Command({"SET", "orders", request_.grant + " 1", "PX", "30000"});
    return Eval(lua::kQuorumRelease, {"turn", "node"}, {request_.grant, "0 take " + delay_and_run});
  };
  const Request waiter{.grant = std::string(32, '2') + ":1"};
  const Inbox inbox(*server_, waiter.channel());
  server_->Command({"EVAL", kMakeWaiters, "2", "queue", "waiters", "1", std::string(32, '2'),
                    waiter.channel(), "1", "1"});
  const std::string grant = server_->Do({"ZRANGE", "queue", "0", "0"}).elements.at(0).text;
  const std::string record = server_->Text({"HGET", "waiters", grant});
  server_->Command({"HSET", "waiters", grant, record + " 0123456789abcdef"});
  EXPECT_EQ(release("4000 ab"), "released look 100");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 0);
  server_->Pass(4000);
  server_->Command({"HSET", "waiters", grant, record + " 0123456789abcdef"});
  EXPECT_EQ(release("5000 ab"), "released look 100") << "other clients use another delay";
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 0);
  server_->Command({"HSET", "waiters", grant, record + " 0123456789abcdef"});
  EXPECT_EQ(release("4000 ab"), "released look 2000");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 1);
}

TEST_F(YoungNode, RefusesClientsWithOtherDelay) {
  Take("4000");
  EXPECT_EQ(Take("5000").substr(0, 8), "REFUSED ");
}

}  // namespace
}  // namespace redlatch
