// Four Java and four C++ processes share a lock, while processes are killed and connections are
// cut. The checker judges the history of all calls: see tests/support/history_check.
//
// REDLATCH_SOAK=60         seconds for each kind. Default: 3 s, and only some of the kinds
// REDLATCH_SOAK_SEED=...   the seed that a failure printed
// REDLATCH_SOAK_LOG=1      prints disturbances and long waits, even if nothing fails
#include <time.h>

#include "absl/strings/str_format.h"
#include "src/base/random.h"
#include "tests/redisson/redisson_testing.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_writer.h"

namespace redlatch {
namespace {

using history::What;
using support::FromEnvironment;
using support::HistoryWriter;

constexpr size_t kEach = 4;  // processes of each language
constexpr int kPermits = 3;
// Redisson does not know when a lease has ended, so no disturbance may last as long.
constexpr absl::Duration kLease = absl::Seconds(2);
constexpr absl::Duration kLongestCut = absl::Milliseconds(300);
// After a waiter was killed, a fair lock gives up on it when the rest of the lease is over, and
// this time for each waiter until it.
constexpr absl::Duration kFairWait = absl::Milliseconds(500);
constexpr char kObject[] = "object";

int64_t SoakSeconds() { return FromEnvironment("REDLATCH_SOAK", 0); }

std::vector<std::string> SoakKinds() {
  if (SoakSeconds() == 0) return {"lock", "fair", "read_write"};
  return {"lock", "fenced", "fair", "read_write", "semaphore", "expirable"};
}
bool HasPermits(const std::string& kind) { return kind == "semaphore" || kind == "expirable"; }
// A Java program that is killed or cut off keeps such a permit for ever.
bool JavaLeaksPermits(const std::string& kind) { return kind == "semaphore"; }

uint64_t SoakSeed() {
  static const auto seed = static_cast<uint64_t>(FromEnvironment(
      "REDLATCH_SOAK_SEED", static_cast<int64_t>(base::RandomBits() % 1'000'000'000)));
  return seed;
}

absl::Duration Between(std::mt19937_64& dice, absl::Duration low, absl::Duration high) {
  const int64_t span = absl::ToInt64Microseconds(high - low) + 1;
  return low + absl::Microseconds(static_cast<int64_t>(dice() % static_cast<uint64_t>(span)));
}

std::unique_ptr<redisson::Semaphore> MakeSemaphore(const Client& client, const std::string& kind) {
  const SemaphoreOptions options = {.lease = kLease};
  if (kind == "semaphore") return std::make_unique<redisson::Semaphore>(client, kObject, options);
  return std::make_unique<redisson::PermitExpirableSemaphore>(client, kObject, options);
}

// What a process reports although it may be killed before it ends.
void NoteProblem(const std::string& history, const absl::Status& status) {
  std::ofstream(history + ".problems", std::ios::app) << status << std::endl;
}

// The C++ side: acquires the object, holds it for a short time and releases it, again and again.
class Soaker {
 public:
  Soaker(const Client& client, const std::string& path, int process, const std::string& kind,
         uint64_t seed)
      : path_(path), history_(path, process), dice_(seed) {
    if (HasPermits(kind)) semaphore_ = MakeSemaphore(client, kind);
    if (kind == "read_write") {
      both_ = std::make_unique<redisson::ReadWriteLock>(client, kObject, LockOptions{kLease});
    } else if (kind == "fair") {
      lock_ = std::make_unique<redisson::FairLock>(client, kObject, LockOptions{kLease}, kFairWait);
    } else if (kind == "fenced") {
      lock_ = std::make_unique<redisson::FencedLock>(client, kObject, LockOptions{kLease});
    } else {
      lock_ = std::make_unique<redisson::Lock>(client, kObject, LockOptions{kLease});
    }
  }

  void Work(const std::atomic<bool>& stopping) {
    while (!stopping && !history_.full()) {
      if (semaphore_ != nullptr) {
        const uint32_t call = Invoke(history::Kind::kPermits);
        Finish(call, semaphore_->Acquire());
      } else if (both_ != nullptr && dice_() % 3 > 0) {
        const uint32_t call = Invoke(history::Kind::kRead);
        Finish(call, both_->AcquireRead());
      } else if (both_ != nullptr) {
        const uint32_t call = Invoke(history::Kind::kWrite);
        Finish(call, both_->AcquireWrite());
      } else {
        const uint32_t call = Invoke(history::Kind::kLock);
        Finish(call, lock_->Acquire());
      }
      Pause();
    }
  }

 private:
  uint32_t Invoke(history::Kind kind) {
    return history_.Invoke(kObject, kind, /*owner=*/0, /*waits=*/true);
  }
  // Lengths of holds and pauses are random; no event ends them.
  void Pause() { Sleep(Between(dice_, absl::ZeroDuration(), absl::Milliseconds(2))); }

  template <class Handle>
  void Finish(uint32_t call, absl::StatusOr<Handle> held) {
    if (!held.ok()) {
      if (!absl::IsUnavailable(held.status())) NoteProblem(path_, held.status());
      return history_.Refused(call, /*certainly=*/false);
    }
    uint64_t token = 0;
    if constexpr (requires { held->fencing_token(); }) token = held->fencing_token().value();
    history_.Held(call, token);
    Sample(call, *held);
    Pause();
    Sample(call, *held);
    history_.ReleaseInvoked(call);
    const absl::Status released = held->Release();
    if (released.ok()) return history_.Released(call);
    if (!IsLeaseLost(released) && !absl::IsUnavailable(released)) NoteProblem(path_, released);
  }
  template <class Handle>
  void Sample(uint32_t call, const Handle& held) {
    const base::Instant asked = base::Now();
    history_.Remaining(call, asked, held.remaining());
  }

  const std::string path_;
  HistoryWriter history_;
  std::mt19937_64 dice_;
  std::unique_ptr<RedisLockBase> lock_;
  std::unique_ptr<redisson::ReadWriteLock> both_;
  std::unique_ptr<redisson::Semaphore> semaphore_;
};

// Arguments: a URL, the path of the history, the process's number, a seed, and the kind.
REDLATCH_CHILD(RedissonSoaker) {
  const Client client = Connect(args.at(0), {.connect = ConnectPolicy::kLazy});
  std::atomic<bool> stopping{false};
  std::thread worker([&] {
    Soaker(client, args.at(1), std::stoi(args.at(2)), args.at(4), std::stoull(args.at(3)))
        .Work(stopping);
  });
  parent.ReadLine(absl::Hours(1));
  stopping = true;
  worker.join();
  return 0;
}

// The JVMs live as long as the program, except for those that are killed.
std::unique_ptr<JavaPeer>& Jvm(size_t index) {
  static std::array<std::unique_ptr<JavaPeer>, kEach> jvms;
  if (jvms.at(index) == nullptr) jvms.at(index) = std::make_unique<JavaPeer>();
  return jvms.at(index);
}

// They start at the same time.
void StartJvms() {
  for (size_t i = 0; i < kEach; ++i) (void)Jvm(i);
}

// Java's clock stands still while the machine is suspended, and ours does not.
int64_t ClockOffset() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return base::Now().nanos() - (int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

class RedissonSoak : public RedissonTest, public ::testing::WithParamInterface<std::string> {
 protected:
  struct Life {
    std::string history;
    bool is_java;
  };
  struct Member {
    bool is_java = false;
    size_t proxy = 0;
    std::string history;
    std::unique_ptr<support::Child> child;  // C++
    std::unique_ptr<JavaClient> java;
    std::optional<PendingReply> soaking;
  };

  void Start() override {
    StartJvms();
    RedissonTest::Start();
    std::printf("REDLATCH_SOAK_SEED=%llu\n", static_cast<unsigned long long>(SoakSeed()));
    std::fflush(stdout);
    if (HasPermits(kind())) {
      ASSERT_EQ(java().Do("1", kind() + ".trySetPermits", kObject, kPermits), "true");
      notes_.Note({.what = What::kSemaphore, .object = kObject, .amount = kPermits});
    }
    for (size_t i = 0; i < 4; ++i) {
      proxies_.push_back(
          std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = server().port()}));
    }
    for (size_t i = 0; i < 2 * kEach; ++i) {
      members_[i].is_java = i < kEach;
      members_[i].proxy = i / 2;
      Spawn(i);
    }
  }

  const std::string& kind() const { return GetParam(); }

  void Spawn(size_t index) {
    Member& member = members_[index];
    const size_t life = lives_.size();
    member.history = absl::StrCat(directory_.path(), "/", life);
    const std::ofstream exists(member.history);  // even if the process is killed early
    lives_.push_back({member.history, member.is_java});
    const std::string url = proxies_[member.proxy]->url();
    if (!member.is_java) {
      member.child = support::SpawnChild(
          "RedissonSoaker", {url + "?command_timeout=300ms", member.history, absl::StrCat(life),
                             absl::StrCat(dice_() % 1'000'000), kind()});
      return;
    }
    member.java = std::make_unique<JavaClient>(
        *Jvm(index), url, JavaClientOptions{.watchdog = kLease, .fair_wait = kFairWait});
    member.soaking = member.java->Send("soaker", "soak", kind(), kObject, member.history, life,
                                       ClockOffset(), dice_() % 1'000'000);
  }

  // Disturbs for that long. Then there is calm for as long as a killed process may delay others.
  void Rage(absl::Duration time) {
    began_ = base::Now();
    const base::Instant end = began_ + time;
    // After a kill, all may have to wait for the rest of the lease.
    const size_t turns_per_kill = SoakSeconds() > 0 ? 12 : 4;
    for (size_t turn = 1; base::Now() < end; ++turn) {
      if (turn % turns_per_kill == 0) {
        Strike(turn / turns_per_kill % 2 * kEach + dice_() % kEach);  // the languages in turn
      } else {
        Cut(dice_() % proxies_.size());
      }
      Sleep(Between(dice_, absl::Milliseconds(50), absl::Milliseconds(400)));
    }
    Sleep(kLease + absl::Seconds(1));
  }
  // SIGKILL, and another process takes its place.
  void Strike(size_t index) {
    Member& member = members_[index];
    ++kills_;
    Log(base::Now(), absl::StrCat("SIGKILL: ", member.history));
    if (member.is_java) {
      if (JavaLeaksPermits(kind())) Rest(member);
      Jvm(index)->Kill();
      member.java = nullptr;
      Jvm(index) = nullptr;
    } else {
      member.child->Kill();
    }
    EndHoldsOf(member.history);
    notes_.EndCallsOf(member.history);
    Spawn(index);
  }
  void Cut(size_t index) {
    if (JavaLeaksPermits(kind()) && index < kEach / 2) return;
    TcpProxy& proxy = *proxies_[index];
    const Direction direction = dice_() % 2 == 0 ? Direction::kToServer : Direction::kToClient;
    ++cuts_;
    const uint64_t way = dice_() % 5;
    Log(base::Now(), absl::StrCat("cut ", way, ": proxy ", index));
    switch (way) {
      case 0:
        proxy.ResetAll();
        break;
      case 1:
        proxy.DropReplies(1 + static_cast<int>(dice_() % 3));
        break;
      case 2:
        proxy.CutAfter(direction, static_cast<int64_t>(dice_() % 300));
        break;
      case 3:
        proxy.Hold(direction, Scope::kExisting);
        break;
      default:
        proxy.HalfClose(direction);
        break;
    }
    Sleep(Between(dice_, absl::Milliseconds(1), kLongestCut));
    proxy.Heal();
    Log(base::Now(), absl::StrCat("healed: proxy ", index));
  }
  void Log(base::Instant at, const std::string& what) {
    absl::StrAppend(&log_,
                    absl::StrFormat("%8.3f  %s\n", absl::ToDoubleSeconds(at - began_), what));
  }
  void LogLongWaits(const Life& life, const history::History& history) {
    int64_t asked = 0;
    for (const history::HistoryEvent& event : history.events) {
      if (event.what == What::kAcquire) asked = event.time;
      if (event.what != What::kOk && event.what != What::kUnknown) continue;
      const absl::Duration wait = absl::Nanoseconds(event.time - asked);
      if (wait < absl::Milliseconds(200)) continue;
      Log(base::Instant::FromNanos(event.time),
          absl::StrCat(life.history, life.is_java ? " (Java)" : " (C++)", " waited for ",
                       absl::FormatDuration(wait)));
    }
  }
  // A killed process has its holds no longer than until now.
  void EndHoldsOf(const std::string& path) {
    const history::History history = Must(history::ReadHistory({path}));
    std::set<absl::string_view> held;
    for (const history::HistoryEvent& event : history.events) {
      if (event.what == What::kOk) held.insert(event.call);
      if (event.what == What::kRelease || event.what == What::kLost) held.erase(event.call);
    }
    for (const absl::string_view call : held) notes_.Note({.call = call, .what = What::kLost});
  }

  static void Rest(Member& member) {
    EXPECT_EQ(member.java->Do("main", "rest"), "");
    const JavaReply reply = member.soaking->Get();
    EXPECT_TRUE(reply.ok) << reply.value;
  }
  // Each process ends after the acquisition for which it waits.
  void Dismiss() {
    for (Member& member : members_) {
      if (!member.is_java) member.child->pipe().WriteLine("end");
    }
    for (Member& member : members_) {
      if (member.is_java) {
        Rest(member);
        continue;
      }
      const auto status = member.child->WaitFor(absl::Seconds(30));
      EXPECT_TRUE(status && status->success());
    }
  }
  void ExpectAllPermitsBack() {
    if (!HasPermits(kind())) return;
    // Permits of killed processes come back when their leases end, if another asks for them.
    const auto semaphore = MakeSemaphore(client(), kind());
    const auto all = Must(semaphore->Acquire(kPermits, {.wait = kLong}));
    EXPECT_EQ(semaphore->AvailablePermits().value_or(-1), 0);
  }

  void ExpectNoProblems() {
    for (const Life& life : lives_) {
      std::ifstream file(life.history + ".problems");
      for (std::string line; std::getline(file, line);) ADD_FAILURE() << line;
    }
  }
  void ExpectTrueHistory() {
    std::vector<std::string> files = {notes_path_};
    for (const Life& life : lives_) files.push_back(life.history);
    const history::History history = Must(history::ReadHistory(std::move(files)));
    const history::HistoryChecker checker = history::Judge(history);
    for (const history::Violation& violation : checker.violations()) {
      ADD_FAILURE() << history::Words(violation, history);
    }
  }
  void TearDown() override {
    if (HasFailure() || FromEnvironment("REDLATCH_SOAK_LOG", 0) != 0) {
      std::fputs(log_.c_str(), stderr);
    }
  }

  // Counts the acquisitions since all processes were there. A fair lock gives each language at
  // least half of its share.
  void ExpectShares() {
    int64_t javas = 0;
    int64_t ours = 0;
    for (const Life& life : lives_) {
      const history::History history = Must(history::ReadHistory({life.history}));
      for (const history::HistoryEvent& event : history.events) {
        const bool counts = event.what == What::kOk && began_.nanos() < event.time;
        if (counts) ++(life.is_java ? javas : ours);
      }
      LogLongWaits(life, history);
    }
    const auto smaller = static_cast<double>(std::min(javas, ours));
    const double share = 2 * smaller / static_cast<double>(javas + ours);
    std::printf(
        "%s: %lld acquisitions by Java, %lld by C++: the smaller side has %.2f of its fair "
        "share; %d kills, %d cuts\n",
        kind().c_str(), static_cast<long long>(javas), static_cast<long long>(ours), share, kills_,
        cuts_);
    EXPECT_GT(smaller, 0);
    if (kind() == "fair") {
      EXPECT_GE(share, 0.5);
    }
  }

 private:
  std::mt19937_64 dice_{SoakSeed()};
  const support::TempDir directory_;
  const std::string notes_path_ = directory_.path() + "/parent";
  HistoryWriter notes_{notes_path_, -1};
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
  std::vector<Life> lives_;
  std::array<Member, 2 * kEach> members_;
  std::string log_;
  base::Instant began_;  // when all processes were there
  int kills_ = 0;
  int cuts_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Kinds, RedissonSoak, ::testing::ValuesIn(SoakKinds()),
                         [](const auto& its) { return its.param; });

TEST_P(RedissonSoak, ExclusionHoldsUnderKillsAndCuts) {
  Rage(absl::Seconds(SoakSeconds() > 0 ? SoakSeconds() : 3));
  Dismiss();
  ExpectAllPermitsBack();
  ExpectNoProblems();
  ExpectTrueHistory();
  ExpectShares();
}

// Two servers exclude nothing, and the history shows it.
TEST_F(RedissonTest, SoakNoticesOverlaps) {
  const auto other_server = RedisServer::Start();
  JavaClient other(SharedJvm(), other_server->url());
  const support::TempDir directory;
  std::vector<std::string> files;
  std::vector<PendingReply> soaking;
  int64_t process = 0;
  for (JavaClient* const each : {&java(), &other}) {
    files.push_back(absl::StrCat(directory.path(), "/", process));
    soaking.push_back(
        each->Send("soaker", "soak", "lock", kObject, files.back(), process++, ClockOffset(), 1));
  }
  EXPECT_TRUE(Await([&] {
    const absl::StatusOr<history::History> history = history::ReadHistory(files);
    return history.ok() && !history::Judge(*history).violations().empty();
  }));
  EXPECT_EQ(java().Do("main", "rest"), "");
  EXPECT_EQ(other.Do("main", "rest"), "");
  for (const PendingReply& each : soaking) EXPECT_TRUE(each.Get().ok) << each.Get().value;
}

// Arguments: a URL. In each round it counts a latch down, and waits until it is open.
REDLATCH_CHILD(RedissonLatchPeer) {
  const Client client = Connect(args.at(0), {.connect = ConnectPolicy::kLazy});
  while (const std::optional<std::string> name = parent.ReadLine(absl::Hours(1))) {
    redisson::CountDownLatch latch(client, *name);
    const absl::Status counted = latch.CountDown();
    parent.WriteLine(counted.ok() ? "counted" : counted.ToString());
    const absl::Status passed = latch.Wait({.wait = kLong});
    parent.WriteLine(passed.ok() ? "passed" : passed.ToString());
  }
  return 0;
}

// Rounds of a latch for which all processes and the test count. Java's connections are not cut,
// since it repeats no count whose reply is lost.
class RedissonLatchSoak : public RedissonTest {
 protected:
  void Start() override {
    StartJvms();
    RedissonTest::Start();
    proxy_ = std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = server().port()});
    for (size_t i = 0; i < kEach; ++i) {
      SpawnJava(i);
      SpawnCpp(i);
    }
  }
  void SpawnJava(size_t index) {
    javas_[index] = std::make_unique<JavaClient>(*Jvm(index), server().url());
  }
  void SpawnCpp(size_t index) {
    children_[index] =
        support::SpawnChild("RedissonLatchPeer", {proxy_->url() + "?command_timeout=300ms"});
  }

  // Cuts the connections of the C++ processes until the test ends.
  void Cut(const std::stop_token& stop) {
    for (int turn = 0; !stop.stop_requested(); ++turn) {
      turn % 2 == 0 ? proxy_->ResetAll() : proxy_->DropReplies(1);
      Sleep(Between(dice_of_cuts_, absl::Milliseconds(1), kLongestCut));
      proxy_->Heal();
    }
  }

  void Round(int round) {
    const std::string name = absl::StrCat("latch", round);
    redisson::CountDownLatch latch(client(), name);
    constexpr int64_t kCounts = 2 * kEach + 1;
    if (round % 2 == 0) {
      ASSERT_EQ(java().Do("1", "latch.trySetCount", name, kCounts), "true");
    } else {
      ASSERT_TRUE(latch.TrySetCount(kCounts).value_or(false));
    }
    std::vector<PendingReply> passes;
    for (const auto& child : children_) child->pipe().WriteLine(name);
    for (const auto& java : javas_) {
      EXPECT_EQ(java->Do("count", "latch.countDown", name), "");
      passes.push_back(java->Send("wait", "latch.await", name));
    }
    for (const auto& child : children_) ASSERT_EQ(child->pipe().ReadLine(), "counted");
    EXPECT_EQ(latch.Count().value_or(-1), 1);
    for (const PendingReply& pass : passes) EXPECT_FALSE(pass.done());

    // One waiter dies, if there is a kill in this round.
    const size_t killed = round % 10 == 9 ? dice_() % (2 * kEach) : 2 * kEach;
    if (killed < kEach) {
      Jvm(killed)->Kill();
      javas_[killed] = nullptr;
      Jvm(killed) = nullptr;
    } else if (killed < 2 * kEach) {
      children_[killed - kEach]->Kill();
    }
    if (round % 2 == 0) {
      ASSERT_TRUE(latch.CountDown().ok());
    } else {
      ASSERT_EQ(java().Do("1", "latch.countDown", name), "");
    }
    for (size_t i = 0; i < kEach; ++i) {
      EXPECT_EQ(passes[i].Get(kSoon).ok, killed != i) << passes[i].Get().value;
      if (killed == i + kEach) continue;
      ASSERT_EQ(children_[i]->pipe().ReadLine(kSoon), "passed");
    }
    if (killed < kEach) SpawnJava(killed);
    if (killed >= kEach && killed < 2 * kEach) SpawnCpp(killed - kEach);
  }

  std::mt19937_64 dice_{SoakSeed()};

 private:
  std::mt19937_64 dice_of_cuts_{SoakSeed() + 1};
  std::unique_ptr<TcpProxy> proxy_;
  std::array<std::unique_ptr<JavaClient>, kEach> javas_;
  std::array<std::unique_ptr<support::Child>, kEach> children_;
};

TEST_F(RedissonLatchSoak, EachCountCountsOnceAndWakesAll) {
  std::printf("REDLATCH_SOAK_SEED=%llu\n", static_cast<unsigned long long>(SoakSeed()));
  std::jthread cuts([this](const std::stop_token& stop) { Cut(stop); });
  const base::Instant end = base::Now() + absl::Seconds(SoakSeconds() > 0 ? SoakSeconds() : 3);
  int round = 0;
  for (; base::Now() < end; ++round) ASSERT_NO_FATAL_FAILURE(Round(round)) << round;
  std::printf("latch: %d rounds, %d kills\n", round, round / 10);
}

}  // namespace
}  // namespace redlatch
