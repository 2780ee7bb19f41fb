// Which lock a key belongs to. docs/protocol.md tells what the keys are.
#ifndef REDLATCH_SRC_CLI_LOCK_KEYS_H_
#define REDLATCH_SRC_CLI_LOCK_KEYS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace redlatch::cli {

// Bits, of which a lock that was found has some.
enum Part : uint8_t {
  kNoPart = 0,  // a key that tells of no lock, or never alone
  kMain = 1,    // the lock's own key, or no lock's at all
  kQueue = 2,
  kFence = 4,
  kReaders = 8,
  kPermits = 16,
  kWriteWait = 32,
};

struct LockKey {
  std::string_view name;  // of the lock; within the key
  Part part = kNoPart;
};
LockKey ReadLockKey(std::string_view key);

// "{name}:suffix", or "name:suffix" where the name has a hash tag of its own.
std::string Auxiliary(std::string_view name, std::string_view suffix);

// As Redis matches: * ? [a-z] [^a-z], and \ before what is meant as it stands.
bool MatchesGlob(std::string_view text, std::string_view pattern);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOCK_KEYS_H_
