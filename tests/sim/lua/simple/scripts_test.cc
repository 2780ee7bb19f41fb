
#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

class SimpleScripts : public LockScriptsFixture {
 protected:
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

}  // namespace
}  // namespace redlatch
