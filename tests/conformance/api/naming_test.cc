// Names and keys: which names a lock accepts, and what it does with foreign keys and owners.
#include <errno.h>

#include "absl/strings/escaping.h"
#include "lua/scripts.h"
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

constexpr absl::Duration kClockGrain = absl::Milliseconds(1);
// A reserved token may be this far ahead of the clock.
constexpr absl::Duration kBlock = absl::Milliseconds(5);

class NamingTest : public Conformance {
 protected:
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

class Naming : public NamingTest {
 protected:
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

TEST_P(Naming, SecondClassOnOtherClientIsMisuseWhileHeld) {
  auto lease = Must(NewLock(client_)->Acquire());
  // A quorum's servers serve other locks through other clients.
  const Client other = GetParam().kind.quorum ? ClientAt(server().first().url()) : other_;
  const auto another = AnotherKind().make(other, kName, Options());
  // Every lock that is stored as a string respects this one, whether it is redlatch's or not.
  const absl::StatusCode refusal = GetParam().kind.quorum ? kBusy : kMisuse;
  EXPECT_EQ(CodeOf(Try(*another)), refusal);
  EXPECT_EQ(CodeOf(another->Acquire({.wait = absl::Milliseconds(20)})), refusal);
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(CodeOf(Try(NewClient())), kBusy);
  EXPECT_OK(lease.Release());
  EXPECT_OK(Try(*another));
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

// Another program locks a simple lock's key with SET NX PX.
class ForeignOwner : public Naming {};

TEST_P(ForeignOwner, EndOfForeignLockIsNoticedWithinOnePoll) {
  for (const bool deletes : {true, false}) {
    ASSERT_TRUE(Await([&] {
      return !server()
                  .Command({"SET", Key(), "not redlatch", "NX", "PX", deletes ? "60000" : "300"})
                  .is_nil();
    }));
    const auto lock = NewLock(client_);
    EXPECT_EQ(CodeOf(Try(*lock)), kBusy);
    EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::Milliseconds(30)})), kBusy);
    Crew crew;
    std::atomic<int64_t> got{0};
    crew.Start([&] {
      const auto lease = Must(lock->Acquire({.wait = kTestTimeout}));
      got = base::Now().nanos();
    });
    ASSERT_TRUE(AwaitQueued(1));
    EXPECT_EQ(server().Text({"GET", Key()}), "not redlatch");
    if (deletes) {
      server().Command({"DEL", Key()});
    } else {
      EXPECT_TRUE(Await([&] { return server().Text({"GET", Key()}) != "not redlatch"; }));
    }
    Punctuality punctuality;
    const base::Instant ended = base::Now();
    crew.Join();
    punctuality.Note(ended, base::Instant::FromNanos(got));
    EXPECT_TRUE(punctuality.Within(absl::Milliseconds(500 + 100)));
  }
}

INSTANTIATE_CONFORMANCE(Naming, WithoutSmoke(LockCases()));
INSTANTIATE_CONFORMANCE(ForeignOwner, Where(WithoutSmoke(LockCases()), [](const Case& each) {
                          return each.kind.name == "simple";
                        }));

// Names that resemble other names' keys, and several kinds of lock under one name: they share
// nothing.

class NamesApart : public ::testing::Test {
 protected:
  Client NewClient(std::string key_prefix = "") {
    return *Client::Connect(server_->url(), {.key_prefix = std::move(key_prefix)});
  }
  // Waits until that many waiters are in the queue.
  bool AwaitQueued(const std::string& main, const std::string& kind, int64_t waiting = 1) {
    const std::string queue = support::AuxiliaryKey(main, kind + ".queue");
    return Await([&] { return server_->Integer({"ZCARD", queue}) == waiting; });
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const Client a_ = NewClient();
  const Client b_ = NewClient();
};

using Waiter = std::future<absl::StatusOr<Lease>>;

// Waits in a new thread.
template <class Acquire>
Waiter Start(Acquire&& acquire) {
  return std::async(std::launch::async, std::forward<Acquire>(acquire));
}
bool IsDone(const Waiter& waiter, absl::Duration within = absl::ZeroDuration()) {
  return waiter.wait_for(absl::ToChronoNanoseconds(within)) == std::future_status::ready;
}

TEST_F(NamesApart, WaiterNeverGetsLockOfOtherKind) {
  SimpleLock simple(a_, "n");
  auto holds = Must(simple.Acquire());
  SimpleLock simple_too(b_, "n", {.lease = absl::Seconds(6)});  // its heartbeats are 2 s apart
  Waiter waiter = Start([&] { return simple_too.Acquire({.wait = kTestTimeout}); });
  ASSERT_TRUE(AwaitQueued("n", "simple"));
  server_->Command({"DEL", "n"});  // as if its lease had expired
  const Client c = NewClient();
  ReentrantLock another(c, "n");
  const auto owns = Must(another.Acquire({.wait = absl::ZeroDuration()}));
  EXPECT_EQ(CodeOf(waiter.get()), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(owns.valid());
}

// A user's class that asks for keys of the library's own.
class Greedy : public RedisLockBase {
 public:
  Greedy(Client client, std::string_view name, std::vector<std::string> extra_keys)
      : RedisLockBase(std::move(client), name, {.lease = absl::Milliseconds(1500)}),
        extra_keys_(std::move(extra_keys)) {}

 private:
  LockScripts Scripts() const override { return lua::kSimpleScripts; }
  LockTraits Traits() const override { return {.kind = "simple"}; }
  std::vector<std::string> ExtraKeys() const override { return extra_keys_; }

  const std::vector<std::string> extra_keys_;
};

TEST_F(NamesApart, UsersClassHasItsOwnQueueAndKeys) {
  SimpleLock simple(a_, "u");
  auto holds = Must(simple.Acquire());
  SimpleLock simple_too(b_, "u");
  Waiter waiter = Start([&] { return simple_too.Acquire({.wait = kTestTimeout}); });
  ASSERT_TRUE(AwaitQueued("u", "simple"));
  const Client c = NewClient();
  Greedy greedy(c, "u", {"queue", "fence", "simple", "rw.readers", "a.tag"});
  Waiter own = Start([&] { return greedy.Acquire({.wait = kTestTimeout}); });
  ASSERT_TRUE(AwaitQueued("u", "x.simple"));
  EXPECT_TRUE(AwaitQueued("u", "simple"));
  EXPECT_OK(holds.Release());
  auto got = waiter.get();
  ASSERT_OK(got) << "the first waiter of its kind";
  EXPECT_FALSE(IsDone(own));
  EXPECT_OK(got->Release());
  EXPECT_OK(own.get());
}

TEST_F(NamesApart, ConnectRefusesPrefixThatFitsNoName) {
  for (const char* const prefix : {"redlatch:", "redlatch:app:", "{}"}) {
    for (const ConnectPolicy connect : {ConnectPolicy::kEager, ConnectPolicy::kLazy}) {
      const auto client =
          Client::Connect(server_->url(), {.connect = connect, .key_prefix = prefix});
      EXPECT_EQ(CodeOf(client), absl::StatusCode::kInvalidArgument) << prefix;
      EXPECT_THAT(std::string(client.status().message()), HasSubstr("key_prefix"));
    }
  }
  EXPECT_OK(Client::Connect(server_->url(), {.key_prefix = "redlatch-bench:"}));
}

}  // namespace
}  // namespace redlatch::conformance
