#ifndef REDLATCH_TESTS_SIM_REDIS_COMMAND_H_
#define REDLATCH_TESTS_SIM_REDIS_COMMAND_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "tests/sim/redis/keyspace.h"
#include "tests/sim/redis/resp.h"

namespace redlatch::sim {

// Returns true if a pattern of KEYS or of an ACL matches. It may have * and ? and \, but no [sets].
inline bool MatchesGlob(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    const bool escaped = p + 1 < pattern.size() && pattern[p] == '\\';
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() &&
               (escaped ? pattern[p + 1] == text[t] : pattern[p] == '?' || pattern[p] == text[t])) {
      p += escaped ? 2 : 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

class RedisServer;
struct Connection;

using Words = absl::Span<const std::string_view>;

// One execution of a command, by a connection or by a script that it runs.
struct Call {
  RedisServer& server;
  Connection& connection;
  Keyspace& keys;
  Words words;  // the command's name first
  Output& out;
  bool in_script = false;

  std::string_view Word(size_t i) const { return words[i]; }
  size_t size() const { return words.size(); }
};

enum CommandFlag : uint32_t {
  kWrite = 1,
  kDenyOom = 2,
  kNoScript = 4,       // not allowed in scripts
  kLoading = 8,        // allowed while the server loads its data
  kWhileBusy = 16,     // allowed while a script runs for too long
  kNoAuth = 32,        // allowed before AUTH
  kSubscribed = 64,    // allowed with subscriptions
  kChannels = 128,     // the words at its key positions are channels
  kSharded = 256,      // such channels have a slot
  kKeysByNumber = 512  // word 2 says how many keys follow
};

struct CommandSpec {
  std::string_view name;  // upper case; "PUBSUB NUMSUB" if it has subcommands
  int arity;              // in the notation of COMMAND: -2 is "at least 2 words"
  uint32_t flags;
  int first_key, last_key, key_step;  // in the notation of COMMAND
  void (*run)(Call& call);

  void Execute(Call& call) const;
  bool is(CommandFlag flag) const { return (flags & flag) != 0; }
  bool accepts(size_t words) const {
    return arity >= 0 ? words == static_cast<size_t>(arity) : words >= static_cast<size_t>(-arity);
  }
  // Its name as messages and ACL rules write it: "pubsub|numsub".
  std::string LowerName() const;
};

// The command of that name, in any case; null if there is none. A subcommand is part of the name.
const CommandSpec* FindCommand(Words words);

// Appends the positions of the keys (or channels) in a call.
void KeyPositions(const CommandSpec& command, Words words, std::vector<size_t>& positions);

// Ends the run, because the simulator does not know this command.
[[noreturn]] void Unknown(std::string_view what, Words words);

bool EqualsIgnoringCase(std::string_view text, std::string_view upper);
bool ParseInteger(std::string_view text, int64_t& number);
bool ParseScore(std::string_view text, double& score);

// The elements that a range of ranks names: [first, last).
struct Range {
  size_t first = 0, last = 0;
};
Range ByRank(int64_t start, int64_t stop, size_t size);

inline constexpr std::string_view kWrongType =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kSyntaxError = "ERR syntax error";

// What a command throws to reply with an error.
struct ErrorReply {
  std::string_view error;
};

// A word of the command as an integer.
inline int64_t Integer(const Call& call, size_t i) {
  int64_t number = 0;
  return ParseInteger(call.Word(i), number) ? number : throw ErrorReply{kNotAnInteger};
}

// The value of the key that word 1 names, which must be a T: null if there is none.
template <typename T>
const T* Get(const Call& call) {
  const Value* const value = call.keys.Find(call.Word(1));
  if (value != nullptr && !std::holds_alternative<T>(*value)) throw ErrorReply{kWrongType};
  return value == nullptr ? nullptr : &std::get<T>(*value);
}

// The same, for writing.
template <typename T>
T* GetMutable(const Call& call) {
  if (Get<T>(call) == nullptr) return nullptr;
  return std::get_if<T>(call.keys.FindMutable(call.Word(1)));
}

extern const std::vector<CommandSpec> kKeyCommands, kStringCommands, kHashCommands, kListCommands,
    kSortedSetCommands, kServerCommands, kPubSubCommands, kScriptCommands, kClusterCommands;

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_COMMAND_H_
