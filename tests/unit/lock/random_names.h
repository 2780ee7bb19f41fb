// Names that are chosen to collide, if any can, and all keys of their locks.
#ifndef REDLATCH_TESTS_UNIT_LOCK_RANDOM_NAMES_H_
#define REDLATCH_TESTS_UNIT_LOCK_RANDOM_NAMES_H_

#include <random>

#include "src/lock/key_set.h"
#include "tests/support/testing.h"

namespace redlatch::internal {

// The pieces of keys and names.
inline const std::vector<std::string> kPieces = absl::StrSplit(
    "{ } { } : a b x \\ {} {a} {x}: :{ }: 2 2.tag rw rw.tag .tag redlatch redlatch: "
    "redlatch:2: redlatch:2.tag: redlatch:rw:{ fence :fence queue :queue :simple.queue "
    "simple. rw.queue readers :readers counted :latch.counted gone :simple.gone. x. app: "
    "{app}: jobs client reign quorum",
    ' ');

// The library's own lock types and some users' types.
inline std::vector<KeyNames> AllKeyNames() {
  std::vector<KeyNames> all = {KeyNames("simple"),
                               KeyNames("reentrant", {"reentrant.holds"}),
                               KeyNames("rw", {"rw.readers", "rw.writers", "rw.holds"}),
                               KeyNames("semaphore", {"semaphore.permits", "semaphore.forced"}),
                               KeyNames("latch", {"latch.counted"}),
                               KeyNames("election", {"election.leader", "election.observers"})};
  const std::vector<std::string> extras = {
      "queue", "fence", "readers", "a", "a.tag", "tag", "rw.readers", "simple", "queue.queue.x"};
  for (const char* const kind : {"simple", "rw", "x", "queue", "gone", "a.queue", "a.tag"}) {
    all.push_back(UsersKeyNames(kind, extras).value());
  }
  return all;
}

// All accepted main keys that a prefix and a name make, each once. They include short ones of
// braces and colons.
inline std::vector<std::string> RandomMainKeys(size_t count, unsigned seed) {
  std::set<std::string> keys;
  const auto take = [&keys](std::string key) {
    if (CheckMainKey(key).ok()) keys.insert(std::move(key));
  };
  const std::string letters = "{}:a";
  for (size_t number = 1; number < 4096; ++number) {  // all of up to five letters, and some of six
    std::string key;
    for (size_t rest = number; rest > 1; rest /= 4) key += letters[rest % 4];
    take(std::move(key));
  }
  std::mt19937 random(seed);
  while (keys.size() < count) {
    std::string key;
    for (size_t pieces = 1 + random() % 7; pieces > 0; --pieces) {
      key.append(kPieces[random() % kPieces.size()]);
    }
    take(std::move(key));
  }
  return {keys.begin(), keys.end()};
}

// All keys of a lock except its main key. They include a tombstone.
inline std::vector<std::string> OtherKeysOf(const std::string& main, const KeyNames& names) {
  std::vector<std::string> suffixes = {names.queue, names.waiters, std::string(kFenceSuffix),
                                       names.gone + "0123456789abcdef0123456789abcdef.7"};
  suffixes.insert(suffixes.end(), names.extras.begin(), names.extras.end());
  std::vector<std::string> all;
  for (const std::string& suffix : suffixes) all.push_back(AuxiliaryKey(main, suffix));
  return all;
}

}  // namespace redlatch::internal

#endif  // REDLATCH_TESTS_UNIT_LOCK_RANDOM_NAMES_H_
