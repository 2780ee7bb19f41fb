// A soak: many processes take locks and permits in every way that there is, while network, server
// and the processes themselves are disturbed at random; then all is whole again for a while, and
// they end. Each tells all others what it holds, and until when that is valid.
//
//   REDLATCH_SOAK=180        seconds of disturbance, by 16 processes. Where unset: 8 s, 6 processes
//   REDLATCH_SOAK_SEED=...   the one that a failure printed
//   REDLATCH_SOAK_LOG=1      print what was disturbed and when, also where nothing fails
#include <fcntl.h>
#include <sys/mman.h>

#include "src/base/random.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::FromEnvironment;

// Simple locks, reentrant ones, and semaphores, in turn.
constexpr int kObjects = 6;
constexpr int kCapacity = 3;
constexpr absl::Duration kShortestLease = absl::Milliseconds(300);
// Until the client's connections are made again; and for threads that run late.
constexpr absl::Duration kSlack = absl::Seconds(1);
constexpr size_t kMostLives = 512;
constexpr size_t kThreads = 2;  // of each process

std::string NameOf(int object) { return absl::StrCat("soak-", object); }
bool IsReentrant(int object) { return object % 3 == 1; }
bool IsSemaphore(int object) { return object % 3 == 2; }

// Draws that a seed repeats.
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

// Misuse is a fault of the test or of the library; losses are part of it.
class StrictObserver : public Observer {
  void OnLost(const LostLease&) override {}
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}
  void OnMisuse(std::string_view lock, std::string_view what) override {
    ADD_FAILURE() << lock << ": " << what;
  }
};

// What the threads of all processes hold, in a file that all of them have mapped.
class Board {
 public:
  explicit Board(const std::string& path) {
    const base::UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(ftruncate(file.get(), sizeof(Shared)), 0);
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    EXPECT_NE(memory, MAP_FAILED);
    shared_ = static_cast<Shared*>(memory);
  }
  ~Board() { munmap(shared_, sizeof(Shared)); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // The worker holds so much of the object until then.
  void Hold(int object, size_t worker, int amount, base::Instant until) {
    shared_->held[object][worker] = until.nanos() * (kCapacity + 1) + amount;
  }
  // Before it releases that.
  void LetGo(int object, size_t worker) { shared_->held[object][worker] = 0; }

  // Each acquisition of the worker, once it is on the board.
  void Judge(int object, size_t worker) {
    ++shared_->acquired[worker];
    const auto& held = shared_->held[object];
    std::vector<int64_t> before(held.begin(), held.end());
    // What has not changed from the first look to the second was held by all at one moment.
    for (size_t i = 0; i < before.size(); ++i) {
      if (held[i] != before[i]) before[i] = 0;
    }
    const int64_t now = base::Now().nanos();
    int64_t sum = 0;
    for (const int64_t each : before) {
      if (each / (kCapacity + 1) > now) sum += each % (kCapacity + 1);
    }
    if (sum > (IsSemaphore(object) ? kCapacity : 1)) ++shared_->violations;
  }
  // The token of a lock that is valid still is larger than that of any hold before it.
  template <class Handle>
  void JudgeToken(int object, const Handle& held) {
    const uint64_t token = held.fencing_token().value();
    const uint64_t before = shared_->tokens[object].exchange(token);
    if (held.valid() && before >= token) ++shared_->violations;
  }

  int64_t acquired(size_t worker) const { return shared_->acquired[worker]; }
  int64_t violations() const { return shared_->violations; }

 private:
  struct Shared {
    std::array<std::array<std::atomic<int64_t>, kMostLives * kThreads>, kObjects> held;
    std::array<std::atomic<int64_t>, kMostLives * kThreads> acquired;
    std::array<std::atomic<uint64_t>, kObjects> tokens;
    std::atomic<int64_t> violations;
  };

  Shared* shared_ = nullptr;
};

// One thread of a process: round after round it takes something, holds it for some time and gives
// it back.
class Worker {
 public:
  Worker(const Client& client, Board& board, size_t number, uint64_t seed,
         absl::Duration longest_lease)
      : board_(board), number_(number), longest_lease_(longest_lease), dice_(seed) {
    for (int object = 0; object < kObjects; ++object) {
      for (const absl::Duration lease :
           {kShortestLease, (kShortestLease + longest_lease) / 2, longest_lease}) {
        Object& made = objects_.emplace_back();
        made.number = object;
        if (IsSemaphore(object)) {
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
    while (!stopping) {
      Object& object =
          objects_[static_cast<size_t>(dice_.Below(static_cast<int>(objects_.size())))];
      object.lock != nullptr&& dice_.OneIn(3) ? ThroughStdFace(object) : ThroughStatusFace(object);
      if (dice_.OneIn(4)) Sleep(dice_.Between(absl::ZeroDuration(), absl::Milliseconds(20)));
    }
  }

 private:
  struct Object {
    int number = 0;
    std::unique_ptr<RedisLockBase> lock;
    std::unique_ptr<Semaphore> semaphore;
  };

  void ThroughStdFace(Object& object) {
    const int way = dice_.Below(4);
    const auto wait =
        absl::ToChronoNanoseconds(dice_.Between(absl::Milliseconds(1), longest_lease_));
    RedisLockBase& lock = *object.lock;
    try {
      if (way > 1) {
        lock.lock();
      } else if (!(way == 0 ? lock.try_lock() : lock.try_lock_for(wait))) {
        return;
      }
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable)) << error.what();
      return;
    }
    Use(object, 1, lock.current());
    lock.unlock();
  }

  void ThroughStatusFace(Object& object) {
    AcquireOptions options;
    const int way = dice_.Below(5);
    if (way < 2) options.wait = dice_.Between(absl::Milliseconds(1), longest_lease_);
    if (way == 1) options.lease = dice_.Between(kShortestLease, longest_lease_);
    if (way == 2) options.wait = absl::ZeroDuration();
    const int permits = 1 + dice_.Below(kCapacity);
    if (object.lock != nullptr) {
      Finish(object, 1, options, object.lock->Acquire(options));
    } else {
      Finish(object, permits, options, object.semaphore->Acquire(permits, options));
    }
  }
  template <class Handle>
  void Finish(const Object& object, int amount, const AcquireOptions& options,
              absl::StatusOr<Handle> held) {
    if (!held.ok()) {
      EXPECT_TRUE(IsBusy(held.status()) || absl::IsUnavailable(held.status())) << held.status();
      return;
    }
    // A lease of the user's own is now and then extended.
    if (options.lease && dice_.OneIn(2)) ExpectOkLostOrUnreachable(held->Extend(*options.lease));
    Use(object, amount, *held);
    if (dice_.OneIn(8)) return;  // the destructor's part
    for (int i = 0; i < 3; ++i) {
      const absl::Status released = held->Release();
      ExpectOkLostOrUnreachable(released);
      if (!absl::IsUnavailable(released)) break;
    }
  }

  // Tells that it is held, and keeps it for a while.
  template <class Handle>
  void Use(const Object& object, int amount, const Handle& held) {
    const auto note = [&] {
      const base::Instant asked = base::Now();
      const absl::Duration remaining = held.remaining();
      board_.Hold(object.number, number_, amount, asked + remaining);
      return remaining > absl::ZeroDuration();
    };
    bool valid = note();
    board_.Judge(object.number, number_);
    if constexpr (requires { held.fencing_token(); }) board_.JudgeToken(object.number, held);
    if (valid && IsReentrant(object.number) && dice_.OneIn(3)) Reenter(object);
    const base::Instant end = base::Now() + HowLong();
    while (base::Now() < end && (valid || !dice_.OneIn(2))) {
      Sleep(std::min(base::Until(end), absl::Milliseconds(20)));
      valid = note();
    }
    board_.LetGo(object.number, number_);
  }
  // An owner is never kept from what it has.
  static void Reenter(const Object& object) {
    const absl::StatusOr<Lease> again = object.lock->TryAcquire();
    EXPECT_TRUE(again.ok() || IsBusy(again.status()) || absl::IsUnavailable(again.status()))
        << again.status();
  }
  // Mostly short, now and then beyond the end of a lease.
  absl::Duration HowLong() {
    const int kind = dice_.Below(200);
    if (kind == 0) return dice_.Between(absl::ZeroDuration(), longest_lease_ * 1.2);
    return dice_.Between(absl::ZeroDuration(), absl::Milliseconds(kind < 30 ? 20 : 2));
  }
  static void ExpectOkLostOrUnreachable(const absl::Status& status) {
    EXPECT_TRUE(status.ok() || IsLeaseLost(status) || absl::IsUnavailable(status)) << status;
  }

  Board& board_;
  const size_t number_;
  const absl::Duration longest_lease_;
  Dice dice_;
  std::vector<Object> objects_;
};

// With a URL, the path of the board, its number, a seed, and its longest lease.
REDLATCH_CHILD(SoakingProcess) {
  Board board(args.at(1));
  const size_t life = std::stoul(args.at(2));
  Dice dice(std::stoull(args.at(3)));
  absl::Duration longest_lease;
  EXPECT_TRUE(absl::ParseDuration(args.at(4), &longest_lease));
  const Client client = Connect(args.at(0), {.connect = ConnectPolicy::kLazy,
                                             .observer = std::make_shared<StrictObserver>()});
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i, seed = dice.Seed()] {
      Worker(client, board, life * kThreads + i, seed, longest_lease).Work(stopping);
    });
  }
  (void)parent.ReadLine(absl::Hours(1));
  stopping = true;
  for (std::thread& thread : threads) thread.join();
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

  // Returns when all that was broken is whole again.
  void Rage() {
    const base::Instant end = base::Now() + absl::Seconds(seconds_ > 0 ? seconds_ : 8);
    while (base::Now() < end) {
      Strike();
      Sleep(dice_.Between(absl::Milliseconds(10), absl::Milliseconds(200)));
      Mend(base::Now());
    }
    Mend(base::Instant::Infinite());
  }
  // Asks all to end, and expects that they do, with nothing to complain about.
  void Dismiss() {
    for (const auto& member : members_) member->pipe().WriteLine("stop");
    for (const auto& member : members_) {
      const auto status = member->WaitFor(absl::Seconds(30));
      EXPECT_TRUE(status && status->success());
    }
  }
  // When every lease is over, all permits are back, and no key is left that has no business there.
  void ExpectNothingLeft() {
    const Client client = Connect(server_->url());
    for (int object = 0; object < kObjects; ++object) {
      if (!IsSemaphore(object)) continue;
      Semaphore semaphore(client, NameOf(object), kCapacity);
      EXPECT_TRUE(semaphore.Acquire(kCapacity, {.wait = longest_lease_ + kSlack}).ok());
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
  // Every worker acquires something once more, and none has seen what must not be.
  void ExpectAllAcquire() {
    for (const size_t life : lives_) {
      for (size_t worker = life * kThreads; worker < (life + 1) * kThreads; ++worker) {
        const int64_t before = board_.acquired(worker);
        EXPECT_TRUE(Await([&] { return board_.acquired(worker) > before; }, absl::Minutes(1)));
      }
    }
  }
  void ExpectNoViolation() const { EXPECT_EQ(board_.violations(), 0); }

  const int64_t seconds_ = FromEnvironment("REDLATCH_SOAK", 0);
  const absl::Duration longest_lease_ = absl::Seconds(seconds_ > 0 ? 2 : 1);
  const support::TempDir directory_;
  const std::string board_path_ = directory_.path() + "/board";
  Board board_{board_path_};

 private:
  struct Wound {
    std::string where;
    base::Instant until;
    std::function<void()> mend;
  };

  void Spawn(size_t member) {
    const size_t life = next_life_++;
    lives_[member] = life;
    // A proxy is a few members' way to the server.
    while (proxies_.size() <= member / 3) {
      proxies_.push_back(
          std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = server_->port()}));
    }
    members_[member] = support::SpawnChild(
        "SoakingProcess", {absl::StrCat(proxies_[member / 3]->url(),
                                        "?command_timeout=", life % 2 == 0 ? "1s" : "300ms"),
                           board_path_, absl::StrCat(life), absl::StrCat(dice_.Seed()),
                           absl::FormatDuration(longest_lease_)});
  }

  void Log(const std::string& what) {
    absl::StrAppend(&log_, base::Now().nanos() / 1000, " ", what, "\n");
  }
  // Until some moment before `longest` is over.
  void Wounded(const std::string& where, const std::string& what, absl::Duration longest,
               std::function<void()> mend) {
    Log(absl::StrCat(what, ": ", where));
    wounds_.push_back(
        {where, base::Now() + dice_.Between(absl::Milliseconds(1), longest), std::move(mend)});
  }
  bool IsWhole(std::string_view where) const {
    return std::none_of(wounds_.begin(), wounds_.end(),
                        [&](const Wound& wound) { return wound.where == where; });
  }
  void Mend(base::Instant now) {
    for (size_t i = 0; i < wounds_.size();) {
      if (now < wounds_[i].until) {
        ++i;
        continue;
      }
      const Wound wound = std::move(wounds_[i]);
      wounds_.erase(wounds_.begin() + static_cast<std::ptrdiff_t>(i));
      wound.mend();
      Log("mended: " + wound.where);
    }
  }

  void Strike() {
    const int kind = dice_.Below(20);
    if (kind < 3)
      return StrikeMember(static_cast<size_t>(dice_.Below(static_cast<int>(members_.size()))));
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
    }
  }
  void StrikeMember(size_t member) {
    const std::string where = absl::StrCat("member ", member);
    if (!IsWhole(where)) return;
    if (next_life_ < kMostLives && dice_.OneIn(2)) {
      Log("SIGKILL: " + where);
      members_[member]->Kill();
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
    const int kind = dice_.Below(6);
    if (kind == 0) {
      proxy.Delay(direction, dice_.Between(absl::Milliseconds(1), absl::Milliseconds(400)));
    } else if (kind < 3) {
      proxy.Hold(direction, kind == 1 ? Scope::kAll : Scope::kExisting);
    } else if (kind < 5) {
      proxy.Drop(direction, kind == 3 ? Scope::kAll : Scope::kExisting);
    } else {
      proxy.ResetAll();
    }
    constexpr const char* kWhat[] = {"delay", "hold",         "hold what is",
                                     "drop",  "drop what is", "reset all"};
    const char* const way = direction == Direction::kToServer ? " to server" : " to client";
    Wounded(where, absl::StrCat(kWhat[kind], way), longest_lease_, [&proxy] { proxy.Heal(); });
  }
  void Command(const std::vector<std::string>& words) {
    Log(absl::StrJoin(words, " "));
    server_->Command(words);
  }

  const int64_t seed_ = FromEnvironment("REDLATCH_SOAK_SEED",
                                        static_cast<int64_t>(base::RandomBits() % 1'000'000'000));
  Dice dice_{static_cast<uint64_t>(seed_)};
  const std::unique_ptr<RedisServer> server_ =
      RedisServer::Start({.append_only = true, .config = {"appendfsync always"}});
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
  size_t next_life_ = 0;
  std::vector<std::unique_ptr<support::Child>> members_ =
      std::vector<std::unique_ptr<support::Child>>(seconds_ > 0 ? 16 : 6);
  std::vector<size_t> lives_ = std::vector<size_t>(members_.size());
  std::vector<Wound> wounds_;
  std::string log_;
};

TEST_F(Soak, OfManyProcessesUnderEveryFaultNeverShowsTwoHoldersNorTooManyPermits) {
  Rage();
  ExpectAllAcquire();
  Dismiss();
  ExpectNothingLeft();
  ExpectNoViolation();
}

}  // namespace
}  // namespace redlatch
