
#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

struct SimpleScripts : LockScriptsFixture {
  SimpleScripts() : LockScriptsFixture(SimpleKind()) {}

  std::string Owner() { return server_->Text({"GET", name_}); }
};

TEST_F(SimpleScripts, GrantIsStringWithLeaseAsTtl) {
  const int64_t token = Token(Of('a'));
  EXPECT_EQ(Owner(), GrantId('a'));
  EXPECT_EQ(StoredFence(), token);
  EXPECT_GT(Pttl(name_), 29000);
  EXPECT_LE(Pttl(name_), 30000);
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_LE(Ask(Of('b')).elements[1].integer, 30000);
}

TEST_F(SimpleScripts, ForeignOwnerExcludesAndIsPolled) {
  server_->Command({"SET", name_, "someone", "NX", "PX", "30000"});
  EXPECT_EQ(Acquire(Impatient(Of('a'))), "[\"busy\", -1]");
  EXPECT_EQ(Ask(Of('b')).elements[1].integer, -1);
  EXPECT_EQ(Release(Of('a')), kNotHeld);
  EXPECT_EQ(Owner(), "someone");
  server_->Command({"DEL", name_});
  Cancel(Of('b'));
  Token(Of('c'));
  EXPECT_TRUE(server_->Command({"SET", name_, "someone", "NX", "PX", "1"}).is_nil());
}

// If the first waiter is dead, the next one asks when the foreign key expires.
TEST_F(SimpleScripts, LaterWaitersAreToldWhenForeignKeyExpires) {
  server_->Command({"SET", name_, "someone", "NX", "PX", "5000"});
  EXPECT_EQ(Ask(Of('b')).elements[1].integer, -1);
  const redis::Reply second = Ask(Of('c'));
  EXPECT_GT(second.elements[1].integer, 4000);
  EXPECT_LE(second.elements[1].integer, 5000);
  EXPECT_EQ(second.elements[2].integer, 1);
  server_->Command({"SET", name_, "someone"});
  EXPECT_EQ(Ask(Again(Of('c'))).elements[1].integer, -1) << "it does not expire";
  server_->Command({"DEL", name_});
}

TEST_F(SimpleScripts, ForeignKeysAreRefusedUntouched) {
  for (const std::string& key : {name_, Queue(), Fence(), Waiters()}) {
    SCOPED_TRACE(key);
    server_->Command({"FLUSHALL"});
    if (key == Waiters()) {  // read only if a client waits
      Token(Of('a'));
      server_->Command({"ZADD", Queue(), "1", GrantId('c')});
      server_->Command({"PEXPIRE", Queue(), "30000"});
    } else if (key != name_) {
      server_->Command({"SET", name_, GrantId('a'), "PX", "30000"});
    }
    server_->Command({"RPUSH", key, "x"});
    server_->Command({"PEXPIRE", key, "30000"});
    std::vector<std::string> replies = {ForceRelease()};
    if (key == name_) {
      for (std::string reply :
           {Acquire(Of('b')), Release(Of('a')), Renew(Of('a')), Cancel(Of('a'))}) {
        replies.push_back(reply);
      }
    } else {
      replies.push_back(Cancel(Of('a')));
      replies.push_back(Release(Of('a'), 1, 2));
      if (key != Fence()) replies.push_back(Acquire(Of('b')));
    }
    ExpectRefused(key, "WRONGTYPE", replies);
    if (key != name_) {
      EXPECT_EQ(Owner(), GrantId('a'));
    }
    EXPECT_EQ(server_->Integer({"DBSIZE"}), key == name_ ? 1 : key == Waiters() ? 4 : 2);
  }
}

TEST_F(SimpleScripts, SimilarForeignOwnerIsPolled) {
  for (const std::string& foreign : {std::string("3f2a77:1234"), std::string(33, 'a') + ":1",
                                     std::string(31, 'a') + ":1", std::string(32, 'a') + ":1x"}) {
    server_->Command({"SET", name_, foreign, "PX", "30000"});
    EXPECT_EQ(Ask(Of('b')).elements[1].integer, -1) << foreign;
    Cancel(Of('b'));
  }
}

TEST_F(SimpleScripts, CacheableGrantIsNotForeign) {
  server_->Command({"SET", name_, GrantId('a') + "k", "PX", "30000"});
  EXPECT_GT(Ask(Of('b')).elements[1].integer, 0) << "at the first attempt";
  EXPECT_GT(Ask(Of('b')).elements[1].integer, 0) << "at a heartbeat";
  EXPECT_THAT(Inspect(), HasSubstr(std::string(32, 'a') + "\""));
  Inbox inbox(*server_, Channel('a'));
  EXPECT_THAT(ForceRelease(), HasSubstr("released"));
  EXPECT_EQ(inbox.Next(), "forced " + GrantId('a') + "k " + name_);
}

TEST_F(SimpleScripts, InspectShowsOwnerAndFirstWaiters) {
  EXPECT_EQ(Inspect(), "[\"simple\", \"0\", [], 0, [], 0]");
  const int64_t token = Token(Of('a'));
  Ask(Of('b'));
  Ask(Of('c'));
  const redis::Reply reply = Eval(scripts_.inspect, {}, {"1"});
  EXPECT_EQ(reply.elements[1].text, absl::StrCat(token));
  EXPECT_EQ(reply.elements[2].elements[0].elements[0].text, GrantId('a'));
  EXPECT_EQ(reply.elements[2].elements[0].elements[1].text, std::string(32, 'a'));
  EXPECT_EQ(reply.elements[2].elements[0].elements[4].text, absl::StrCat(token)) << "since then";
  EXPECT_EQ(reply.elements[3].integer, 2);
  EXPECT_EQ(reply.elements[5].integer, 1);
  ASSERT_EQ(reply.elements[4].elements.size(), 1);
  EXPECT_EQ(reply.elements[4].elements[0].elements[0].text, GrantId('b'));
  EXPECT_EQ(Eval(scripts_.inspect, {}, {"0"}).elements[4].elements.size(), 0);
}

// ---- Native grants.

struct NativeScripts : SimpleScripts {
  static Request Native(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.grant += "n";
    return request;
  }
  // As the client does it; true if it gets the lock.
  bool Set(const Request& request, int ms = 2000) {
    const redis::Reply reply =
        server_->Command({"SET", name_, request.grant, "NX", "PX", absl::StrCat(ms)});
    return reply.type == redis::Reply::Type::kStatus;
  }
  bool ReleaseNatively(const Request& request) {
    return server_->Integer({"DELIFEQ", name_, request.grant}) == 1;
  }
};

TEST_F(NativeScripts, ScriptForOldServersReleasesLikeTheCommand) {
  const auto release = [&](const std::string& grant) {
    return server_->Integer(
        {"EVAL", std::string(lua::kSimpleReleaseNatively.body), "1", name_, grant});
  };
  EXPECT_EQ(release(GrantId('a') + "n"), 0);
  ASSERT_TRUE(Set(Native('a')));
  EXPECT_EQ(release(GrantId('b') + "n"), 0);
  EXPECT_EQ(release(GrantId('a') + "n"), 1);
  EXPECT_EQ(Owner(), "");
}

TEST_F(NativeScripts, WaiterFlagsGrantAndTellsItsClient) {
  Inbox inbox(*server_, Channel('a'));
  ASSERT_TRUE(Set(Native('a')));
  const redis::Reply reply = Ask(Of('b'));
  EXPECT_EQ(First(reply), "queued");
  EXPECT_GT(reply.elements[1].integer, 0) << "the owner is one of ours";
  EXPECT_EQ(Owner(), GrantId('a') + "w");
  EXPECT_GT(Pttl(name_), 0);
  EXPECT_EQ(inbox.Next(), "wanted " + GrantId('a') + "n " + name_);
  EXPECT_FALSE(ReleaseNatively(Native('a')));
  Ask(Of('c'));
  EXPECT_EQ(Owner(), GrantId('a') + "w");
  EXPECT_EQ(inbox.Next(), "") << "it knows";
}

TEST_F(NativeScripts, GrantThatOvertookWaitersIsFlagged) {
  for (const bool heartbeat : {true, false}) {
    server_->Command({"FLUSHALL"});
    Token(Of('a'));
    Ask(Of('b'));
    Expire(name_);
    ASSERT_TRUE(Set(Native('c')));
    if (heartbeat) {
      EXPECT_EQ(Outcome(Again(Of('b'))), "queued");
    } else {
      FillMemory();
      EXPECT_EQ(Check(), kUnknown);
    }
    EXPECT_EQ(Owner(), GrantId('c') + "w");
  }
}

TEST_F(NativeScripts, HandoverCheckLeavesGrantWithoutWaitersAlone) {
  ASSERT_TRUE(Set(Native('c')));
  EXPECT_EQ(Check(), kUnknown);
  EXPECT_EQ(Owner(), GrantId('c') + "n");
}

TEST_F(NativeScripts, NativeAcquireOvertakesNoWaiterBehindDeadOnes) {
  const Inbox inbox(*server_, Channel('b'));
  Token(Of('a'));
  MakeWaiters(200);
  Ask(Of('b'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_FALSE(Set(Native('c'))) << "64 of them are gone, and the lock is free";
  server_->Command({"DEL", name_});  // as it is when a lease ends
  EXPECT_EQ(Outcome(Impatient(Of('d'))), "busy");
  EXPECT_FALSE(Set(Native('c')));
  Check();
  Check();
  EXPECT_EQ(Owner(), GrantId('b'));
  EXPECT_EQ(Release(Of('b')), kReleased);
  EXPECT_TRUE(Set(Native('c')));
}

TEST_F(NativeScripts, TryFlagsNothing) {
  ASSERT_TRUE(Set(Native('a')));
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy");
  EXPECT_EQ(Outcome(Recalling(Of('b'))), "busy");
  EXPECT_EQ(Owner(), GrantId('a') + "n");
}

TEST_F(NativeScripts, ScriptsHandFlaggedLockOver) {
  const std::vector<std::function<std::string()>> ways = {
      [&] { return Release(Native('a')); }, [&] { return Release(Native('a'), 0, 0, 30000); },
      [&] { return Cancel(Native('a'), 30000); }};
  for (const auto& way : ways) {
    server_->Command({"FLUSHALL"});
    Inbox inbox(*server_, Channel('b'));
    ASSERT_TRUE(Set(Native('a')));
    Ask(Of('b'));
    EXPECT_THAT(way(), AnyOf(kReleased, kPassedOn));
    EXPECT_EQ(Owner(), GrantId('b'));
    EXPECT_THAT(inbox.Next(), StartsWith("grant " + GrantId('b') + " 1 "));
    EXPECT_EQ(Release(Native('a')), kNotHeld);
  }
}

TEST_F(NativeScripts, RenewalOfFlaggedGrantKeepsFlag) {
  ASSERT_TRUE(Set(Native('a')));
  Ask(Of('b'));
  EXPECT_EQ(Renew(Native('a')), kHeld);
  EXPECT_EQ(Owner(), GrantId('a') + "w");
  EXPECT_GT(Pttl(name_), 29000);
  EXPECT_EQ(Renew(Native('a', 2)), kNotHeld);
}

TEST_F(NativeScripts, RenewalDrawsTokenLargerThanAllBefore) {
  const int64_t before = Token(Of('a'));
  Release(Of('a'));
  ASSERT_TRUE(Set(Native('b')));
  const auto draw = [&] {
    return Eval(scripts_.renew, {}, {GrantId('b') + "n", "30000", "token"}).DebugString();
  };
  const std::string drawn = draw();
  EXPECT_THAT(drawn, StartsWith("[\"held\", 0, \""));
  EXPECT_GT(StoredFence(), before);
  EXPECT_NE(drawn.find(absl::StrCat(StoredFence())), drawn.npos);
  EXPECT_GT(Pttl(name_), 29000);
  const int64_t second = StoredFence();
  FillMemory();
  EXPECT_THAT(draw(), StartsWith("[\"held\", 0, \""));
  EXPECT_GT(StoredFence(), second);
  server_->Command({"DEL", name_});
  EXPECT_EQ(draw(), kNotHeld);
}

TEST_F(NativeScripts, ForcedReleaseTellsClientOfFlaggedGrant) {
  Inbox inbox(*server_, Channel('a'));
  ASSERT_TRUE(Set(Native('a')));
  Ask(Of('b'));
  inbox.Next();
  EXPECT_THAT(ForceRelease(), HasSubstr("released"));
  EXPECT_EQ(inbox.Next(), "forced " + GrantId('a') + "w " + name_);
}

TEST_F(NativeScripts, InspectionShowsClientButNoTime) {
  ASSERT_TRUE(Set(Native('a')));
  EXPECT_THAT(Inspect(), HasSubstr("\"" + GrantId('a') + "n\", \"" + std::string(32, 'a') + "\""));
  EXPECT_THAT(Inspect(), HasSubstr("1, \"0\"]"));
}

}  // namespace
}  // namespace redlatch
