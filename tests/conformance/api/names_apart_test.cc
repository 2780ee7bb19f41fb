// Names that look like other names' keys, and kinds of locks on one name: nothing is shared.

#include "src/api/simple_scripts.h"
#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

// Half of what a heartbeat takes.
constexpr absl::Duration kSoon = absl::Milliseconds(300);

class NamesApart : public ::testing::Test {
 protected:
  Client NewClient(std::string key_prefix = "") {
    return *Client::Connect(server_->url(), {.key_prefix = std::move(key_prefix)});
  }
  // Until so many wait at that queue.
  bool AwaitQueued(const std::string& main, const std::string& kind, int64_t waiting = 1) {
    const std::string queue = support::AuxiliaryKey(main, kind + ".queue");
    return Await([&] { return server_->Integer({"ZCARD", queue}) == waiting; });
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const Client a_ = NewClient();
  const Client b_ = NewClient();
};

using Waiter = std::future<absl::StatusOr<Lease>>;

// Waits in a thread of its own.
template <class Acquire>
Waiter Start(Acquire&& acquire) {
  return std::async(std::launch::async, std::forward<Acquire>(acquire));
}
bool IsDone(const Waiter& waiter, absl::Duration within = absl::ZeroDuration()) {
  return waiter.wait_for(absl::ToChronoNanoseconds(within)) == std::future_status::ready;
}

TEST_F(NamesApart, AReaderOfXLetsNobodyIntoAWrittenXInBraces) {
  ReentrantReadWriteLock braced(a_, "{x}");
  auto writes = braced.AcquireWrite();
  ASSERT_OK(writes);
  ReentrantReadWriteLock braced_too(b_, "{x}");
  Waiter reader = Start([&] { return braced_too.AcquireRead(); });
  ASSERT_TRUE(AwaitQueued("{x}", "rw"));
  ReentrantReadWriteLock plain(b_, "x");
  for (int i = 0; i < 3; ++i) {
    auto reads = plain.AcquireRead();
    ASSERT_OK(reads);
    EXPECT_OK(reads->Release());
  }
  ASSERT_OK(plain.AcquireWrite());
  EXPECT_FALSE(IsDone(reader, kSoon)) << "beside a valid writer";
  EXPECT_TRUE(writes->valid());
  EXPECT_OK(writes->Release());
  EXPECT_TRUE(IsDone(reader, kPatience));
  EXPECT_OK(reader.get());
}

TEST_F(NamesApart, BehindATaggedPrefixNoLockIsAnothersKey) {
  const Client a = NewClient("{app}:");
  const Client b = NewClient("{app}:");
  SimpleLock queue(a, "jobs:queue");
  SimpleLock fence(a, "jobs:fence");
  SimpleLock counted(a, "jobs:counted");
  auto holds_queue = queue.Acquire();
  auto holds_fence = fence.Acquire();
  auto holds_counted = counted.Acquire();
  ASSERT_OK(holds_queue);
  ASSERT_OK(holds_fence);
  ASSERT_OK(holds_counted);

  SimpleLock jobs(a, "jobs");
  auto holds_jobs = jobs.Acquire();
  ASSERT_OK(holds_jobs);
  SimpleLock jobs_too(b, "jobs");
  Waiter waiter = Start([&] { return jobs_too.Acquire(); });
  ASSERT_TRUE(AwaitQueued("{app}:jobs", "simple"));
  EXPECT_OK(holds_jobs->Release());
  auto got = waiter.get();
  ASSERT_OK(got);
  EXPECT_OK(got->Release());

  CountDownLatch latch(NewClient("{app}:"), "jobs", 2);
  EXPECT_OK(latch.CountDown());
  EXPECT_OK(latch.CountDown());
  EXPECT_TRUE(holds_counted->valid());
  EXPECT_EQ(CodeOf(SimpleLock(b, "jobs:counted").TryAcquire()), kBusy);
  EXPECT_EQ(CodeOf(SimpleLock(b, "jobs:queue").TryAcquire()), kBusy);
  EXPECT_OK(holds_counted->Release());
  EXPECT_OK(holds_queue->Release());
  EXPECT_OK(holds_fence->Release());
}

TEST_F(NamesApart, AWaiterOfOneKindIsNeverMadeTheOwnerOfAnother) {
  SimpleLock simple(a_, "n");
  auto holds = simple.Acquire();
  ASSERT_OK(holds);
  SimpleLock simple_too(b_, "n", {.lease = absl::Seconds(6)});  // asks each 2 s
  Waiter waiter = Start([&] { return simple_too.Acquire({.wait = kPatience}); });
  ASSERT_TRUE(AwaitQueued("n", "simple"));
  server_->Command({"DEL", "n"});  // as if its lease had ended
  const Client c = NewClient();
  ReentrantLock another(c, "n");
  const auto owns = another.Acquire({.wait = absl::ZeroDuration()});
  ASSERT_OK(owns);
  EXPECT_EQ(CodeOf(waiter.get()), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(owns->valid());
}

// A user's class that would like to have the keys of ours.
class Greedy : public RedisLockBase {
 public:
  Greedy(Client client, std::string_view name, std::vector<std::string> extra_keys,
         std::string_view kind = "simple")
      : RedisLockBase(std::move(client), name, {.lease = absl::Milliseconds(1500)}),
        extra_keys_(std::move(extra_keys)),
        kind_(kind) {}

 private:
  LockScripts Scripts() const override { return SimpleScripts(); }
  LockTraits Traits() const override { return {.kind = kind_}; }
  std::vector<std::string> ExtraKeys() const override { return extra_keys_; }

  const std::vector<std::string> extra_keys_;
  const std::string_view kind_;
};

TEST_F(NamesApart, AUsersClassHasAQueueAndKeysOfItsOwn) {
  SimpleLock simple(a_, "u");
  auto holds = simple.Acquire();
  ASSERT_OK(holds);
  SimpleLock simple_too(b_, "u");
  Waiter waiter = Start([&] { return simple_too.Acquire({.wait = kPatience}); });
  ASSERT_TRUE(AwaitQueued("u", "simple"));
  const Client c = NewClient();
  Greedy greedy(c, "u", {"queue", "fence", "simple", "rw.readers", "a.tag"});
  Waiter own = Start([&] { return greedy.Acquire({.wait = kPatience}); });
  ASSERT_TRUE(AwaitQueued("u", "x.simple"));
  EXPECT_TRUE(AwaitQueued("u", "simple"));
  EXPECT_OK(holds->Release());
  auto got = waiter.get();
  ASSERT_OK(got) << "who came first of its kind";
  EXPECT_FALSE(IsDone(own));
  EXPECT_OK(got->Release());
  EXPECT_OK(own.get());
}

TEST_F(NamesApart, AUsersClassIsRefusedAtFirstUseForAKindOrSuffixThatIsNoPartOfAKey) {
  const std::vector<std::pair<std::string, std::string_view>> bad = {
      {"a:b", "k"},       {"", "k"},  {"Queue", "k"},   {"simple.queue", "k"},
      {"k.waiters", "k"}, {"ok", ""}, {"ok", "a kind"}, {"ok", "a:b"}};
  for (const auto& [suffix, kind] : bad) {
    Greedy lock(a_, "bad", {suffix}, kind);
    const auto lease = lock.TryAcquire();
    EXPECT_EQ(CodeOf(lease), absl::StatusCode::kInvalidArgument) << suffix << " " << kind;
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("lock \"bad\""));
    EXPECT_EQ(CodeOf(lock.Inspect()), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(server_->LockKeys().size(), 0U);
}

TEST_F(NamesApart, APrefixBehindWhichNoNameCanStandIsRefusedAtConnect) {
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
