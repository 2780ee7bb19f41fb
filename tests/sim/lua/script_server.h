// The server of the tests of scripts: in memory, and time passes as a test says.
#ifndef REDLATCH_TESTS_SIM_LUA_SCRIPT_SERVER_H_
#define REDLATCH_TESTS_SIM_LUA_SCRIPT_SERVER_H_

#include "redlatch/lua_script.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply_parser.h"
#include "tests/sim/redis/redis_server.h"
#include "tests/support/testing.h"

namespace redlatch {

class ScriptServer : private sim::Sink {
 public:
  ScriptServer() { sim::LuaEngine::OfThisThread().CountInstructions(); }

  // Every command takes 50 us of the server's clock.
  redis::Reply Command(const std::vector<std::string>& words) {
    server_.SetClock(server_.clock() + 50);
    const uint64_t before = Work();
    redis::Reply reply = server_.Execute(words);
    if (words[0].starts_with("EVAL")) most_work_ = std::max(most_work_, Work() - before);
    return reply;
  }
  redis::Reply Do(const std::vector<std::string>& words) {
    redis::Reply reply = Command(words);
    EXPECT_FALSE(reply.is_error()) << reply.text;
    return reply;
  }
  redis::Reply Eval(const LuaScript& script, const std::vector<std::string>& keys,
                    const std::vector<std::string>& args) {
    std::vector<std::string> words = {"EVAL", std::string(script.body), absl::StrCat(keys.size())};
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), args.begin(), args.end());
    return Command(words);
  }
  // A string, a status, an integer or an error as text.
  static std::string TextOf(const redis::Reply& reply) {
    return reply.type == redis::Reply::Type::kInteger ? std::to_string(reply.integer) : reply.text;
  }
  std::string Text(const std::vector<std::string>& words) { return TextOf(Command(words)); }
  int64_t Integer(const std::vector<std::string>& words) {
    const redis::Reply reply = Command(words);
    EXPECT_EQ(reply.type, redis::Reply::Type::kInteger) << reply.DebugString();
    return reply.integer;
  }

  void ExpectATtlOnEveryKey() {
    for (const redis::Reply& key : Command({"KEYS", "*"}).elements) {
      EXPECT_NE(Integer({"PTTL", key.text}), -1) << key.text;
    }
  }

  // Time passes.
  void Pass(int ms) { server_.SetClock(server_.clock() + 1000 * ms); }
  // Lets it pass until that is so; false if it is not within two minutes.
  template <typename Condition>
  bool Await(Condition condition) {
    for (int ms = 0; ms < 120'000; ++ms) {
      if (condition()) return true;
      Pass(1);
    }
    return false;
  }
  int64_t clock() const { return server_.clock(); }

  // The work of the dearest script since the last call: Lua's instructions, and what its commands
  // read, write and reply. The same in every run.
  uint64_t MostWork() { return std::exchange(most_work_, 0); }

  uint64_t calls_in_scripts() const { return server_.counts().calls_in_scripts; }

  uint64_t Subscribe(const std::string& command, const std::string& channel) {
    server_.Connect(++last_connection_);
    server_.Receive(last_connection_, redis::Command({command, channel}).bytes());
    EXPECT_EQ(Take(last_connection_).size(), 1);
    return last_connection_;
  }
  // From here on, scripts may not run this command.
  void Forbid(const std::string& command) {
    server_.Refuse({.error = "NOPERM no permissions to run the '" + command + "' command",
                    .commands = {command},
                    .in_scripts = true});
  }
  void Disconnect(uint64_t connection) { server_.Disconnect(connection); }
  // What was sent to a connection since the last call.
  std::vector<redis::Reply> Take(uint64_t connection) {
    return std::exchange(sent_[connection], {});
  }

 private:
  uint64_t Work() const {
    return server_.counts().work + sim::LuaEngine::OfThisThread().instructions();
  }
  void Send(uint64_t connection, std::string_view bytes) override {
    redis::ReplyParser parser;
    EXPECT_TRUE(parser.Take(bytes, sent_[connection]).ok());
  }
  void Close(uint64_t) override {}

  std::map<uint64_t, std::vector<redis::Reply>> sent_;
  uint64_t last_connection_ = 0;
  uint64_t most_work_ = 0;
  sim::RedisServer server_{{}, this};
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_SCRIPT_SERVER_H_
