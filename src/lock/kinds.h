// The library's own kinds of locks. docs/protocol.md tells what their keys hold.
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
// Of several names, each of which is a simple lock's.
inline constexpr std::string_view kMulti = "multi";
inline constexpr std::string_view kAll[] = {kSimple,    kReentrant, kReadWrite,
                                            kSemaphore, kLatch,     kQuorum};

inline bool IsOurs(std::string_view kind) {
  return std::ranges::find(kAll, kind) != std::ranges::end(kAll);
}

}  // namespace redlatch::internal::kinds

namespace redlatch::internal {

// Says that a class is the library's own: how the suffixes of its keys begin, and ExtraKeys() are
// whole ones. Users cannot make one.
struct LibraryKind {
  std::string_view in_keys;
};

}  // namespace redlatch::internal

namespace redlatch::internal::kinds {

// A kind as the suffixes of its keys begin.
constexpr std::string_view InKeys(std::string_view kind) {
  return kind == kReadWrite ? "rw" : kind;
}

inline constexpr LibraryKind kSimpleKeys{kSimple}, kReentrantKeys{kReentrant},
    kReadWriteKeys{InKeys(kReadWrite)}, kQuorumKeys{kQuorum};

// What those of a program's own kind begin with.
inline constexpr std::string_view kUsers = "x.";

// The suffixes that a kind has beside its queue's.
inline constexpr std::string_view kHoldsSuffix = "reentrant.holds";
inline constexpr std::string_view kWritersSuffix = "rw.writers";
inline constexpr std::string_view kWriteHoldsSuffix = "rw.holds";
inline constexpr std::string_view kPermitsSuffix = "semaphore.permits";
inline constexpr std::string_view kForcedSuffix = "semaphore.forced";
inline constexpr std::string_view kCountedSuffix = "latch.counted";
inline constexpr std::string_view kTurnSuffix = "quorum.turn";
// The zset of readers has a suffix like the others', but no version in its key: writers of every
// version obey it.
inline constexpr std::string_view kReadersSuffix = "rw.readers";

}  // namespace redlatch::internal::kinds

#endif  // REDLATCH_SRC_LOCK_KINDS_H_
