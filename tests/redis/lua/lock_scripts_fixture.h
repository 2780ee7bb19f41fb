// What the tests of the locks' scripts share: a server, clients that are only names, and calls.
#ifndef REDLATCH_TESTS_REDIS_LUA_LOCK_SCRIPTS_FIXTURE_H_
#define REDLATCH_TESTS_REDIS_LUA_LOCK_SCRIPTS_FIXTURE_H_

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/redis/wire/reply.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"

namespace redlatch {

// What acquire is asked for; everything has the value that a test most often wants.
struct Request {
  std::string hold;
  std::string owner;
  int lease_ms = 30000;
  int attempt = 1;
  bool wait = true;
  int heartbeat_ms = 10000;
  int block = 1;
  bool manual = false;
  std::string ticket = "0";
  int claim_ms = 0;                    // 0: the lease
  bool listen = false;                 // be told whether the channel has a subscriber
  std::vector<std::string> more = {};  // ARGV that a primitive adds

  std::string client() const { return hold.substr(0, 32); }
  std::string channel() const { return "redlatch:" + client(); }
  std::vector<std::string> Args() const {
    std::vector<std::string> args = {
        hold, absl::StrCat(lease_ms),
        absl::StrCat(block, " ", attempt, wait ? " 1 " : " 0 ", heartbeat_ms,
                     manual ? " 1 " : " 0 ", ticket, " ", claim_ms > 0 ? claim_ms : lease_ms,
                     listen ? " 1 " : " 0 ", channel()),
        owner};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

// Makes ARGV[1] waiters of owner ARGV[2] whose grants go to ARGV[3], with the tickets 1, 2, ...:
// they came before everybody else, and told a moment ago that they live. They want ARGV[5]; else 1.
inline constexpr char kMakeWaiters[] = R"lua(
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
for i = 1, tonumber(ARGV[1]) do
  local hold = string.format('%032x:', i) .. ARGV[4]
  redis.call('ZADD', KEYS[1], i, hold)
  redis.call('HSET', KEYS[2], hold, now .. ' 30000 ' .. (ARGV[5] or 1) .. ' 1 1 10000 0 ' .. i ..
    ' 2000 0 ' .. ARGV[3] .. ' ' .. #ARGV[2] .. ' ' .. ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], 30000)
redis.call('PEXPIRE', KEYS[2], 30000)
)lua";

inline LockScripts SimpleScripts() {
  return {.acquire = lua::kSimpleAcquire,
          .release = lua::kSimpleRelease,
          .renew = lua::kSimpleRenew,
          .cancel = lua::kSimpleCancel,
          .inspect = lua::kSimpleInspect,
          .force_release = lua::kSimpleForceRelease};
}
inline LockScripts ReentrantScripts() {
  return {.acquire = lua::kReentrantAcquire,
          .release = lua::kReentrantRelease,
          .renew = lua::kReentrantRenew,
          .cancel = lua::kReentrantCancel,
          .inspect = lua::kReentrantInspect,
          .force_release = lua::kReentrantForceRelease};
}

// A client's subscription to its grant channel.
class Ear {
 public:
  Ear(support::RedisServer& server, const std::string& channel,
      const std::string& subscribe = "SUBSCRIBE")
      : connection_(support::RawConnection::ToSocket(server.socket_path())) {
    EXPECT_EQ(connection_.Command({subscribe, channel}).elements.size(), 3);
  }
  // The next message; "" where there is none.
  std::string Hear() {
    connection_.Send({"PING"});
    redis::Reply reply = connection_.Receive();
    for (; reply.elements.size() == 3; reply = connection_.Receive()) {
      heard_.push_back(reply.elements[2].text);
    }  // until the pong
    if (heard_.empty()) return "";
    std::string message = std::move(heard_.front());
    heard_.pop_front();
    return message;
  }

 private:
  support::RawConnection connection_;
  std::deque<std::string> heard_;
};

class LockScriptsFixture : public ::testing::Test {
 protected:
  explicit LockScriptsFixture(LockScripts scripts, support::RedisServerOptions options = {})
      : scripts_(std::move(scripts)), server_(support::RedisServer::Start(std::move(options))) {}

  void TearDown() override { ExpectATtlOnEveryKey(); }

  void ExpectATtlOnEveryKey() {
    for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
      EXPECT_NE(server_->Integer({"PTTL", key.text}), -1) << key.text;
    }
  }

  // The hold `sequence` of client 'a', 'b', ...
  static std::string Hold(char client, int sequence = 1) {
    return absl::StrCat(std::string(32, client), ":", sequence);
  }
  static Request Of(char client, int sequence = 1) {
    return {.hold = Hold(client, sequence), .owner = std::string(32, client)};
  }
  static std::string Channel(char client) { return "redlatch:" + std::string(32, client); }

  // Scripts do not care what their keys are called.
  virtual std::string Auxiliary(const std::string& suffix) const {
    return "{" + name_ + "}:" + suffix;
  }
  std::string Queue() const { return Auxiliary("queue"); }
  std::string Waiters() const { return Auxiliary("waiters"); }
  std::string Fence() const { return Auxiliary("fence"); }
  std::string Gone(const std::string& hold) const { return Auxiliary("gone:" + hold); }

  // The scripts that serve this request, and the keys that they are given last.
  virtual const LockScripts& ScriptsFor(const Request&) const { return scripts_; }
  virtual std::vector<std::string> OwnKeys() const { return {}; }

  redis::Reply Eval(const redis::ScriptSource& script, std::vector<std::string> more_keys,
                    const std::vector<std::string>& args) {
    for (std::string& key : OwnKeys()) more_keys.push_back(std::move(key));
    std::vector<std::string> command = {"EVAL",
                                        std::string(script.body),
                                        absl::StrCat(4 + more_keys.size()),
                                        name_,
                                        Queue(),
                                        Waiters(),
                                        Fence()};
    command.insert(command.end(), more_keys.begin(), more_keys.end());
    command.insert(command.end(), args.begin(), args.end());
    return WithoutNotes(Split(server_->Command(command)));
  }

  // The reply alone; what it ends with is then in notes_, as in "look 2000 deaf".
  redis::Reply WithoutNotes(redis::Reply reply) {
    notes_.clear();
    auto& words = reply.elements;
    const auto is_note = [](const redis::Reply& word) {
      return word.text == "look" || word.text == "deaf" || word.text == "missed" ||
             word.text == "told";
    };
    if (words.empty()) return reply;
    const auto notes = std::find_if(words.begin() + 1, words.end(), is_note);
    for (auto word = notes; word != words.end(); ++word) {
      const bool number = word->type == redis::Reply::Type::kInteger;
      absl::StrAppend(&notes_, notes_.empty() ? "" : " ",
                      number ? absl::StrCat(word->integer) : word->text);
    }
    words.erase(notes, words.end());
    return reply;
  }

  // The words of a reply; numbers as such, except that tokens and tickets stay text.
  static redis::Reply Split(redis::Reply reply) {
    if (reply.type != redis::Reply::Type::kString) return reply;
    redis::Reply split{.type = redis::Reply::Type::kArray};
    for (const absl::string_view word : absl::StrSplit(reply.text, ' ')) {
      int64_t number = 0;
      if (word.size() < 16 && absl::SimpleAtoi(word, &number)) {
        split.elements.push_back({.type = redis::Reply::Type::kInteger, .integer = number});
      } else {
        split.elements.push_back({.type = redis::Reply::Type::kString, .text = std::string(word)});
      }
    }
    return split;
  }

  // Each answers as text: `["granted", "17", 30000, 0]`, or the error.
  redis::Reply Ask(const Request& request) {
    return Eval(ScriptsFor(request).acquire, {Gone(request.hold)}, request.Args());
  }
  std::string Acquire(const Request& request) { return Ask(request).DebugString(); }
  // "granted", "queued", "busy" or "gone"
  std::string Outcome(const Request& request) { return First(Ask(request)); }
  int64_t Token(const Request& request) {
    const redis::Reply reply = Ask(request);
    EXPECT_EQ(First(reply), "granted") << reply.DebugString();
    return reply.elements.size() < 2 ? 0 : std::stoll(reply.elements[1].text);
  }
  std::string Release(const Request& held, int64_t used = 0, int64_t reserved = 0,
                      int gone_ms = 0) {
    std::vector<std::string> args = {held.hold};
    const bool reads = held.owner.starts_with("read:") || held.owner.starts_with("nest:");
    if (used == reserved && gone_ms == 0 && (reads || held.owner == held.client())) {
      return Eval(ScriptsFor(held).release, {}, args).DebugString();
    }
    args.push_back(absl::StrCat(used, " ", reserved, " ", gone_ms));
    args.push_back(held.owner);
    return Eval(ScriptsFor(held).release, {Gone(held.hold), Gone(held.hold)}, args).DebugString();
  }
  redis::Reply ReleaseAndQueue(const Request& held, const Request& fresh) {
    std::vector<std::string> args = {held.hold, "0 0 0", held.owner};
    for (std::string& arg : fresh.Args()) args.push_back(std::move(arg));
    return Eval(ScriptsFor(held).release, {Gone(held.hold), Gone(fresh.hold)}, args);
  }
  std::string Cancel(const Request& request, int gone_ms = 0) {
    return Eval(ScriptsFor(request).cancel, {Gone(request.hold)},
                {request.hold, absl::StrCat(gone_ms), absl::StrCat(request.block)})
        .DebugString();
  }
  std::string Renew(const Request& held) {
    return Eval(ScriptsFor(held).renew, {}, {held.hold, absl::StrCat(held.lease_ms)}).DebugString();
  }
  std::string Inspect(int most = 10) {
    return Eval(scripts_.inspect, {}, {absl::StrCat(most)}).DebugString();
  }
  std::string ForceRelease() { return PartOf(scripts_.force_release, {"redlatch:"}).DebugString(); }
  // The reply of a script whose work may take several calls; the look that it asks for is in
  // notes_.
  redis::Reply PartOf(const redis::ScriptSource& script, const std::vector<std::string>& args,
                      const std::vector<std::string>& keys = {}) {
    redis::Reply reply = Eval(script, keys, args);
    if (reply.elements.size() > 1 && reply.elements[1].type == redis::Reply::Type::kInteger) {
      notes_ = absl::StrCat("look ", reply.elements[1].integer);
      reply.elements.erase(reply.elements.begin() + 1);
    }
    return reply;
  }

  static std::string First(const redis::Reply& reply) {
    return reply.elements.empty() ? reply.DebugString() : reply.elements[0].text;
  }

  std::vector<std::string> Waiting() {
    std::vector<std::string> holds;
    for (const redis::Reply& hold : server_->Command({"ZRANGE", Queue(), "0", "-1"}).elements) {
      holds.push_back(hold.text);
    }
    EXPECT_EQ(static_cast<int64_t>(holds.size()), server_->Integer({"HLEN", Waiters()}));
    return holds;
  }
  int64_t StoredFence() { return std::atoll(server_->Text({"GET", Fence()}).c_str()); }
  int64_t Pttl(const std::string& key) { return server_->Integer({"PTTL", key}); }

  // As if its time were over.
  void Expire(const std::string& key) {
    server_->Command({"PEXPIRE", key, "1"});
    AwaitExpiry(key);
  }
  // Waits until the server says that the key has expired.
  void AwaitExpiry(const std::string& key) {
    const base::Instant deadline = base::Now() + absl::Seconds(10);
    while (server_->Integer({"EXISTS", key}) != 0 && base::Now() < deadline) {
    }
    ASSERT_EQ(server_->Integer({"EXISTS", key}), 0);
  }

  // A refusal with this text in it, by every script, that leaves the key as it is.
  void ExpectRefused(const std::string& key, const std::string& text,
                     const std::vector<std::string>& replies) {
    const std::string dump = server_->Text({"DUMP", key});
    for (const std::string& reply : replies) EXPECT_NE(reply.find(text), reply.npos) << reply;
    EXPECT_EQ(server_->Text({"DUMP", key}), dump);
  }

  // From here on, commands that need memory are refused.
  void FillMemory() {
    server_->Command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
    server_->Command({"CONFIG", "SET", "maxmemory", "1"});
  }

  const LockScripts scripts_;
  const std::unique_ptr<support::RedisServer> server_;
  std::string name_ = "orders:42";
  std::string notes_;  // of the last reply
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_LUA_LOCK_SCRIPTS_FIXTURE_H_
