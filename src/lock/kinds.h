// The library's own kinds of locks. docs/protocol.md describes their keys.
#ifndef REDLATCH_SRC_LOCK_KINDS_H_
#define REDLATCH_SRC_LOCK_KINDS_H_

#include <algorithm>
#include <string_view>

namespace redlatch::internal::kinds {

inline constexpr std::string_view kSimple = "simple";
inline constexpr std::string_view kReentrant = "reentrant";
inline constexpr std::string_view kReadWrite = "read_write";
inline constexpr std::string_view kSemaphore = "semaphore";
inline constexpr std::string_view kLatch = "latch";
inline constexpr std::string_view kQuorum = "quorum";
inline constexpr std::string_view kElection = "election";
// Those of Redisson's locks.
inline constexpr std::string_view kRedissonLock = "redisson_lock";
inline constexpr std::string_view kRedissonFencedLock = "redisson_fenced_lock";
inline constexpr std::string_view kRedissonFairLock = "redisson_fair_lock";
inline constexpr std::string_view kRedissonReadWriteLock = "redisson_read_write_lock";
inline constexpr std::string_view kRedissonSemaphore = "redisson_semaphore";
inline constexpr std::string_view kRedissonExpirableSemaphore =
    "redisson_permit_expirable_semaphore";
inline constexpr std::string_view kRedissonLatch = "redisson_latch";
// The kind of a lock of several names, each of which is a simple lock.
inline constexpr std::string_view kMulti = "multi";
inline constexpr std::string_view kAll[] = {kSimple, kReentrant, kReadWrite, kSemaphore,
                                            kLatch,  kElection,  kQuorum};

inline bool IsOurs(std::string_view kind) {
  return std::ranges::find(kAll, kind) != std::ranges::end(kAll);
}

}  // namespace redlatch::internal::kinds

namespace redlatch::internal {

// Marks a lock type as the library's own: the beginning of its keys' suffixes. Its ExtraKeys() are
// whole suffixes. Users cannot construct one.
struct LibraryKind {
  std::string_view in_keys;
};

}  // namespace redlatch::internal

namespace redlatch::internal::kinds {

// The kind as it begins the suffixes of keys.
constexpr std::string_view InKeys(std::string_view kind) {
  return kind == kReadWrite ? "rw" : kind;
}

inline constexpr LibraryKind kSimpleKeys{kSimple}, kReentrantKeys{kReentrant},
    kReadWriteKeys{InKeys(kReadWrite)}, kQuorumKeys{kQuorum}, kElectionKeys{kElection};
// Locks that Redisson shares: their keys have Redisson's names.
inline constexpr LibraryKind kRedissonKeys{"redisson"};

// The beginning of all suffixes of users' kinds.
inline constexpr std::string_view kUsers = "x.";

// Suffixes of further keys of a kind.
inline constexpr std::string_view kHoldsSuffix = "reentrant.holds";
inline constexpr std::string_view kWritersSuffix = "rw.writers";
inline constexpr std::string_view kWriteHoldsSuffix = "rw.holds";
inline constexpr std::string_view kPermitsSuffix = "semaphore.permits";
inline constexpr std::string_view kForcedSuffix = "semaphore.forced";
inline constexpr std::string_view kCountedSuffix = "latch.counted";
inline constexpr std::string_view kTurnSuffix = "quorum.turn";
inline constexpr std::string_view kLeaderSuffix = "election.leader";
inline constexpr std::string_view kObserversSuffix = "election.observers";
inline constexpr std::string_view kYieldSuffix = "redisson.yield";
inline constexpr std::string_view kAliveSuffix = "redisson.alive";
inline constexpr std::string_view kRedissonPermitsSuffix = "redisson.permits";
inline constexpr std::string_view kRedissonCountedSuffix = "redisson.counted.";
// The beginnings of Redisson's own keys, and the end of one.
inline constexpr std::string_view kRedisson = "redisson_";
inline constexpr std::string_view kRedissonQueue = "redisson_lock_queue:";
inline constexpr std::string_view kRedissonTimeouts = "redisson_lock_timeout:";
inline constexpr std::string_view kRedissonToken = "redisson_lock_token:";
inline constexpr std::string_view kRedissonLatchKey = "redisson_unlock_latch:";
inline constexpr std::string_view kRedissonPermits = ":timeout";
// The sorted set of readers. Its key has no version, so that writers of all versions obey it.
inline constexpr std::string_view kReadersSuffix = "rw.readers";

}  // namespace redlatch::internal::kinds

#endif  // REDLATCH_SRC_LOCK_KINDS_H_
