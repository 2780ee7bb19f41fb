// What all tests with Redisson use.
#ifndef REDLATCH_TESTS_REDISSON_REDISSON_TESTING_H_
#define REDLATCH_TESTS_REDISSON_REDISSON_TESTING_H_

#include <ostream>

#include "redlatch/redisson/count_down_latch.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/fenced_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/permit_expirable_semaphore.h"
#include "redlatch/redisson/read_write_lock.h"
#include "redlatch/redisson/semaphore.h"
#include "tests/support/java_peer.h"
#include "tests/support/live_testing.h"

namespace redlatch {

using support::JavaClient;
using support::JavaClientOptions;
using support::JavaPeer;
using support::JavaReply;
using support::PendingReply;

// Longer than any message takes, and much shorter than a lease, a time to live or a heartbeat.
constexpr absl::Duration kSoon = absl::Seconds(3);
// Longer than all that a test waits for.
constexpr absl::Duration kLong = absl::Seconds(20);

// A kind of lock that both languages have.
struct LockKind {
  const char* java;  // its name in Peer.java
  std::unique_ptr<RedisLockBase> (*make)(const Client&, const std::string&, LockOptions);
};

inline void PrintTo(const LockKind& kind, std::ostream* out) { *out << kind.java; }

template <class Lock>
std::unique_ptr<RedisLockBase> Make(const Client& client, const std::string& name,
                                    LockOptions options) {
  return std::make_unique<Lock>(client, name, std::move(options));
}

inline const std::vector<LockKind>& LockKinds() {
  static const std::vector<LockKind> kinds = {{"lock", &Make<redisson::Lock>},
                                              {"fenced", &Make<redisson::FencedLock>},
                                              {"fair", &Make<redisson::FairLock>},
                                              {"write", &Make<redisson::ReadWriteLock>}};
  return kinds;
}

// The key or channel of a name: Redisson's rule.
inline std::string RedissonKey(const std::string& prefix, const std::string& name) {
  return absl::StrContains(name, '{') ? absl::StrCat(prefix, ":", name)
                                      : absl::StrCat(prefix, ":{", name, "}");
}

// The channel on which waiters for that kind of lock are told, except those of a fair lock.
inline std::string RedissonChannel(const std::string& kind, const std::string& name) {
  if (kind == "latch") return absl::StrCat("redisson_countdownlatch__channel__{", name, "}");
  return RedissonKey(kind == "read" || kind == "write" ? "redisson_rwlock"
                     : kind == "semaphore"             ? "redisson_sc"
                                                       : "redisson_lock__channel",
                     name);
}

// One JVM serves all tests of a process.
inline JavaPeer& SharedJvm() {
  static JavaPeer jvm;
  return jvm;
}

// Waits until that many clients wait for a lock of that kind.
inline bool AwaitWaiters(RedisServer& server, const std::string& kind, const std::string& name,
                         int64_t count) {
  return Await([&] {
    if (kind == "fair") {
      return server.Integer({"LLEN", RedissonKey("redisson_lock_queue", name)}) == count;
    }
    const redis::Reply reply = server.Do({"PUBSUB", "NUMSUB", RedissonChannel(kind, name)});
    return reply.elements.at(1).integer == count;
  });
}

// Runs a call in a thread of its own.
template <class Call>
auto InThread(Call call) {
  return std::async(std::launch::async, std::move(call));
}
inline std::future<absl::StatusOr<Lease>> AcquireInThread(RedisLockBase& lock) {
  return InThread([&lock] { return lock.Acquire({.wait = kLong}); });
}

// Releases a lease or permit, although replies are lost: after kUnavailable, the call is repeated.
template <class Handle>
absl::Status ReleaseForSure(Handle& held) {
  absl::Status released;
  Await([&] {
    released = held.Release();
    return !absl::IsUnavailable(released);
  });
  return released;
}

// A server, and a client of each language.
class RedissonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = JavaPeer::Missing();
    if (!missing.empty() && support::FromEnvironment("REDLATCH_REQUIRE_JAVA", 0) != 0) {
      FAIL() << missing;
    }
    if (!missing.empty()) GTEST_SKIP() << missing;
    Start();
  }
  virtual void Start() {
    server_ = RedisServer::Start();
    client_ = std::make_unique<Client>(Connect(server_->url()));
    java_ = ConnectJava();
  }
  std::unique_ptr<JavaClient> ConnectJava(const JavaClientOptions& options = {}) const {
    return std::make_unique<JavaClient>(SharedJvm(), server_->url(), options);
  }

  RedisServer& server() { return *server_; }
  const Client& client() { return *client_; }
  JavaClient& java() { return *java_; }

 private:
  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<JavaClient> java_;
};

// The same for each kind of lock that excludes all others.
struct RedissonKindTest : RedissonTest, ::testing::WithParamInterface<LockKind> {
  std::unique_ptr<RedisLockBase> MakeLock(LockOptions options = {},
                                          const std::string& name = "orders") {
    return GetParam().make(client(), name, std::move(options));
  }
  std::string kind() const { return GetParam().java; }
};

#define REDLATCH_FOR_EACH_REDISSON_LOCK(suite)                             \
  INSTANTIATE_TEST_SUITE_P(Kinds, suite, ::testing::ValuesIn(LockKinds()), \
                           [](const auto& its) { return std::string(its.param.java); })

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDISSON_REDISSON_TESTING_H_
