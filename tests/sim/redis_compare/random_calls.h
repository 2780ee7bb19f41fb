#ifndef REDLATCH_TESTS_SIM_REDIS_COMPARE_RANDOM_CALLS_H_
#define REDLATCH_TESTS_SIM_REDIS_COMPARE_RANDOM_CALLS_H_

#include <random>

#include "redlatch/lua_script.h"
#include "src/redis/wire/codec.h"
#include "tests/support/testing.h"

namespace redlatch::sim {

// Random calls of all scripts as clients might make them: several clients; repeated, late and wrong
// requests; short leases; passing time; vanishing keys; full memory. They include plain commands
// and small scripts, to compare a server's replies to these. The same seed gives the same calls as
// long as the replies are the same.
class RandomCalls {
 public:
  struct Step {
    enum class Kind { kCommand, kSleep, kSubscribe, kUnsubscribe };
    Kind kind = Kind::kCommand;
    std::vector<std::string> words;  // of a command; "EVALSHA" of a script that `script` names
    const LuaScript* script = nullptr;
    int64_t sleep_us = 0;
    char client = 'a';  // whose channel is subscribed to or unsubscribed from
  };
  struct Ids {  // of the server, as scripts compare them
    std::string run, replication;
  };
  static constexpr std::string_view kClients = "abcdef";

  RandomCalls(uint32_t seed, Ids ids);

  // All scripts that may be called.
  static const std::vector<LuaScript>& Scripts();
  static std::string Channel(char client) { return "redlatch:" + std::string(32, client); }

  // Deletes all keys: different locks follow.
  void BeginEpisode();
  Step Next();
  // The reply to the last command.
  void Learn(const redis::Reply& reply);

 private:
  enum Family { kSimple, kReentrant, kReadWrite, kSemaphore, kLatch, kQuorum, kMulti, kElection };
  struct Lock {
    Family family;
    std::string name;
    bool quarantined = false;
    int capacity = 2;
  };
  // What a client knows about its latest grant of a lock.
  struct Party {
    int sequence = 0, attempt = 1, amount = 1;
    bool cacheable = false, native = false, reads = false, waits = true, holds = false;
    std::string ticket = "0", token = "0", told, owner;
    std::string when;               // of a latch's count
    std::vector<std::string> last;  // the words of its last acquire, and the script
    const LuaScript* last_script = nullptr;
  };

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  template <typename T>
  const T& Pick(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }

  Party& PartyOf(const Lock& lock, char client);
  // Mostly a client that has a grant, as far as it knows, makes the call.
  Party& HolderOf(const Lock& lock);
  std::string GrantId(char client, int sequence, bool cacheable, bool native = false) const;
  std::string SomeGrantId(const Party& party);
  std::string OwnerOf(const Lock& lock, Party& party);
  std::string Proposal();
  std::string NewOwner(const Lock& lock, const Party& party);
  std::string Incarnation() const { return std::string(32, 'a') + ":1"; }
  std::vector<std::string> AcquireArgs(const Lock& lock, Party& party, const std::string& grant);
  std::vector<std::string> KeysOf(const Lock& lock, const std::vector<std::string>& own,
                                  bool with_extras = true);
  Step Script(const Lock& lock, const char* operation, const std::vector<std::string>& own_keys,
              std::vector<std::string> args, bool with_extras = true);

  Step Acquire(const Lock& lock);
  Step Release(const Lock& lock);
  Step Renew(const Lock& lock);
  Step Cancel(const Lock& lock);
  Step ForPeople(const Lock& lock);
  Step Special(const Lock& lock);  // a call that only this family has
  Step Sleep();
  Step Accident();  // faults of keys, memory, and other programs
  Step MakeWaiters(const Lock& lock);
  Step PlainCommand();
  std::string PlainWord(const std::string& form);
  Step SmallScript();
  std::string Word();

  std::mt19937 random_;
  const Ids ids_;
  std::vector<Lock> locks_;
  std::map<std::string, Party> parties_;
  char client_ = 'a';  // who makes the call
  Party* asked_ = nullptr;
  Party* ending_ = nullptr;
  int64_t now_us_ = 0;  // as far as replies show
  bool full_ = false;
  int plain_percent_ = 0;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_COMPARE_RANDOM_CALLS_H_
