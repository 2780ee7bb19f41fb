// A soak test: many processes take locks and permits in every possible way, and campaign in an
// election, while network, server and the processes themselves suffer random faults. Then
// everything is repaired for a while, and the processes end. The checker judges the history of all
// calls: see tests/support/history_check/history_check.md.
//
// REDLATCH_SOAK=180        seconds of faults, with 16 processes. Default: 8 s, 6 processes
// REDLATCH_SOAK_SEED=...   the seed that a failure printed
// REDLATCH_SOAK_LOG=1      prints each fault and its time, even if nothing fails
#include <sys/mman.h>

#include "src/base/random.h"
#include "tests/support/acquire_as.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_writer.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using history::What;
using support::FromEnvironment;
using support::HistoryWriter;

// Simple locks, reentrant ones, and semaphores, in turn.
constexpr int kObjects = 6;
constexpr int kCapacity = 3;
constexpr char kElection[] = "soak-election";
constexpr absl::Duration kShortestLease = absl::Milliseconds(300);
// Time for the client to reconnect, and for threads that run late.
constexpr absl::Duration kSlack = absl::Seconds(1);

std::string NameOf(int object) { return absl::StrCat("soak-", object); }
bool IsReentrant(int object) { return object % 3 == 1; }
bool IsSemaphore(int object) { return object % 3 == 2; }

// Random choices that a seed repeats.
class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}
  int Below(int n) { return static_cast<int>(bits_() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const int64_t span = absl::ToInt64Microseconds(high - low) + 1;
    return low + absl::Microseconds(static_cast<int64_t>(bits_() % static_cast<uint64_t>(span)));
  }
  uint64_t Seed() { return bits_(); }

 private:
  std::mt19937_64 bits_;
};

// Misuse is a bug of the test or of the library; losses are expected.
class StrictObserver : public Observer {
  void OnLost(const LostLease&) override {}
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}
  void OnMisuse(std::string_view lock, std::string_view what) override {
    ADD_FAILURE() << lock << ": " << what;
  }
};

// Records what the handle says about its hold; returns false if that is over.
template <class Handle>
bool Sample(HistoryWriter& history, uint32_t call, const Handle& held) {
  const base::Instant asked = base::Now();
  const absl::Duration remaining = held.remaining();
  history.Remaining(call, asked, remaining);
  if (held.lost().stop_requested()) history.Lost(call);
  return remaining > absl::ZeroDuration();
}

void ExpectOkLostOrUnreachable(const absl::Status& status) {
  EXPECT_TRUE(status.ok() || IsLeaseLost(status) || absl::IsUnavailable(status)) << status;
}

// One thread of a process. In each round it takes an object, holds it for some time, releases it,
// and records what it saw.
class Worker {
 public:
  Worker(const Client& client, HistoryWriter& history, int thread, uint64_t seed,
         absl::Duration longest_lease)
      : history_(history), thread_(thread), longest_lease_(longest_lease), dice_(seed) {
    for (int object = 0; object < kObjects; ++object) {
      for (const absl::Duration lease :
           {kShortestLease, (kShortestLease + longest_lease) / 2, longest_lease}) {
        Object& made = objects_.emplace_back();
        made.number = object;
        made.lease = lease;
        if (IsSemaphore(object)) {
          history_.Note({.what = What::kSemaphore, .object = NameOf(object), .amount = kCapacity});
          made.semaphore = std::make_unique<Semaphore>(client, NameOf(object), kCapacity,
                                                       SemaphoreOptions{.lease = lease});
        } else if (IsReentrant(object)) {
          made.lock = std::make_unique<ReentrantLock>(client, NameOf(object), LockOptions{lease});
        } else {
          made.lock = std::make_unique<SimpleLock>(client, NameOf(object), LockOptions{lease});
        }
      }
    }
  }

  void Work(const std::atomic<bool>& stopping) {
    while (!stopping && !history_.full()) {
      Object& object =
          objects_[static_cast<size_t>(dice_.Below(static_cast<int>(objects_.size())))];
      owner_ = Owner();
      // If two threads shared permits taken by acquire(), the history could not tell which of them
      // release() returns.
      const bool std_interface = dice_.OneIn(3) && (object.lock != nullptr || thread_ == 0);
      std_interface ? ThroughStd(object) : ThroughStatus(object);
      // Pauses, holds and faults have random lengths; no event ends them.
      if (dice_.OneIn(4)) Sleep(dice_.Between(absl::ZeroDuration(), absl::Milliseconds(20)));
    }
  }

 private:
  struct Object {
    int number = 0;
    absl::Duration lease;
    std::unique_ptr<RedisLockBase> lock;
    std::unique_ptr<Semaphore> semaphore;
  };

  void ThroughStd(Object& object) {
    const int way = dice_.Below(4);
    const auto wait =
        absl::ToChronoNanoseconds(dice_.Between(absl::Milliseconds(1), longest_lease_));
    const auto take = [&](auto try_it, auto try_for, auto wait_for_it) {
      if (way == 0) return try_it();
      if (way == 1) return try_for();
      wait_for_it();
      return true;
    };
    const base::Instant asked = base::Now();
    const uint32_t call = Invoke(object, /*waits=*/way > 1);
    bool held = false;
    try {
      RedisLockBase* const lock = object.lock.get();
      Semaphore* const semaphore = object.semaphore.get();
      held = lock != nullptr ? take([=] { return lock->try_lock(); },
                                    [=] { return lock->try_lock_for(wait); }, [=] { lock->lock(); })
                             : take([=] { return semaphore->try_acquire(); },
                                    [=] { return semaphore->try_acquire_for(wait); },
                                    [=] { semaphore->acquire(); });
      if (!held) history_.Refused(call, /*certainly=*/true);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable)) << error.what();
      history_.Refused(call, /*certainly=*/false);
    }
    if (!held) return;
    if (object.lock != nullptr) {
      Use(call, object, object.lock->current());
      history_.ReleaseInvoked(call);
      return object.lock->unlock();
    }
    history_.Held(call, 0);
    // The std interface does not show the deadline, which is no earlier than this.
    history_.Remaining(call, asked, object.lease * 0.9);
    Sleep(HowLong());
    history_.ReleaseInvoked(call);
    object.semaphore->release();
  }

  void ThroughStatus(Object& object) {
    AcquireOptions options;
    const int way = dice_.Below(5);
    if (way < 2) options.wait = dice_.Between(absl::Milliseconds(1), longest_lease_);
    if (way == 1) options.lease = dice_.Between(kShortestLease, longest_lease_);
    if (way == 2) options.wait = absl::ZeroDuration();
    // In each process, one thread has this name.
    if (IsReentrant(object.number) && dice_.OneIn(4)) owner_ = Owner(absl::StrCat("job-", thread_));
    const int permits = 1 + dice_.Below(kCapacity);
    const uint32_t call =
        Invoke(object, /*waits=*/options.wait == absl::InfiniteDuration(), permits);
    if (object.lock != nullptr) {
      Finish(call, object, options, Acquire(*object.lock, options));
    } else {
      Finish(call, object, options, object.semaphore->Acquire(permits, options));
    }
  }
  template <class Handle>
  void Finish(uint32_t call, Object& object, const AcquireOptions& options,
              absl::StatusOr<Handle> held) {
    if (!held.ok()) {
      history_.Refused(call, IsBusy(held.status()));
      EXPECT_TRUE(IsBusy(held.status()) || absl::IsUnavailable(held.status())) << held.status();
      return;
    }
    Use(call, object, *held);
    // A manual lease is extended now and then.
    if (options.lease && dice_.OneIn(2)) {
      ExpectOkLostOrUnreachable(held->Extend(*options.lease));
      Sample(history_, call, *held);
    }
    history_.ReleaseInvoked(call);
    if (dice_.OneIn(8)) return;  // the destructor releases it
    for (int i = 0; i < 3; ++i) {
      const absl::Status released = held->Release();
      ExpectOkLostOrUnreachable(released);
      if (released.ok()) history_.Released(call);
      if (!absl::IsUnavailable(released)) break;
    }
  }

  absl::StatusOr<Lease> Acquire(RedisLockBase& lock, const AcquireOptions& options) const {
    return owner_.is_calling_thread() ? lock.Acquire(options)
                                      : support::AcquireAs(lock, owner_, options);
  }
  uint32_t Invoke(const Object& object, bool waits, int permits = 1) {
    const history::Kind kind = IsSemaphore(object.number)   ? history::Kind::kPermits
                               : IsReentrant(object.number) ? history::Kind::kReentrant
                                                            : history::Kind::kLock;
    const int owner = owner_.is_calling_thread() ? thread_ : -1 - thread_;
    return history_.Invoke(NameOf(object.number), kind, owner, waits, permits);
  }
  // Records that the object is held, and keeps it for a while; returns false if the hold is over.
  template <class Handle>
  void Use(uint32_t call, Object& object, const Handle& held) {
    uint64_t token = 0;
    if constexpr (requires { held.fencing_token(); }) token = held.fencing_token().value();
    history_.Held(call, token);
    if (!Sample(history_, call, held)) return;
    if (IsReentrant(object.number) && dice_.OneIn(3)) Reenter(object);
    const base::Instant end = base::Now() + HowLong();
    while (base::Now() < end) {
      Sleep(std::min(base::Until(end), absl::Milliseconds(20)));
      if (!Sample(history_, call, held) && dice_.OneIn(2)) return;
    }
  }
  // An owner may always reenter. If its hold is lost meanwhile, it acquires the object again, and
  // that is another acquisition.
  void Reenter(Object& object) {
    const uint32_t call = Invoke(object, /*waits=*/false);
    absl::StatusOr<Lease> again = Acquire(*object.lock, {.wait = absl::ZeroDuration()});
    if (!again.ok()) {
      history_.Refused(call, IsBusy(again.status()));
      EXPECT_TRUE(IsBusy(again.status()) || absl::IsUnavailable(again.status())) << again.status();
      return;
    }
    history_.Held(call, again->fencing_token().value());
    Sample(history_, call, *again);
    history_.ReleaseInvoked(call);
    (void)again->Release();
  }
  // Mostly short; sometimes longer than the lease.
  absl::Duration HowLong() {
    const int kind = dice_.Below(200);
    if (kind == 0) return dice_.Between(absl::ZeroDuration(), longest_lease_ * 1.2);
    return dice_.Between(absl::ZeroDuration(), absl::Milliseconds(kind < 30 ? 20 : 2));
  }

  HistoryWriter& history_;
  const int thread_;
  const absl::Duration longest_lease_;
  Dice dice_;
  std::vector<Object> objects_;
  Owner owner_;
};

// A store that fences: a file that all processes map. It has the largest epoch that has written,
// and how many writes were refused.
class Store {
 public:
  explicit Store(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    EXPECT_EQ(ftruncate(file_.get(), kSize), 0);
    void* const mapped = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    numbers_ = static_cast<std::atomic<uint64_t>*>(mapped);
  }
  // Returns false, and writes nothing, if a later leader has written.
  bool Write(uint64_t epoch) const {
    uint64_t largest = numbers_[0];
    while (largest <= epoch) {
      if (numbers_[0].compare_exchange_weak(largest, epoch)) return true;
    }
    ++numbers_[1];
    return false;
  }
  uint64_t refused() const { return numbers_[1]; }

 private:
  static constexpr size_t kSize = 2 * sizeof(std::atomic<uint64_t>);
  const base::UniqueFd file_;
  std::atomic<uint64_t>* numbers_ = nullptr;
};

// A process's candidate and observer. The leader's value is "<process> <term> <revision>".
class Candidate {
 public:
  Candidate(const Client& client, HistoryWriter& history, const std::string& path, int process,
            uint64_t seed, absl::Duration longest_lease)
      : history_(history),
        process_(process),
        longest_lease_(longest_lease),
        dice_(seed),
        store_(std::filesystem::path(path).replace_filename(kStore)),
        seen_(path + kSeen, std::ios::app),
        election_(client, kElection, {dice_.Between(kShortestLease, longest_lease)}) {}

  void Work(const std::stop_token& stop) {
    for (int term = 1; !stop.stop_requested() && !history_.full(); ++term) {
      Observe();
      Lead(absl::StrCat(process_, " ", term), stop);
    }
  }
  // Without faults, and while that leader leads.
  void ExpectToKnow(const std::string& leader) {
    EXPECT_TRUE(Observe());
    EXPECT_TRUE(Await([&] {
      const base::MutexLock lock(mu_);
      return last_ == leader;
    }));
  }

  static constexpr char kSeen[] = ".seen";  // the file of what the process has seen
  static constexpr char kStore[] = "store";

 private:
  // Begins, unless it has begun.
  bool Observe() {
    if (observes_) return true;
    absl::StatusOr<Observation> began = election_.Observe([this](const auto& leader) {
      const base::MutexLock lock(mu_);
      last_ = leader ? leader->value : "";
      seen_ << (leader ? leader->epoch.value() : 0) << " " << last_ << std::endl;
    });
    EXPECT_TRUE(began.ok() || absl::IsUnavailable(began.status())) << began.status();
    observes_ = began.ok();
    if (observes_) observation_ = *std::move(began);
    return observes_;
  }
  void Lead(const std::string& name, const std::stop_token& stop) {
    AcquireOptions options = {.stop = stop};
    if (dice_.OneIn(3)) options.wait = dice_.Between(absl::ZeroDuration(), longest_lease_);
    const uint32_t call = history_.Invoke(kElection, history::Kind::kLock, /*owner=*/2,
                                          options.wait == absl::InfiniteDuration());
    absl::StatusOr<Leadership> leads = election_.Campaign(name + " 0", options);
    if (!leads.ok()) {
      const absl::Status& why = leads.status();
      EXPECT_TRUE(IsBusy(why) || absl::IsUnavailable(why) || absl::IsCancelled(why)) << why;
      return history_.Refused(call, IsBusy(why));
    }
    history_.Held(call, leads->epoch().value());
    const base::Instant end =
        base::Now() + dice_.Between(absl::ZeroDuration(), dice_.OneIn(20) ? longest_lease_ * 1.2
                                                                          : absl::Milliseconds(40));
    bool more = true;
    for (int revision = 1; more; ++revision) {
      more = base::Now() < end;  // so a leader that was frozen below writes once more
      const bool leads_before = Sample(history_, call, *leads);
      const bool written = store_.Write(leads->epoch().value());
      EXPECT_TRUE(written || !leads_before || !leads->valid()) << "a leader's write is refused";
      if (dice_.OneIn(2))
        ExpectOkLostOrUnreachable(leads->Proclaim(absl::StrCat(name, " ", revision)));
      Sleep(std::min(base::Until(end), absl::Milliseconds(10)));
    }
    history_.ReleaseInvoked(call);
    if (dice_.OneIn(4)) return;  // the destructor resigns
    const absl::Status resigned = leads->Resign();
    ExpectOkLostOrUnreachable(resigned);
    if (resigned.ok()) history_.Released(call);
  }

  HistoryWriter& history_;
  const int process_;
  const absl::Duration longest_lease_;
  Dice dice_;
  const Store store_;
  base::Mutex mu_;
  std::ofstream seen_ ABSL_GUARDED_BY(mu_);
  std::string last_ ABSL_GUARDED_BY(mu_);
  Election election_;
  bool observes_ = false;
  Observation observation_;
};

// The arguments are a URL, the path of the history, the process's number, a seed, and the longest
// lease.
REDLATCH_CHILD(SoakingProcess) {
  HistoryWriter history(args.at(1), std::stoi(args.at(2)));
  Dice dice(std::stoull(args.at(3)));
  absl::Duration longest_lease;
  EXPECT_TRUE(absl::ParseDuration(args.at(4), &longest_lease));
  const Client client = Connect(args.at(0), {.connect = ConnectPolicy::kLazy,
                                             .observer = std::make_shared<StrictObserver>()});
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i, seed = dice.Seed()] {
      Worker(client, history, i, seed, longest_lease).Work(stopping);
    });
  }
  Candidate candidate(client, history, args.at(1), std::stoi(args.at(2)), dice.Seed(),
                      longest_lease);
  std::jthread campaigns([&](const std::stop_token& stop) { candidate.Work(stop); });
  const std::optional<std::string> leader = parent.ReadLine(absl::Hours(1));
  stopping = true;
  for (std::thread& thread : threads) thread.join();
  campaigns.request_stop();
  campaigns.join();
  if (leader) candidate.ExpectToKnow(*leader);
  return 0;
}

class Soak : public ::testing::Test {
 protected:
  Soak() {
    std::printf("REDLATCH_SOAK_SEED=%lld\n", static_cast<long long>(seed_));
    std::fflush(stdout);
    for (size_t i = 0; i < members_.size(); ++i) Spawn(i);
  }
  void TearDown() override {
    if (HasFailure() || FromEnvironment("REDLATCH_SOAK_LOG", 0) != 0) {
      std::fputs(log_.c_str(), stderr);
    }
  }

  // Returns when all faults are repaired.
  void Rage() {
    const base::Instant end = base::Now() + absl::Seconds(seconds_ > 0 ? seconds_ : 8);
    while (base::Now() < end) {
      Strike();
      Sleep(dice_.Between(absl::Milliseconds(10), absl::Milliseconds(200)));
      Repair(base::Now());
    }
    Repair(base::Instant::Infinite());
  }
  // Asks all processes to end, and expects that they know the last leader and report no problem.
  void Dismiss() {
    const auto last =
        Must(Election(client_, kElection).Campaign("-1 1 0", {.wait = absl::Seconds(30)}));
    for (const auto& member : members_) member->pipe().WriteLine("-1 1 0");
    for (const auto& member : members_) {
      const auto status = member->WaitFor(absl::Seconds(30));
      EXPECT_TRUE(status && status->success());
    }
  }
  // Every lease has expired. All permits must be back, and no unexpected key may be left.
  void ExpectNothingLeft() {
    const Client client = Connect(server_->url());
    for (int object = 0; object < kObjects; ++object) {
      if (!IsSemaphore(object)) continue;
      EXPECT_TRUE(Semaphore(client, NameOf(object), kCapacity)
                      .Acquire(kCapacity, {.wait = longest_lease_ + kSlack})
                      .ok());
    }
    std::vector<std::string> left;
    (void)Await(
        [&] {
          left.clear();
          for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
            EXPECT_NE(server_->Integer({"PTTL", key.text}), -1) << key.text;
            if (!key.text.ends_with(":fence") && !key.text.starts_with("redlatch:client:") &&
                server_->Text({"HGET", key.text, "kind"}) != "semaphore/2") {
              left.push_back(key.text);
            }
          }
          return left.empty();
        },
        2 * longest_lease_ + kSlack);
    EXPECT_THAT(left, IsEmpty());
  }
  // The history must keep every promise, and something was acquired after `calm`.
  void ExpectTrue(base::Instant calm) {
    std::vector<std::string> files = {notes_path_};
    files.insert(files.end(), histories_.begin(), histories_.end());
    const history::History history = Must(history::ReadHistory(std::move(files)));
    const history::HistoryChecker checker = history::Judge(history);
    for (const history::Violation& violation : checker.violations()) {
      ADD_FAILURE() << history::Words(violation, history);
    }
    int64_t held = 0;
    int64_t calm_held = 0;
    for (const history::HistoryEvent& event : history.events) {
      if (event.what != What::kOk || event.until != 0) continue;
      ++held;
      calm_held += calm.nanos() < event.time ? 1 : 0;
    }
    EXPECT_GT(calm_held, 0);
    std::printf("%zu events, %lld holds by %zu processes, %lld of them in calm\n",
                history.events.size(), static_cast<long long>(held), histories_.size(),
                static_cast<long long>(calm_held));
  }

  // Each observer saw epochs and revisions only rise, and all saw the same leader in an epoch.
  void ExpectOrderedElections() {
    std::map<uint64_t, std::string> leaders;
    int64_t seen = 0;
    for (const std::string& path : histories_) {
      std::ifstream file(path + Candidate::kSeen);
      std::pair<uint64_t, int> last;
      bool over = false;
      uint64_t epoch = 0;
      for (std::string line; std::getline(file, line); ++seen) {
        const std::vector<std::string> words = absl::StrSplit(line, ' ');
        ASSERT_TRUE(absl::SimpleAtoi(words.at(0), &epoch)) << line;
        const bool was_over = std::exchange(over, epoch == 0);
        if (over) continue;
        const std::pair<uint64_t, int> now = {epoch, std::stoi(words.at(3))};
        EXPECT_TRUE(was_over ? last.first < epoch : last < now || last.first == 0)
            << path << ": " << line << " after " << last.first << " " << last.second;
        last = now;
        const std::string name = absl::StrCat(words[1], " ", words[2]);
        EXPECT_EQ(leaders.try_emplace(epoch, name).first->second, name) << "in epoch " << epoch;
      }
    }
    EXPECT_GT(leaders.size(), 0);
    std::printf(
        "%zu leaders, %d of them killed or frozen, %lld of their writes refused; %lld changes\n",
        leaders.size(), struck_leaders_,
        static_cast<long long>(Store(directory_.path() + "/" + Candidate::kStore).refused()),
        static_cast<long long>(seen));
  }

  const int64_t seconds_ = FromEnvironment("REDLATCH_SOAK", 0);
  const absl::Duration longest_lease_ = absl::Seconds(seconds_ > 0 ? 2 : 1);
  const support::TempDir directory_;
  const std::string notes_path_ = directory_.path() + "/parent";
  HistoryWriter notes_{notes_path_, -1};

 private:
  struct Wound {
    std::string where;
    base::Instant until;
    std::function<void()> repair;
  };

  void Spawn(size_t member) {
    const size_t life = histories_.size();
    histories_.push_back(absl::StrCat(directory_.path(), "/", life));
    // so that it exists even if the process is killed early
    const std::ofstream exists(histories_.back());
    lives_[member] = life;
    // A few processes share each proxy.
    while (proxies_.size() <= member / 3) {
      proxies_.push_back(
          std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = server_->port()}));
    }
    members_[member] = support::SpawnChild(
        "SoakingProcess", {absl::StrCat(proxies_[member / 3]->url(),
                                        "?command_timeout=", life % 2 == 0 ? "1s" : "300ms"),
                           histories_.back(), absl::StrCat(life), absl::StrCat(dice_.Seed()),
                           absl::FormatDuration(longest_lease_)});
  }

  void Log(const std::string& what) {
    absl::StrAppend(&log_, base::Now().nanos() / 1000, " ", what, "\n");
  }
  // Repairs it at a random moment before `longest` is over.
  void Wounded(const std::string& where, const std::string& what, absl::Duration longest,
               std::function<void()> repair) {
    Log(absl::StrCat(what, ": ", where));
    wounds_.push_back(
        {where, base::Now() + dice_.Between(absl::Milliseconds(1), longest), std::move(repair)});
  }
  bool IsWhole(std::string_view where) const {
    return std::none_of(wounds_.begin(), wounds_.end(),
                        [&](const Wound& wound) { return wound.where == where; });
  }
  void Repair(base::Instant now) {
    for (size_t i = 0; i < wounds_.size();) {
      if (now < wounds_[i].until) {
        ++i;
        continue;
      }
      const Wound wound = std::move(wounds_[i]);
      wounds_.erase(wounds_.begin() + static_cast<std::ptrdiff_t>(i));
      wound.repair();
      Log("repaired: " + wound.where);
    }
  }

  void Strike() {
    const int kind = dice_.Below(20);
    if (kind < 3) {
      const auto any = static_cast<size_t>(dice_.Below(static_cast<int>(members_.size())));
      return StrikeMember(dice_.OneIn(2) && IsWhole("server") ? LeaderOr(any) : any);
    }
    if (kind < 13)
      return StrikeNetwork(static_cast<size_t>(dice_.Below(static_cast<int>(proxies_.size()))));
    if (!IsWhole("server")) return;
    if (kind == 13) {
      server_->Kill();
      Wounded("server", "SIGKILL", absl::Milliseconds(500), [this] { server_->Restart(); });
    } else if (kind == 14) {
      server_->Stop();
      Wounded("server", "SIGSTOP", longest_lease_ * 1.2, [this] { server_->Continue(); });
    } else if (kind == 15) {
      Command({"SCRIPT", "FLUSH"});
    } else if (kind < 18) {
      Command({"CLIENT", "KILL", "TYPE", kind == 16 ? "normal" : "pubsub", "SKIPME", "yes"});
    } else if (kind == 18) {
      Force(dice_.Below(kObjects + 1));
    }
  }
  // The member that leads, or `other` if there is none.
  size_t LeaderOr(size_t other) {
    const auto leader = Election(client_, kElection).Leader();
    if (!leader.ok() || !*leader) return other;
    const auto life = static_cast<size_t>(std::atoll((*leader)->value.c_str()));
    const auto found = std::find(lives_.begin(), lives_.end(), life);
    const auto at = static_cast<size_t>(found - lives_.begin());
    if (found == lives_.end() || !IsWhole(absl::StrCat("member ", at))) return other;
    ++struck_leaders_;
    return at;
  }
  void StrikeMember(size_t member) {
    const std::string where = absl::StrCat("member ", member);
    if (!IsWhole(where)) return;
    if (dice_.OneIn(2)) {
      Log("SIGKILL: " + where);
      members_[member]->Kill();
      notes_.EndCallsOf(histories_[lives_[member]]);
      return Spawn(member);
    }
    members_[member]->Stop();
    Wounded(where, "SIGSTOP", longest_lease_ * 1.5, [=, this] { members_[member]->Continue(); });
  }
  void StrikeNetwork(size_t victim) {
    const std::string where = absl::StrCat("proxy ", victim);
    if (!IsWhole(where)) return;
    TcpProxy& proxy = *proxies_[victim];
    const Direction direction = dice_.OneIn(2) ? Direction::kToServer : Direction::kToClient;
    const int kind = dice_.Below(8);
    if (kind == 0) {
      proxy.Delay(direction, dice_.Between(absl::Milliseconds(1), absl::Milliseconds(400)));
    } else if (kind < 3) {
      proxy.Hold(direction, kind == 1 ? Scope::kAll : Scope::kExisting);
    } else if (kind == 3) {
      proxy.DropReplies(1 + dice_.Below(4));
    } else if (kind == 4) {
      proxy.Drop(direction, Scope::kExisting);
    } else if (kind == 5) {
      proxy.CutAfter(direction, dice_.Below(300));
    } else if (kind == 6) {
      proxy.ResetAll();
    } else {
      proxy.HalfClose(direction);
    }
    constexpr const char* kWhat[] = {"delay", "hold", "hold what is", "drop replies",
                                     "drop",  "cut",  "reset all",    "half close"};
    const char* const way = direction == Direction::kToServer ? " to server" : " to client";
    Wounded(where, absl::StrCat(kWhat[kind], way), longest_lease_, [&proxy] { proxy.Heal(); });
  }
  void Command(const std::vector<std::string>& words) {
    Log(absl::StrJoin(words, " "));
    server_->Command(words);
  }
  void Force(int object) {
    Log(absl::StrCat("force ", object));
    const std::string name = object == kObjects ? kElection : NameOf(object);
    const uint32_t call = notes_.Begin({.what = What::kForce, .object = name});
    const absl::Status status = object == kObjects ? Election(client_, name).ForceRelease()
                                : IsSemaphore(object)
                                    ? Semaphore(client_, name, kCapacity).ForceRelease()
                                : IsReentrant(object) ? ReentrantLock(client_, name).ForceRelease()
                                                      : SimpleLock(client_, name).ForceRelease();
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    // A call without a reply may be executed somewhat later.
    const absl::Duration later = status.ok() ? absl::ZeroDuration() : absl::Seconds(2);
    notes_.Note(call, {.time = (base::Now() + later).nanos(), .what = What::kOk});
  }

  const int64_t seed_ = FromEnvironment("REDLATCH_SOAK_SEED",
                                        static_cast<int64_t>(base::RandomBits() % 1'000'000'000));
  Dice dice_{static_cast<uint64_t>(seed_)};
  const std::unique_ptr<RedisServer> server_ =
      RedisServer::Start({.append_only = true, .config = {"appendfsync always"}});
  const Client client_ = Connect(server_->url());
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
  std::vector<std::string> histories_;  // one per life of a process
  std::vector<std::unique_ptr<support::Child>> members_ =
      std::vector<std::unique_ptr<support::Child>>(seconds_ > 0 ? 16 : 6);
  std::vector<size_t> lives_ = std::vector<size_t>(members_.size());
  int struck_leaders_ = 0;
  std::vector<Wound> wounds_;
  std::string log_;
};

TEST_F(Soak, ExclusionHoldsUnderEveryFault) {
  Rage();
  // The head of a queue asks again when a dead holder's lease could be over.
  const absl::Duration bound = longest_lease_ + longest_lease_ / 3 + kSlack;
  const base::Instant calm = base::Now();
  notes_.Note({.what = What::kCalm, .amount = absl::ToInt64Nanoseconds(bound)});
  Sleep(bound + kSlack);  // until the holds of killed processes have expired
  notes_.Note({.what = What::kStorm});
  Dismiss();
  ExpectNothingLeft();
  ExpectTrue(calm);
  ExpectOrderedElections();
}

}  // namespace
}  // namespace redlatch
