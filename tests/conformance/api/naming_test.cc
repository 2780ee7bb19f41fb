// Names and keys: which names a lock accepts, and what it does with foreign keys and owners.
#include <errno.h>

#include "absl/strings/escaping.h"
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kClockGrain = absl::Milliseconds(1);
// A reserved token may be this far ahead of the clock.
constexpr absl::Duration kBlock = absl::Milliseconds(5);

struct NamingTest : Conformance {
  std::string_view key_prefix() const { return GetParam().server_group.key_prefix; }
  // The part of a key that Redis Cluster hashes.
  static std::string Hashed(const std::string& key) {
    const size_t open = key.find('{');
    if (open == std::string::npos) return key;
    const size_t close = key.find('}', open);
    if (close == std::string::npos || close == open + 1) return key;
    return key.substr(open + 1, close - open - 1);
  }
  void ExpectKeysShareASlot(const std::string& name) {
    std::vector<std::string> slots = {Hashed(Key(name))};
    // With a prefix, the names of a MultiLock are not in one slot; clusters allow no prefix.
    if (GetParam().kind.name == "multi" && !key_prefix().empty()) {
      for (const std::string& each : ThreeNames(name)) slots.push_back(Hashed(Key(each)));
    }
    for (const std::string& key : server().LockKeys()) {
      if (key == Key(name)) continue;
      EXPECT_THAT(slots, ::testing::Contains(Hashed(key))) << absl::CHexEscape(key);
    }
  }

  const Client client_ = NewClient();
  const Client other_ = NewClient();
};

// For locks and semaphores.
class AnyNaming : public NamingTest {};
INSTANTIATE_CONFORMANCE(AnyNaming, WithoutSmoke(ExclusiveCases()));

TEST_P(AnyNaming, AcceptsAnyBytesWhoseKeysShareASlot) {
  for (const std::string& name : GoodNames(key_prefix())) {
    if (GetParam().kind.redisson && name == "half {open") continue;  // as in Java
    SCOPED_TRACE(absl::CHexEscape(name.substr(0, 40)));
    const auto lock = NewAny(client_, name);
    EXPECT_EQ(lock->name(), Called(name));
    auto lease = Must(Try(*lock));
    EXPECT_EQ(server().Integer({"EXISTS", Key(name)}), 1);
    EXPECT_EQ(CodeOf(NewAny(other_, name)->Acquire({.wait = absl::Milliseconds(1)})), kBusy);
    ExpectKeysShareASlot(name);
    const auto info = Must(lock->Inspect());
    EXPECT_EQ(info.holders.size(), 1);
    // The handover names the key, too.
    Crew crew;
    crew.Start([&] { EXPECT_OK(NewAny(other_, name)->Acquire({.wait = kTestTimeout})); });
    EXPECT_TRUE(Await([&] { return lock->Inspect()->waiting == 1; }));
    EXPECT_OK(lease.Release());
    crew.Join();
    server().Command({"FLUSHALL"});
  }
}

struct Naming : NamingTest {
  // A kind of lock that differs from this one.
  static const Kind& AnotherKind() {
    static const std::vector<Kind> kinds = Kinds();
    // A user's class that reuses the simple lock's scripts has the same type of key, and so have a
    // MultiLock and an Election.
    const std::string_view name = GetParam().kind.name;
    const bool string = name == "simple" || name == "multi" || name == "election";
    return string || GetParam().kind.of_users ? kinds[1] : kinds[0];
  }
};

TEST_P(Naming, RefusesOtherNamesAndWritesNothing) {
  for (const std::string& name : BadNames(key_prefix())) {
    SCOPED_TRACE(absl::CHexEscape(name.substr(0, 40)));
    const auto lock = NewLock(client_, name);
    const auto lease = lock->TryAcquire();
    EXPECT_EQ(CodeOf(lease), kBadInput) << lease.status();
    EXPECT_EQ(CodeOf(lock->Inspect()), kBadInput);
    EXPECT_EQ(CodeOf(lock->ForceRelease()), kBadInput);
    EXPECT_EQ(lock->hold_count(), 0);
    EXPECT_FALSE(lock->current().valid());
  }
  EXPECT_EQ(server().LockKeys().size(), 0);
}

TEST_P(Naming, LeavesKeyOfOtherTypeUnchanged) {
  server().Command({"RPUSH", Key(), "another", "program"});
  const auto lock = NewLock(client_);
  for (const absl::Duration wait : {absl::ZeroDuration(), absl::Milliseconds(50)}) {
    const auto lease = lock->Acquire({.wait = wait});
    EXPECT_EQ(CodeOf(lease), kMisuse) << lease.status();
  }
  EXPECT_EQ(CodeOf(lock->Acquire()), kMisuse);
  EXPECT_EQ(CodeOf(lock->Inspect()), kMisuse);
  EXPECT_EQ(CodeOf(lock->ForceRelease()), kMisuse);
  EXPECT_EQ(server().Integer({"LLEN", Key()}), 2);
  EXPECT_EQ(server().Integer({"PTTL", Key()}), -1);
  EXPECT_EQ(server().LockKeys().size(), 1);
  server().Command({"DEL", Key()});
  EXPECT_OK(Try(*lock));
}

TEST_P(Naming, SecondClassOnOneClientIsMisuse) {
  const auto lock = NewLock(client_);
  auto lease = Must(Try(*lock));
  const auto another = AnotherKind().make(client_, kName, Options());
  const auto refused = another->TryAcquire();
  EXPECT_EQ(CodeOf(refused), kMisuse);
  EXPECT_NE(refused.status().message().find(std::string(GetParam().kind.name)), std::string::npos);
  EXPECT_EQ(CodeOf(another->Inspect()), kMisuse);
  another->unlock();
  EXPECT_TRUE(lease.valid());
  EXPECT_OK(lease.Release());
}

TEST_P(Naming, InspectListsHoldersAndWaiters) {
  const Client waiting = NewClient({}, {.program = "one that waits"});
  const auto lock = NewLock(client_);
  auto info = lock->Inspect();
  ASSERT_OK(info);
  EXPECT_EQ(info->kind, GetParam().kind.of_users ? "simple" : GetParam().kind.name);
  EXPECT_TRUE(info->holders.empty());
  EXPECT_EQ(info->waiting, 0);
  EXPECT_EQ(info->holding, 0);
  const absl::Time begun = absl::Now() - kClockGrain;
  auto lease = Try(*lock);
  const absl::Time got = absl::Now();
  Crew crew;
  crew.Start([&] { EXPECT_OK(NewLock(waiting)->Acquire({.wait = kTestTimeout})); });
  ASSERT_TRUE(AwaitQueued(1));
  const absl::Time queued = absl::Now();
  info = NewLock(other_)->Inspect();
  ASSERT_OK(info);
  ASSERT_EQ(info->holders.size(), 1);
  EXPECT_EQ(info->holding, 1);
  EXPECT_EQ(info->holders[0].process.pid, getpid());
  EXPECT_EQ(info->holders[0].process.program, program_invocation_short_name);
  EXPECT_GT(info->holders[0].remaining, absl::ZeroDuration());
  EXPECT_LE(info->holders[0].remaining, kLease);
  EXPECT_GE(info->last_token, lease->fencing_token());
  EXPECT_EQ(info->waiting, 1);
  ASSERT_EQ(info->waiters.size(), GetParam().kind.has_queue() ? 1 : 0);
  if (GetParam().kind.redisson) {  // whose keys do not say since when
    EXPECT_OK(lease->Release());
    return;
  }
  EXPECT_GE(info->holders[0].since, begun);
  EXPECT_LE(info->holders[0].since, got + kBlock);
  EXPECT_NE(info->waiters[0].owner, info->holders[0].owner);
  EXPECT_EQ(info->waiters[0].process.pid, getpid());
  EXPECT_EQ(info->waiters[0].process.program, "one that waits");
  EXPECT_GE(info->waiters[0].since, got - kClockGrain);
  EXPECT_LE(info->waiters[0].since, queued);
  EXPECT_OK(lease->Release());
}

INSTANTIATE_CONFORMANCE(Naming, WithoutSmoke(LockCases()));

TEST(KeyPrefix, ThatFitsNoNameIsRefused) {
  const auto server = support::RedisServer::Start();
  for (const char* const prefix : {"redlatch:", "redlatch:app:", "{}"}) {
    for (const ConnectPolicy connect : {ConnectPolicy::kEager, ConnectPolicy::kLazy}) {
      const auto client =
          Client::Connect(server->url(), {.connect = connect, .key_prefix = prefix});
      EXPECT_EQ(CodeOf(client), absl::StatusCode::kInvalidArgument) << prefix;
      EXPECT_THAT(std::string(client.status().message()), HasSubstr("key_prefix"));
    }
  }
  EXPECT_OK(Client::Connect(server->url(), {.key_prefix = "redlatch-bench:"}));
}

}  // namespace
}  // namespace redlatch::conformance
