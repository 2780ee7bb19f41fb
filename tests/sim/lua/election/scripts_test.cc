#include "src/base/sha1.h"
#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

constexpr char kSecret[] = "0123456789abcdef";
constexpr char kNoLeader[] = "0 0 0 0 0 - ";

struct ElectionScripts : LockScriptsFixture {
  ElectionScripts() : LockScriptsFixture(ElectionKind()) {}

  // A candidate with a value.
  Request With(const std::string& value, char client, int sequence = 1) const {
    Request request = By(client, sequence);
    request.owner = "user:" + value;
    return request;
  }
  std::string Leader(const std::vector<std::string>& args = {}) {
    return Raw(lua::kElectionLeader, args);
  }
  std::string Proclaim(int64_t epoch, int revision, const std::string& value) {
    return Raw(lua::kElectionProclaim, {absl::StrCat(epoch), absl::StrCat(revision), value});
  }
  std::string Observe(char client, int ttl_ms = 30000) {
    return Leader({Channel(client), kSecret, absl::StrCat(ttl_ms)});
  }
  // Returns the reply as it is.
  std::string Raw(const LuaScript& script, const std::vector<std::string>& args) {
    const std::vector<std::string> keys = {
        name_, Queue(), Waiters(), Fence(), Auxiliary("leader"), Auxiliary("observers")};
    return server_->Eval(script, keys, args).text;
  }
  // Returns the message that tells the observer that state.
  std::string Told(const std::string& state) const {
    const std::string text = absl::StrCat(name_.size(), " ", name_, " ", state);
    return absl::StrCat(
        "leader ", base::Sha1Hex(absl::StrCat(kSecret, base::Sha1Hex(text), kSecret)), " ", text);
  }
  // Returns the leader's record without the grant.
  std::string State() {
    const std::string record = server_->Text({"GET", Auxiliary("leader")});
    return record.substr(record.find(' ') + 1);
  }
  std::string Since() { return std::vector<std::string>(absl::StrSplit(State(), ' ')).at(2); }
  std::string StateOf(int64_t epoch, int revision, char client, const std::string& value) {
    return absl::StrCat(epoch, " ", revision, " ", Since(), " ", std::string(32, client), " ",
                        value);
  }
  // A candidate leads, and the observer 'o' has been told. Returns its epoch.
  int64_t LeadObserved(const Request& candidate) {
    Observe('o');
    const int64_t epoch = Token(candidate);
    EXPECT_NE(news_.Next(), "");
    return epoch;
  }

  Inbox news_{*server_, Channel('o')};
};

TEST_F(ElectionScripts, LeaderIsKnownWithItsValue) {
  EXPECT_EQ(Leader(), kNoLeader);
  const int64_t epoch = Token(With("10.0.0.1:80 of a", 'a'));
  EXPECT_EQ(Leader(), "30000 0 " + StateOf(epoch, 1, 'a', "10.0.0.1:80 of a"));
  EXPECT_NEAR(std::stod(Since()), static_cast<double>(server_->clock()), 1000);
  EXPECT_EQ(Proclaim(epoch, 2, "another\nvalue"), "held");
  EXPECT_EQ(Leader(), "30000 0 " + StateOf(epoch, 2, 'a', "another\nvalue"));
  EXPECT_EQ(server_->Text({"GET", name_}), GrantId('a')) << "as a simple lock's";
}

TEST_F(ElectionScripts, CandidateWithoutValueHasAnEmptyOne) {
  const int64_t epoch = Token(Of('a'));
  EXPECT_EQ(Leader(), "30000 0 " + StateOf(epoch, 1, 'a', ""));
}

TEST_F(ElectionScripts, ValueEndsWithTheTerm) {
  Token(For(1000, With("a", 'a')));
  Token(Again(For(1000, With("a", 'a'))));  // the same grant
  server_->Pass(600);
  EXPECT_EQ(Renew(For(1000, With("a", 'a'))), kHeld);
  server_->Pass(600);
  EXPECT_THAT(Leader(), HasSubstr(" a"));
  server_->Pass(600);
  EXPECT_EQ(Leader(), kNoLeader);
  EXPECT_EQ(server_->Integer({"EXISTS", Auxiliary("leader")}), 0);
}

TEST_F(ElectionScripts, RepeatedAcquireProlongsTheRecord) {
  Token(For(1000, With("a", 'a')));
  server_->Pass(600);
  EXPECT_EQ(Outcome(Again(For(1000, With("a", 'a')))), "granted");
  EXPECT_EQ(Pttl(Auxiliary("leader")), Pttl(name_));
  EXPECT_EQ(Outcome(Again(Manual(For(5000, With("a", 'a'))))), "granted");
  EXPECT_EQ(Pttl(Auxiliary("leader")), Pttl(name_)) << "a manual one changes neither";
  EXPECT_LE(Pttl(name_), 1000);
}

TEST_F(ElectionScripts, RecordOfAnotherGrantDoesNotCount) {
  const int64_t epoch = Token(With("a", 'a'));
  server_->Command({"SET", name_, GrantId('b'), "PX", "30000"});
  EXPECT_EQ(Leader(), kNoLeader);
  EXPECT_EQ(Proclaim(epoch, 2, "x"), "not_held");
  EXPECT_THAT(Inspect(), Not(HasSubstr("user:a")));
}

TEST_F(ElectionScripts, ProclaimNeedsItsTermAndCountsOnce) {
  const int64_t epoch = Token(With("a", 'a'));
  EXPECT_EQ(Proclaim(epoch - 1, 2, "x"), "not_held");
  EXPECT_EQ(Proclaim(epoch, 3, "later"), "held");
  Observe('o');
  EXPECT_EQ(Proclaim(epoch, 3, "later"), "held") << "repeated";
  EXPECT_EQ(Proclaim(epoch, 2, "earlier"), "held") << "and late";
  EXPECT_EQ(news_.Next(), "");
  EXPECT_EQ(Leader(), "30000 0 " + StateOf(epoch, 3, 'a', "later"));
  Release(With("a", 'a'));
  EXPECT_EQ(Proclaim(epoch, 4, "x"), "not_held");
}

TEST_F(ElectionScripts, ObserversAreToldOfEachChangeOnce) {
  EXPECT_EQ(Observe('o'), "0 1 0 0 0 - ");
  Observe('o');  // again: it is registered once
  const int64_t first = Token(With("a", 'a'));
  EXPECT_EQ(news_.Next(), Told(StateOf(first, 1, 'a', "a")));
  Proclaim(first, 2, "A");
  EXPECT_EQ(news_.Next(), Told(StateOf(first, 2, 'a', "A")));
  Inbox waits(*server_, Channel('b'));
  Ask(With("b", 'b'));
  EXPECT_EQ(news_.Next(), "") << "nothing has changed";
  EXPECT_EQ(Release(With("A", 'a')), "[\"released\"]");
  const int64_t second = StoredFence();
  EXPECT_EQ(news_.Next(), Told(StateOf(second, 1, 'b', "b"))) << "a handover is one change";
  EXPECT_EQ(Release(With("b", 'b')), kReleased);
  EXPECT_EQ(news_.Next(), Told(absl::StrCat(second, " 0 0 - ")));
  EXPECT_EQ(Release(With("b", 'b')), kNotHeld);
  EXPECT_EQ(news_.Next(), "");
}

TEST_F(ElectionScripts, CancelAndForcedReleaseEndTheTerm) {
  const int64_t first = LeadObserved(With("a", 'a'));
  EXPECT_EQ(Cancel(With("a", 'a')), kPassedOn);
  EXPECT_EQ(news_.Next(), Told(absl::StrCat(first, " 0 0 - ")));
  EXPECT_EQ(Cancel(With("a", 'a')), kUnknown);
  EXPECT_EQ(news_.Next(), "");
  const int64_t second = LeadObserved(With("b", 'b'));
  EXPECT_THAT(ForceRelease(), HasSubstr("released"));
  EXPECT_EQ(news_.Next(), Told(absl::StrCat(second, " 0 0 - ")));
  EXPECT_THAT(ForceRelease(), HasSubstr("free"));
  EXPECT_EQ(news_.Next(), "");
}

TEST_F(ElectionScripts, TermEndsWithItsReleaseEvenIfTheNameStaysTaken) {
  const int64_t epoch = LeadObserved(With("a", 'a'));
  const std::vector<std::string> args = {
      GrantId('a'), absl::StrCat("0 0 0 ", server_->clock() + 5'000'000, " 5000"), "user:a"};
  const auto release = [&] {
    return First(Eval(scripts_.release, {Gone(GrantId('a')), Gone(GrantId('a'))}, args));
  };
  EXPECT_EQ(release(), "released");
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 1);
  EXPECT_EQ(news_.Next(), Told(absl::StrCat(epoch, " 0 0 - ")));
  EXPECT_EQ(Leader(), kNoLeader);
  EXPECT_EQ(release(), "not_held") << "repeated";
  EXPECT_EQ(news_.Next(), "");
  EXPECT_EQ(Release(Of('b')), kNotHeld);
}

TEST_F(ElectionScripts, TermIsOverEvenIfManyDeadCandidatesWait) {
  const int64_t epoch = Token(With("a", 'a'));
  Observe('o');
  MakeWaiters(100);
  Release(With("a", 'a'));
  EXPECT_EQ(notes_, "look 1");
  EXPECT_EQ(news_.Next(), Told(absl::StrCat(epoch, " 0 0 - ")));
  EXPECT_THAT(Inspect(), Not(HasSubstr("simple:free")));
  EXPECT_THAT(Inspect(), HasSubstr(", [], "));
}

TEST_F(ElectionScripts, ReleaseThatQueuesAgainIsOneChange) {
  LeadObserved(With("a", 'a'));
  ReleaseAndQueue(With("a", 'a'), With("a", 'a', 2));
  EXPECT_EQ(news_.Next(), Told(StateOf(StoredFence(), 1, 'a', "a")));
  EXPECT_EQ(news_.Next(), "");
}

TEST_F(ElectionScripts, FirstCandidateFollowsLeaderThatDied) {
  Inbox waits(*server_, Channel('b'));
  Token(For(1000, With("a", 'a')));
  Ask(With("b", 'b'));
  Observe('o');
  server_->Pass(1001);
  EXPECT_EQ(Observe('o'), "0 1 0 0 0 - ") << "no candidate has asked yet";
  EXPECT_EQ(Outcome(Again(With("b", 'b'))), "granted");
  EXPECT_EQ(news_.Next(), Told(StateOf(StoredFence(), 1, 'b', "b")));
}

TEST_F(ElectionScripts, ObserversAreForgotten) {
  Observe('o', 1000);
  Observe('p', 3000);
  EXPECT_EQ(Members(Auxiliary("observers")).size(), 2);
  server_->Pass(1500);
  Observe('p', 1000);
  EXPECT_THAT(Members(Auxiliary("observers")), ElementsAre(Channel('p') + " " + kSecret));
  EXPECT_GT(Pttl(Auxiliary("observers")), 1000) << "never shortened";
  server_->Pass(3000);
  EXPECT_EQ(server_->Integer({"EXISTS", Auxiliary("observers")}), 0);
}

TEST_F(ElectionScripts, LatestObserversGetOneMessageEach) {
  for (int i = 0; i < 1100; ++i) {
    Leader({absl::StrCat("redlatch:", i), kSecret, "30000"});
  }
  Inbox first(*server_, "redlatch:0");
  Inbox last(*server_, "redlatch:1099");
  const uint64_t before = server_->calls_in_scripts();
  Token(With("a", 'a'));
  EXPECT_LT(server_->calls_in_scripts() - before, 1024 + 30);
  EXPECT_EQ(first.Next(), "") << "it is told by its heartbeat";
  EXPECT_THAT(last.Next(), StartsWith("leader "));
  EXPECT_EQ(last.Next(), "");
}

TEST_F(ElectionScripts, InspectShowsValues) {
  const int64_t epoch = Token(With("here", 'a'));
  Ask(With("there", 'b'));
  const redlatch::redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
  EXPECT_EQ(reply.elements[0].text, "election");
  EXPECT_EQ(reply.elements[1].text, absl::StrCat(epoch));
  EXPECT_EQ(reply.elements[2].elements[0].elements[1].text, "user:here");
  EXPECT_EQ(reply.elements[2].elements[0].elements[4].text, Since());
  EXPECT_EQ(reply.elements[4].elements[0].elements[1].text, "user:there");
  Proclaim(epoch, 2, "");
  EXPECT_THAT(Inspect(), HasSubstr("\"" + std::string(32, 'a') + "\""));
}

TEST_F(ElectionScripts, ForeignKeysAreRefusedUntouched) {
  for (const char* const key : {"leader", "observers"}) {
    SCOPED_TRACE(key);
    server_->Command({"FLUSHALL"});
    Token(With("a", 'a'));
    Ask(With("b", 'b'));
    server_->Command({"DEL", Auxiliary(key)});
    server_->Command({"RPUSH", Auxiliary(key), "x"});
    server_->Command({"PEXPIRE", Auxiliary(key), "30000"});
    ExpectRefused(Auxiliary(key), "WRONGTYPE",
                  {Acquire(Of('c')), Release(With("a", 'a')), Cancel(With("a", 'a')),
                   ForceRelease(), Inspect(), Leader(), Observe('o'), Proclaim(1, 2, "x")});
    EXPECT_EQ(server_->Text({"GET", name_}), GrantId('a'));
    EXPECT_EQ(Renew(With("a", 'a')), kHeld) << "a renewal reads neither";
  }
}

TEST_F(ElectionScripts, SimpleLockAndElectionExcludeEachOther) {
  server_->Command({"SET", name_, GrantId('s'), "PX", "30000"});
  EXPECT_EQ(Outcome(Impatient(With("a", 'a'))), "busy");
  EXPECT_EQ(Leader(), kNoLeader);
  EXPECT_THAT(Inspect(), HasSubstr(GrantId('s')));
  Observe('o');
  EXPECT_EQ(Release(Of('s')), kReleased);
  EXPECT_EQ(news_.Next(), "") << "no term has ended";
}

}  // namespace
}  // namespace redlatch
