// Grants, repeated requests, and late ones.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

// For readers, too.
class LockLease : public LockContract {};
std::vector<LockKind> KindsWithLeases() {
  std::vector<LockKind> kinds = ExclusiveKinds();
  kinds.push_back(ReadKind());
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockLease, ::testing::ValuesIn(KindsWithLeases()), NameOfKind);

TEST_P(LockLease, RepeatedAcquireRestartsLease) {
  Take(For(5000, Of('a')));
  EXPECT_EQ(Ask(Again(For(30000, Of('a')))).elements[2].integer, 30000);
  ExpectLease(29000, 30000);
  EXPECT_GT(Ask(For(1000, Of('a'))).elements[2].integer, 29000);
  ExpectLease(29000, 30000);
  EXPECT_EQ(Owner(), GrantId('a'));
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Release(Of('a')), kNotHeld);
  EXPECT_EQ(Owner(), "");
}

TEST_P(LockLease, RepeatDoesNotExtendManualLease) {
  Take(Manual(For(5000, Of('a'))));
  EXPECT_LE(Ask(Again(Manual(For(60000, Of('a'))))).elements[2].integer, 5000);
  ExpectLease(4000, 5000);
}

TEST_P(LockLease, RenewalNeverShortensLease) {
  Take(For(5000, Of('a')));
  EXPECT_EQ(Renew(For(30000, Of('a'))), kind_.held);
  ExpectLease(29000, 30000);
  EXPECT_EQ(Renew(For(100, Of('a'))), kind_.held);
  ExpectLease(29000, 30000);
}

TEST_P(LockLease, OnlyOwnerReleasesAndRenews) {
  Take(Of('a'));
  EXPECT_EQ(Release(Of('b')), kNotHeld);
  EXPECT_EQ(Renew(Of('b')), kNotHeld);
  EXPECT_EQ(Cancel(Of('b')), kUnknown);
  EXPECT_EQ(Owner(), GrantId('a'));
}

class LockGrant : public LockContract {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockGrant, ::testing::ValuesIn(ExclusiveKinds()), NameOfKind);

TEST_P(LockGrant, LateAcquireAfterCancelIsGone) {
  EXPECT_EQ(Cancel(Of('a'), 5000), kUnknown);
  EXPECT_GT(Pttl(Gone(GrantId('a'))), 4000);
  EXPECT_EQ(Acquire(Of('a')), kGone);
  Take(Of('b'));
  EXPECT_EQ(Release(Of('b'), 0, 0, 5000), kReleased);
  EXPECT_EQ(Outcome(Of('b')), "gone");
  Take(Of('c'));
  EXPECT_EQ(Cancel(Of('c'), 5000), kPassedOn);
  EXPECT_EQ(Outcome(Of('c')), "gone");
  EXPECT_EQ(Release(Of('d'), 0, 0, 5000), kNotHeld);
  EXPECT_EQ(Outcome(Of('d')), "gone");
  EXPECT_EQ(Owner(), "");
  Take(Of('e'));
  for (const char client : {'a', 'd'}) {
    EXPECT_EQ(Outcome(Of(client)), "gone");
    EXPECT_EQ(Outcome(Impatient(Of(client))), "gone");
  }
  Ask(Of('f'));
  EXPECT_EQ(Outcome(Of('a')), "gone") << "behind others";
  EXPECT_EQ(Cancel(Of('f'), 5000), kLeft);
  EXPECT_EQ(Outcome(Of('f')), "gone");
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_EQ(Owner(), GrantId('e'));
}

TEST_P(LockGrant, NamesAndOwnersMayContainAnything) {
  for (const std::string& name : {std::string("name with spaces"), std::string("a: 7 \n{x"),
                                  std::string("a\0b", 3), std::string("{a} %s 1 2")}) {
    name_ = name;
    Inbox inbox(*server_, Channel('b')), other(*server_, Channel('c'));
    Request b = Of('b');
    b.owner = std::string("user:read:1:\0 a\n%s b", 20);
    Take(Of('a'));
    Ask(b);
    EXPECT_THAT(Record(b.grant), ::testing::EndsWith(" " + b.owner));
    EXPECT_EQ(Release(Of('a')), kReleased);
    EXPECT_EQ(inbox.Next(), GrantOf(b));
    Ask(Of('c'));
    EXPECT_EQ(Cancel(b), kPassedOn);
    EXPECT_EQ(other.Next(), GrantOf(Of('c')));
  }
}

TEST_P(LockGrant, OnlyAcquireNeedsMemory) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  Take(Of('a'));
  const std::string ticket = Ask(Of('b')).elements[3].text;
  Ask(Of('c'));
  Ask(Of('d'));
  FillMemory();
  EXPECT_THAT(Acquire(Of('f')), HasSubstr("OOM"));
  EXPECT_EQ(Outcome(Again(Of('b'), ticket)), "queued") << "a heartbeat";
  EXPECT_EQ(Outcome(Again(Of('a'))), "granted") << "a repeat";
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b'), GrantId('c'), GrantId('d')));
  EXPECT_EQ(Renew(Of('a')), kHeld);
  EXPECT_EQ(Release(Of('a'), 0, 0, 5000), kReleased);
  EXPECT_THAT(b.Next(), StartsWith("grant"));
  EXPECT_EQ(Cancel(Of('b'), 5000), kPassedOn);
  EXPECT_THAT(c.Next(), StartsWith("grant"));
  EXPECT_EQ(Cancel(Of('e'), 5000), kUnknown);
  EXPECT_EQ(Release(Of('c')), kReleased) << "a plain one";
  EXPECT_THAT(d.Next(), StartsWith("grant"));
  EXPECT_EQ(Release(Of('d')), kReleased);
  const int64_t keys = server_->Integer({"DBSIZE"});
  EXPECT_THAT(Acquire(Of('d')), HasSubstr("OOM"));
  name_ = "fresh";
  EXPECT_THAT(Acquire(Of('d')), HasSubstr("OOM"));
  EXPECT_EQ(server_->Integer({"DBSIZE"}), keys);
}

TEST_P(LockGrant, ForceReleaseTellsClientAndHandsOver) {
  Inbox a(*server_, Channel('a')), b(*server_, Channel('b'));
  EXPECT_EQ(ForceRelease(), kFree);
  Take(Of('a'));
  EXPECT_EQ(PartOfForce({"redlatch:", "more"}).DebugString(), "[\"told\"]");
  EXPECT_EQ(Owner(), GrantId('a')) << "the rest of a forced release ends no new grant";
  Ask(Of('b'));
  EXPECT_EQ(ForceRelease(), "[\"released\", \"" + GrantId('a') + "\"]");
  EXPECT_EQ(a.Next(), "forced " + GrantId('a') + " " + name_);
  EXPECT_THAT(b.Next(), StartsWith("grant " + GrantId('b')));
  EXPECT_EQ(Renew(Of('a')), kNotHeld);
  EXPECT_EQ(Release(Of('a')), kNotHeld);
  EXPECT_EQ(Release(Of('b')), kReleased);
  EXPECT_EQ(ForceRelease(), kFree);
}

// Whichever keys of a lock are deleted or evicted, it has one owner at a time and does not stay
// taken.
struct LockLostKeys : LockLease {
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
      keys.push_back(key.text);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  // The ones that own the lock; each is asked as its client would.
  std::set<std::string> Owners(const std::vector<Request>& all) {
    std::set<std::string> owners;
    for (const Request& each : all) {
      if (Renew(each).starts_with("[\"held\"")) owners.insert(each.client());
    }
    return owners;
  }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockLostKeys, ::testing::ValuesIn(KindsWithLeases()),
                         NameOfKind);

TEST_P(LockLostKeys, DeletedKeysNeverAllowTwoOwners) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  const bool shared = kind_.name == "read";
  const bool counts = kind_.name == "reentrant" || kind_.name == "write";
  const std::vector<Request> all = {Of('a'), Of('a', 2), Of('b'), Of('c')};
  const auto prepare = [&] {
    server_->Command({"FLUSHALL"});
    Take(all[0]);
    if (counts) Take(all[1]);
    Ask(all[2]);
    Ask(all[3]);
    return Keys();
  };
  const std::vector<std::string> keys = prepare();
  for (size_t i = 0; i < keys.size() * keys.size(); ++i) {
    const std::string &one = keys[i / keys.size()], &other = keys[i % keys.size()];
    SCOPED_TRACE(one + " and " + other);
    prepare();
    server_->Command({"DEL", one, other});
    for (int round = 0; round < 8; ++round) {
      for (const Request& waiter : {all[2], all[3]}) {
        if (round == 0) Ask(Again(waiter));
      }
      const std::set<std::string> owners = Owners(all);
      if (!shared) {
        EXPECT_LE(owners.size(), 1);
      }
      for (const Request& each : all) {
        if (owners.contains(each.client()) && Release(each) == kReleased) break;
      }
    }
    EXPECT_THAT(Owners(all), IsEmpty());
    for (const Request& each : all) Cancel(each);
    Take(Of('d'));
    if (counts) {
      Take(Of('d', 2));
      EXPECT_EQ(Release(Of('d')), kReleased);
      EXPECT_EQ(Outcome(Impatient(Of('e'))), "busy");
      EXPECT_EQ(Release(Of('d', 2)), kReleased);
    } else {
      EXPECT_EQ(Release(Of('d')), kReleased);
    }
    Take(Of('e'));
    server_->ExpectATtlOnEveryKey();
  }
}

class LockToken : public LockContract {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockToken, ::testing::ValuesIn(KindsWithTokens()), NameOfKind);
INSTANTIATE_TEST_SUITE_P(OfElections, LockToken, ::testing::Values(ElectionKind()), NameOfKind);

TEST_P(LockToken, GrowsThroughFlushAndFutureFence) {
  int64_t last = 0;
  for (int i = 1; i <= 50; ++i) {
    const int64_t token = Token(Of('a', i));
    EXPECT_GT(token, last);
    last = token;
    Release(Of('a', i));
    if (i % 10 == 0) server_->Command({"FLUSHALL"});
  }
  last += 3'600'000'000;
  server_->Command({"SET", Fence(), absl::StrCat(last)});
  EXPECT_EQ(Token(Of('b')), last + 1);
  EXPECT_GT(Pttl(Fence()), 25 * 3'600'000 - 60'000);
}

TEST_P(LockToken, FenceIsKnownForADayAfterItsLastUse) {
  for (int use = 1; use <= 3; ++use) {
    Token(Of('a', use));
    EXPECT_GE(Pttl(Fence()), 24 * 3'600'000);
    Release(Of('a', use));
    server_->Pass(1'000'000);
  }
}

TEST_P(LockToken, UnusedOnesOfLastBlockAreReturned) {
  Request request = Of('a');
  request.amount = 4096;
  const int64_t token = Token(request);
  EXPECT_EQ(StoredFence(), token + 4095);
  EXPECT_EQ(Release(request, token + 2, token + 4095), kReleased);
  EXPECT_EQ(StoredFence(), token + 2);
  EXPECT_GT(Pttl(Fence()), 86'000'000);
  const int64_t next = Token(Of('b'));
  EXPECT_EQ(Release(Of('b'), token + 2, token + 4095), kReleased);
  EXPECT_EQ(StoredFence(), next);
}

TEST_P(LockToken, CancelReturnsWholeBlock) {
  Request request = Of('a');
  request.amount = 10;
  const int64_t token = Token(request);
  EXPECT_EQ(StoredFence(), token + 9);
  EXPECT_EQ(Cancel(request), kPassedOn);
  EXPECT_EQ(StoredFence(), token - 1);
}

TEST_P(LockToken, InvalidFenceIsRefused) {
  for (const char* nonsense : {"hello", "-1", "nan", "1.5", "99999999999999999", ""}) {
    server_->Command({"SET", Fence(), nonsense, "PX", "30000"});
    ExpectRefused(Fence(), "WRONGTYPE " + Fence(), {Acquire(Of('a'))});
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << nonsense;
  }
}

// A release by a client of which another thread wants the lock: that is queued behind the others.

TEST_P(LockToken, RequeuedClientGetsLaterToken) {
  Inbox inbox(*server_, Channel('b'));
  Take(Of('a'));
  Ask(Of('b'));
  const redis::Reply reply = ReleaseAndQueue(Of('a'), Of('a', 2));
  ASSERT_EQ(reply.elements.size(), 5) << reply.DebugString();
  EXPECT_EQ(reply.elements[1].text, "queued");
  EXPECT_EQ(reply.elements[2].integer, 30000);
  EXPECT_EQ(reply.elements[3].integer, 0);
  EXPECT_EQ(Owner(), GrantId('b'));
  EXPECT_EQ(inbox.Next(), GrantOf(Of('b'), 1));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('a', 2)));
  EXPECT_EQ(First(ReleaseAndQueue(Of('a'), Of('a', 3))), "not_held");
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('a', 2)));
}

}  // namespace
}  // namespace redlatch
