// The kinds of locks that Java's Redisson shares, and what Redisson writes for them.
#ifndef REDLATCH_TESTS_SIM_LUA_REDISSON_FIXTURE_H_
#define REDLATCH_TESTS_SIM_LUA_REDISSON_FIXTURE_H_

#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {

inline constexpr char kJava[] = "01234567-89ab-cdef-0123-456789abcdef:1";  // a thread's holder id
inline constexpr char kWord[] = "redisson_lock__channel:{orders:42}";
inline constexpr int kWaitMs = 300'000;  // of a fair lock

// `last`: the permits that the client wants, and an argument of the class.
inline LockKind RedissonKind(std::string name, LockScripts scripts, std::string last = "1 ",
                             const std::vector<std::string>& keys = {}) {
  LockKind kind{.name = std::move(name),
                .scripts = scripts,
                .own_keys = {"redisson.yield", "rw.readers"},
                .last_args = {"0 " + last}};
  kind.own_keys.insert(kind.own_keys.end(), keys.begin(), keys.end());
  return kind;
}
inline LockKind RedissonLock() { return RedissonKind("redisson_lock", lua::kRedissonLockScripts); }
inline LockKind RedissonFencedLock() {
  LockKind kind = RedissonKind("redisson_fenced_lock", lua::kRedissonLockScripts);
  kind.scripts.acquire = lua::kRedissonFencedLockAcquire;
  kind.scripts.release = lua::kRedissonFencedLockRelease;
  kind.scripts.inspect = lua::kRedissonFencedLockInspect;
  return kind;
}
inline LockKind RedissonFairLock() {
  return RedissonKind("redisson_fair_lock", lua::kRedissonFairLockScripts,
                      absl::StrCat("1 ", kWaitMs), {"redisson.alive"});
}
inline LockKind RedissonReadWriteLock() {
  return RedissonKind("redisson_read_write_lock", lua::kRedissonReadWriteLockScripts);
}
// Its permits are in redlatch's own set, or in that of Redisson.
inline LockKind RedissonSemaphore(int permits = 1, const std::string& set = "redisson.permits") {
  return RedissonKind("redisson_semaphore", lua::kRedissonSemaphoreScripts,
                      absl::StrCat(permits, " "), {set});
}
inline LockKind RedissonLatch() {
  LockKind kind = RedissonKind("redisson_latch", {.acquire = lua::kRedissonLatchAcquire,
                                                  .cancel = lua::kRedissonLatchCancel});
  kind.own_keys = {"rw.readers"};
  return kind;
}

struct RedissonScripts : LockScriptsFixture {
  explicit RedissonScripts(LockKind kind) : LockScriptsFixture(std::move(kind)) {}
  void TearDown() override {}  // Redisson's counters and permits have no TTL

  static std::string Granted(int lease_ms = 30000, int token = 0) {
    return absl::StrCat("[\"granted\", ", token, ", ", lease_ms, ", 0]");
  }
  static std::string Queued(int retry_ms) {
    return absl::StrCat("[\"queued\", ", retry_ms, ", 0, 0]");
  }
  static std::string Busy(int retry_ms) { return absl::StrCat("[\"busy\", ", retry_ms, "]"); }
  std::string Get(const std::string& key) { return server_->Text({"GET", key}); }
  std::string Field(const std::string& field) { return server_->Text({"HGET", name_, field}); }
  bool Exists(const std::string& key) { return server_->Integer({"EXISTS", key}) == 1; }
  // In how many ms that member of a sorted set ends.
  int64_t EndsIn(const std::string& key, const std::string& member) {
    return std::atoll(server_->Text({"ZSCORE", key, member}).c_str()) - server_->clock() / 1000;
  }
  void Put(std::vector<std::string> command) { server_->Do(command); }
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_REDISSON_FIXTURE_H_
