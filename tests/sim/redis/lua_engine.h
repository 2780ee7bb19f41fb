#ifndef REDLATCH_TESTS_SIM_REDIS_LUA_ENGINE_H_
#define REDLATCH_TESTS_SIM_REDIS_LUA_ENGINE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "tests/sim/redis/keyspace.h"
#include "tests/sim/redis/resp.h"

struct lua_State;

namespace redlatch::sim {

// What redis.call() and its relatives reach.
class ScriptHost {
 public:
  virtual ~ScriptHost() = default;
  virtual void CallFromScript(absl::Span<const std::string_view> words, Output& out) = 0;
  virtual void CountWork(size_t words_and_values) = 0;
  // Returns true if the user may run that command; `known` is false if there is no such command.
  virtual bool MayRun(absl::Span<const std::string_view> words, bool& known) = 0;
};

// Lua 5.1 as Redis 7 configures it. It caches the compiled functions of all scripts by their SHA-1.
// It has no state between two runs, so all servers of a thread share one.
class LuaEngine {
 public:
  static LuaEngine& OfThisThread();

  LuaEngine();
  ~LuaEngine();
  LuaEngine(const LuaEngine&) = delete;
  LuaEngine& operator=(const LuaEngine&) = delete;

  // Collects all garbage, and from now on only when there is ten times as much as after that.
  void CollectRarely();
  // The SHA-1 of a script, computed once.
  const std::string& Sha1(std::string_view body);
  // Returns "" if that worked, and otherwise the error to reply.
  std::string Compile(const std::string& sha1, std::string_view body);
  // Runs a script that was compiled.
  void Run(const std::string& sha1, absl::Span<const std::string_view> keys,
           absl::Span<const std::string_view> args, ScriptHost& host, Output& out);

  // Counts how many instructions Lua executes, roughly, from now on.
  void CountInstructions();
  uint64_t instructions() const { return instructions_; }

 private:
  friend struct LuaCalls;

  lua_State* const lua_;
  StringMap<std::string> sha1s_;
  StringMap<int> functions_;
  int error_handler_ = 0;
  ScriptHost* host_ = nullptr;
  uint64_t instructions_ = 0;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_LUA_ENGINE_H_
