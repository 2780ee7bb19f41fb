// What the scripts of every kind with one holder at a time promise. Each kind runs these tests.
#ifndef REDLATCH_TESTS_SIM_LUA_CONTRACT_FIXTURE_H_
#define REDLATCH_TESTS_SIM_LUA_CONTRACT_FIXTURE_H_

#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {

// A semaphore has one holder at a time if each takes all of its permits.
inline std::vector<LockKind> ExclusiveKinds() {
  return {SimpleKind(),   ReentrantKind(),  WriteKind(),
          ElectionKind(), SemaphoreKind(1), SemaphoreKind(2)};
}
inline std::vector<LockKind> KindsWithTokens() {
  return {SimpleKind(), ReentrantKind(), WriteKind()};
}

struct LockContract : LockScriptsFixture, ::testing::WithParamInterface<LockKind> {
  LockContract() : LockScriptsFixture(GetParam()) {}

  Request Of(char client, int sequence = 1) const { return By(client, sequence); }

  void Take(const Request& request) {
    const redis::Reply reply = Ask(request);
    EXPECT_EQ(First(reply), "granted") << reply.DebugString();
  }
  // The key that expires with the grant.
  std::string Leased() const { return kind_.leased.empty() ? name_ : Auxiliary(kind_.leased); }
  // In how many ms the only grant expires, with its key.
  void ExpectLease(int64_t more_than, int64_t at_most) {
    const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
    ASSERT_EQ(reply.elements.at(2).elements.size(), 1) << reply.DebugString();
    for (const int64_t lease :
         {reply.elements[2].elements[0].elements.at(2).integer, Pttl(Leased())}) {
      EXPECT_GT(lease, more_than);
      EXPECT_LE(lease, at_most + 1) << "some round up";
    }
  }
  // The grant that has the lock; "" if none does.
  std::string Owner() {
    const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
    const auto& holders = reply.elements.at(2).elements;
    EXPECT_LE(holders.size(), 1) << reply.DebugString();
    return holders.empty() ? "" : holders[0].elements.at(0).text;
  }
  // What a client is told that is granted what it waits for, with so many behind it.
  std::string GrantOf(const Request& request, int waiting = 0) {
    if (!kind_.has_tokens) return LockScriptsFixture::GrantOf(request);
    return LockScriptsFixture::GrantOf(request, StoredFence() - request.amount + 1, waiting);
  }
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_CONTRACT_FIXTURE_H_
