// Simulated clients: their requests, replies and messages.
#ifndef REDLATCH_TESTS_REDIS_LUA_SCRIPT_CLIENTS_H_
#define REDLATCH_TESTS_REDIS_LUA_SCRIPT_CLIENTS_H_

#include "tests/sim/lua/script_server.h"

namespace redlatch {

inline constexpr char kHeld[] = "[\"held\"]";
inline constexpr char kNotHeld[] = "[\"not_held\"]";
inline constexpr char kReleased[] = "[\"released\"]";
inline constexpr char kLeft[] = "[\"left\"]";
inline constexpr char kPassedOn[] = "[\"passed_on\"]";
inline constexpr char kUnknown[] = "[\"unknown\"]";
inline constexpr char kGone[] = "[\"gone\"]";
inline constexpr char kFree[] = "[\"free\"]";

// An owner that several clients share.
inline constexpr char kJob[] = "user:job 7";

// Acquire's arguments, with the values that most tests need.
struct Request {
  std::string grant;
  std::string owner;
  int lease_ms = 30000;
  int attempt = 1;
  bool wait = true;
  bool recalls = false;  // if it does not wait: recall a cached grant
  int heartbeat_ms = 10000;
  int amount = 1;
  bool manual = false;
  std::string ticket = "0";
  int claim_ms = 0;                    // 0: the lease
  bool listen = false;                 // be told whether the channel has a subscriber
  std::vector<std::string> more = {};  // ARGV that a primitive adds
  std::string tag = "";                // of its channel, in a cluster

  std::string client() const { return grant.substr(0, 32); }
  std::string channel() const { return "redlatch:" + tag + client(); }
  std::string wait_word() const { return wait ? " 1 " : recalls ? " 3 " : " 0 "; }
  std::vector<std::string> Args() const {
    std::vector<std::string> args = {
        grant, absl::StrCat(lease_ms),
        absl::StrCat(amount, " ", attempt, wait_word(), heartbeat_ms, manual ? " 1 " : " 0 ",
                     ticket, " ", claim_ms > 0 ? claim_ms : lease_ms, listen ? " 1 " : " 0 ",
                     channel()),
        owner};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

// The request with a change.
inline Request Impatient(Request request) {
  request.wait = false;
  return request;
}
// A try that recalls a cached grant.
inline Request Recalling(Request request) {
  request.wait = false;
  request.recalls = true;
  return request;
}
// For a grant that its client may cache.
inline Request Cacheable(Request request) {
  request.grant += "k";
  return request;
}
inline Request For(int lease_ms, Request request) {
  request.lease_ms = lease_ms;
  return request;
}
inline Request Manual(Request request) {
  request.manual = true;
  return request;
}
inline Request Beating(int heartbeat_ms, Request request) {
  request.heartbeat_ms = heartbeat_ms;
  return request;
}
inline Request Claiming(int claim_ms, Request request) {
  request.claim_ms = claim_ms;
  return request;
}
// The same request, repeated at its ticket if it has one.
inline Request Again(Request request, const std::string& ticket = "") {
  ++request.attempt;
  if (!ticket.empty()) request.ticket = ticket;
  return request;
}

// Makes ARGV[1] waiters of owner ARGV[2] whose grants go to ARGV[3], with the tickets 1, 2, ...:
// they came first and have just sent a heartbeat. They want ARGV[5] permits; else 1.
inline constexpr char kMakeWaiters[] = R"lua(
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
for i = 1, tonumber(ARGV[1]) do
  local grant = string.format('%032x:', i) .. ARGV[4]
  redis.call('ZADD', KEYS[1], i, grant)
  redis.call('HSET', KEYS[2], grant, now .. ' 30000 ' .. (ARGV[5] or 1) .. ' 1 1 10000 0 ' .. i ..
    ' 2000 0 ' .. ARGV[3] .. ' ' .. #ARGV[2] .. ' ' .. ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], 30000)
redis.call('PEXPIRE', KEYS[2], 30000)
)lua";

// A client's subscription to its grant channel. It ends with this object.
class Inbox {
 public:
  Inbox(ScriptServer& server, const std::string& channel,
        const std::string& subscribe = "SUBSCRIBE")
      : server_(&server), connection_(server.Subscribe(subscribe, channel)) {}
  Inbox(Inbox&& other) noexcept
      : server_(std::exchange(other.server_, nullptr)),
        connection_(other.connection_),
        messages_(std::move(other.messages_)) {}
  Inbox& operator=(Inbox&& other) noexcept {
    std::swap(server_, other.server_);
    std::swap(connection_, other.connection_);
    std::swap(messages_, other.messages_);
    return *this;
  }
  ~Inbox() {
    if (server_ != nullptr) server_->Disconnect(connection_);
  }

  // The next message; "" if there is none.
  std::string Next() {
    for (redis::Reply& message : server_->Take(connection_)) {
      messages_.push_back(std::move(message.elements.back().text));
    }
    if (messages_.empty()) return "";
    std::string message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  ScriptServer* server_;
  uint64_t connection_;
  std::deque<std::string> messages_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_LUA_SCRIPT_CLIENTS_H_
