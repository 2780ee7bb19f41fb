// Fixtures for primitives other than plain locks, and what their tests share: outages, names,
// checks of std's requirements.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_FIXTURES_H_
#define REDLATCH_TESTS_CONFORMANCE_API_FIXTURES_H_

#include <sys/mman.h>

#include <concepts>

#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"
#include "tests/support/testing.h"

namespace redlatch::conformance {

enum class How : uint8_t { kHangs, kIsDown };

// The server hangs or is down during this scope.
class Outage {
 public:
  Outage(Servers& server, How how) : server_(server), how_(how) {
    how == How::kHangs ? server.Stop() : server.Kill();
  }
  ~Outage() { how_ == How::kHangs ? server_.Continue() : server_.Restart(); }
  Outage(const Outage&) = delete;
  Outage& operator=(const Outage&) = delete;

 private:
  Servers& server_;
  const How how_;
};

// Captures what any thread writes to stderr. Unlike GoogleTest's capture, it can be read at any
// time.
class Stderr {
 public:
  Stderr() { dup2(file_.get(), STDERR_FILENO); }
  ~Stderr() { dup2(before_.get(), STDERR_FILENO); }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;

  std::string text() const {
    std::string text(4096, '\0');
    const ssize_t got = pread(file_.get(), text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  const base::UniqueFd before_{dup(STDERR_FILENO)};
  const base::UniqueFd file_{memfd_create("stderr", MFD_CLOEXEC)};
};

// The command_timeout of the clients in these tests.
inline constexpr absl::Duration kTimeout = absl::Milliseconds(200);

// Base, with its own server.
template <class Base>
struct WithOutages : Base {
  explicit WithOutages(support::RedisServerOptions options = {}) {
    this->UseOwnServer(std::move(options));
  }
  Client NewClient(ClientOptions options = {}) {
    return Base::NewClient("command_timeout=200ms&connect_timeout=200ms", std::move(options));
  }
};

// A call and how long it may wait. A call that may not wait has the command_timeout.
struct TimedCall {
  absl::Duration wait;
  std::function<absl::StatusCode()> call;
};

// Each call reports that the server is unreachable, neither before its deadline nor late.
inline void ExpectUnreachable(const std::vector<TimedCall>& calls) {
  const auto ask_in_time = [&] {
    redis::Punctuality punctuality;
    for (const TimedCall& each : calls) {
      const base::Instant deadline = base::Now() + each.wait;
      EXPECT_EQ(each.call(), kUnreachable);
      EXPECT_GE(base::Now(), deadline);
      punctuality.Note(deadline);
    }
    return punctuality.Within(kGrace);
  };
  // A cold program may be late because its pages must be loaded first.
  (void)ask_in_time();
  EXPECT_TRUE(ask_in_time());
}

// Names of any bytes whose keys share a slot, as many as fit behind the prefix.
inline std::vector<std::string> GoodNames(std::string_view key_prefix) {
  using std::string_literals::operator""s;
  return {"a",
          "with spaces and\ttabs",
          "line\nbreak\r\n",
          "nul\0inside"s,
          "\0"s,
          "Grüße, 世界 🔒",
          "\xff\xfe\x80",
          "a:b:queue",
          "a:b:counted",
          "{tag}:rest",
          "rest:{tag}",
          "{a}{b}",
          "half {open",
          "x}{y}",
          "redlatch-bench:x",
          "a:redlatch:x",
          std::string(4096 - key_prefix.size(), 'y')};
}

// Without a prefix, names that look like the library's own keys are refused too.
inline std::vector<std::string> BadNames(std::string_view key_prefix) {
  std::vector<std::string> names = {
      "", "{}", "{}a", "a}b", "}{", "a}b{c", "}", "a{}{b}", std::string(4097, 'z')};
  if (key_prefix.empty()) names.push_back("redlatch:2:{x}:fence");
  return names;
}

template <class L>
concept BasicLockable = requires(L& lock) {
  { lock.lock() } -> std::same_as<void>;
  { lock.unlock() } -> std::same_as<void>;
  requires noexcept(lock.unlock());
};
template <class L>
concept Lockable = BasicLockable<L> && requires(L& lock) {
  { lock.try_lock() } -> std::same_as<bool>;
};
template <class L>
concept TimedLockable = Lockable<L> && requires(L& lock) {
  { lock.try_lock_for(std::chrono::nanoseconds(1)) } -> std::same_as<bool>;
  { lock.try_lock_for(std::chrono::duration<double>(0.5)) } -> std::same_as<bool>;
  { lock.try_lock_for(std::chrono::hours(1)) } -> std::same_as<bool>;
  { lock.try_lock_until(std::chrono::steady_clock::now()) } -> std::same_as<bool>;
  { lock.try_lock_until(std::chrono::system_clock::now()) } -> std::same_as<bool>;
};
template <class L>
concept SharedTimedLockable = requires(L& lock) {
  { lock.lock_shared() } -> std::same_as<void>;
  { lock.try_lock_shared() } -> std::same_as<bool>;
  { lock.unlock_shared() } -> std::same_as<void>;
  requires noexcept(lock.unlock_shared());
  { lock.try_lock_shared_for(std::chrono::nanoseconds(1)) } -> std::same_as<bool>;
  { lock.try_lock_shared_for(std::chrono::duration<double>(0.5)) } -> std::same_as<bool>;
  { lock.try_lock_shared_for(std::chrono::hours(1)) } -> std::same_as<bool>;
  { lock.try_lock_shared_until(std::chrono::steady_clock::now()) } -> std::same_as<bool>;
  { lock.try_lock_shared_until(std::chrono::system_clock::now()) } -> std::same_as<bool>;
};
template <class L>
concept Unmovable = !std::copyable<L> && !std::movable<L>;

class LatchConformance : public Conformance {
 protected:
  static std::unique_ptr<CountDownLatch> NewLatch(const Client& client, int64_t count,
                                                  std::string_view name = kName) {
    return std::make_unique<CountDownLatch>(client, name, count);
  }
  static std::unique_ptr<CountDownLatch> NewLatch(const Client& client, int64_t count,
                                                  LatchOptions options) {
    return std::make_unique<CountDownLatch>(client, kName, count, options);
  }

  static absl::Status WaitFor(CountDownLatch& latch, absl::Duration wait) {
    return Repeated([&] { return latch.Wait({.wait = wait}); });
  }
  // A Wait() that returns at once.
  static absl::Status Look(CountDownLatch& latch) { return WaitFor(latch, absl::ZeroDuration()); }
  // try_wait(), repeated in the same way.
  static bool TryWait(CountDownLatch& latch) {
    for (int i = 0; i < 100; ++i) {
      try {
        return latch.try_wait();
      } catch (const std::system_error& error) {
        if (error.code() != MakeErrorCode(kUnreachable)) throw;
      }
    }
    return latch.try_wait();
  }
  static absl::Status PatientWait(CountDownLatch& latch) {
    return latch.Wait({.wait = 2 * kTestTimeout});
  }
  // Returns -1 if the count is unknown.
  static int64_t CountOf(CountDownLatch& latch) { return latch.Count().value_or(-1); }

  bool IsThere(std::string_view name = kName) { return IsHeld(name); }

  // How often the server executed a command, calls of scripts included.
  int64_t CallsOf(std::string_view command) {
    const std::string line = server().Info(absl::StrCat("cmdstat_", std::string(command)));
    return line.empty() ? 0 : std::atoll(line.substr(line.find('=') + 1).c_str());
  }

 private:
  // Runs after all clients and latches of a test are gone. Only an open latch may still exist.
  class Sweeper {
   public:
    explicit Sweeper(LatchConformance& test) : test_(test) {}
    ~Sweeper() {
      EXPECT_TRUE(Await([this] {
        return test_.server().Command({"KEYS", "*.queue"}).elements.empty() &&
               test_.server().Command({"KEYS", "*.waiters"}).elements.empty();
      })) << "a waiter is still queued";
      (void)test_.KeysLeft();  // checks that each has a TTL
      test_.server().Command({"FLUSHALL"});
    }
    Sweeper(const Sweeper&) = delete;
    Sweeper& operator=(const Sweeper&) = delete;

   private:
    LatchConformance& test_;
  };
  const Sweeper sweeper_{*this};
};

// Three clients and their locks.
struct ReadWriteConformance : Conformance {
  using Lock = ReentrantReadWriteLock;
  using Policy = Lock::Policy;

  std::unique_ptr<Lock> NewReadWrite(const Client& client, Policy policy = Policy::kWriterFirst) {
    return NewReadWrite(client, Options(), policy);
  }
  static std::unique_ptr<Lock> NewReadWrite(const Client& client, LockOptions options,
                                            Policy policy = Policy::kWriterFirst) {
    return std::make_unique<Lock>(client, kName, std::move(options), policy);
  }

  static absl::StatusOr<Lease> TryRead(Lock& lock) {
    return Repeated([&] { return lock.AcquireRead({.wait = absl::ZeroDuration()}); });
  }
  // By clients whose holds are unrelated to the calling thread.
  static bool ReadersGetIn(Lock& lock) { return TryRead(lock).ok(); }
  static bool WritersGetIn(Lock& lock) { return Try(lock).ok(); }
  // A release may still be in flight.
  static bool ReadersSoonGetIn(Lock& lock) {
    return Await([&] { return ReadersGetIn(lock); });
  }
  static bool WritersSoonGetIn(Lock& lock) {
    return Await([&] { return WritersGetIn(lock); });
  }

  // Counts the waiting clients, and the holders, at the server.
  bool AwaitWaiting(int64_t clients) { return AwaitShown(&LockInfo::waiting, clients); }
  bool AwaitHolders(int64_t clients) { return AwaitShown(&LockInfo::holding, clients); }
  bool AwaitShown(int64_t LockInfo::*number, int64_t clients) {
    return Await([&] {
      const absl::StatusOr<LockInfo> info = lock_->Inspect();
      return info.ok() && *info.*number == clients;
    });
  }

  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const Client client_ = NewClient({}, {.observer = recorder_});
  const Client other_ = NewClient();
  const Client third_ = NewClient();
  const std::unique_ptr<Lock> lock_ = NewReadWrite(client_);
  const std::unique_ptr<Lock> theirs_ = NewReadWrite(other_);
  const std::unique_ptr<Lock> thirds_ = NewReadWrite(third_);
};

// With and without turns, over TCP.
inline std::vector<Case> ReadWriteCases() {
  return Where(LockCases(), [](const Case& each) {
    const bool deployed = each.server_group.name == "tcp" || each.server_group.name == "no_turn";
    return each.kind.name == "read_write" && deployed;
  });
}

struct SemaphoreConformance : Conformance {
  static constexpr int64_t kCapacity = 3;

  static std::unique_ptr<Semaphore> NewSemaphore(const Client& client, int64_t capacity = kCapacity,
                                                 std::string_view name = kName) {
    return NewSemaphore(client, {.lease = kLease}, capacity, name);
  }
  static std::unique_ptr<Semaphore> NewSemaphore(const Client& client, SemaphoreOptions options,
                                                 int64_t capacity = kCapacity,
                                                 std::string_view name = kName) {
    return std::make_unique<Semaphore>(client, name, capacity, std::move(options));
  }

  static absl::StatusOr<Permit> Try(Semaphore& semaphore, int64_t permits = 1) {
    return Repeated([&] { return semaphore.TryAcquire(permits); });
  }
  static bool GetsIn(Semaphore& semaphore, int64_t permits = 1) {
    return Try(semaphore, permits).ok();
  }
  // A release may still be in flight.
  static bool SoonGetsIn(Semaphore& semaphore, int64_t permits = 1) {
    return Await([&] { return GetsIn(semaphore, permits); });
  }

  // Releases may be in flight.
  static bool AwaitFree(const Semaphore& semaphore, int64_t permits = kCapacity) {
    return Await([&] {
      const absl::StatusOr<LockInfo> info = semaphore.Inspect();
      return info.ok() && info->available() == permits;
    });
  }
  // Each waiting acquisition has its own entry.
  int64_t Queued() { return server().Integer({"ZCARD", Auxiliary("queue")}); }
};

// Three clients and their semaphores.
struct SemaphoreOfThree : SemaphoreConformance {
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const Client client_ = NewClient({}, {.observer = recorder_});
  const Client other_ = NewClient();
  const Client third_ = NewClient();
  const std::unique_ptr<Semaphore> semaphore_ = NewSemaphore(client_);
  const std::unique_ptr<Semaphore> theirs_ = NewSemaphore(other_);
  const std::unique_ptr<Semaphore> thirds_ = NewSemaphore(third_);
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_FIXTURES_H_
