// Clients that are only names: what they ask, are answered, and hear.
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

// What acquire is asked for; everything has the value that a test most often wants.
struct Request {
  std::string hold;
  std::string owner;
  int lease_ms = 30000;
  int attempt = 1;
  bool wait = true;
  bool calls = false;  // if it does not wait: whoever keeps it is told
  int heartbeat_ms = 10000;
  int block = 1;
  bool manual = false;
  std::string ticket = "0";
  int claim_ms = 0;                    // 0: the lease
  bool listen = false;                 // be told whether the channel has a subscriber
  std::vector<std::string> more = {};  // ARGV that a primitive adds
  std::string tag = "";                // of its channel, in a cluster

  std::string client() const { return hold.substr(0, 32); }
  std::string channel() const { return "redlatch:" + tag + client(); }
  std::string wait_word() const { return wait ? " 1 " : calls ? " 3 " : " 0 "; }
  std::vector<std::string> Args() const {
    std::vector<std::string> args = {
        hold, absl::StrCat(lease_ms),
        absl::StrCat(block, " ", attempt, wait_word(), heartbeat_ms, manual ? " 1 " : " 0 ", ticket,
                     " ", claim_ms > 0 ? claim_ms : lease_ms, listen ? " 1 " : " 0 ", channel()),
        owner};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

// The same request, otherwise.
inline Request Impatient(Request request) {
  request.wait = false;
  return request;
}
// A try that tells whoever may keep the lock.
inline Request Calling(Request request) {
  request.wait = false;
  request.calls = true;
  return request;
}
// Of a hold that its client may keep.
inline Request Kept(Request request) {
  request.hold += "k";
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
// As a client repeats it: at its ticket, if it has one.
inline Request Again(Request request, const std::string& ticket = "") {
  ++request.attempt;
  if (!ticket.empty()) request.ticket = ticket;
  return request;
}

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

// A client's subscription to its grant channel. It ends with this object.
class Ear {
 public:
  Ear(ScriptServer& server, const std::string& channel, const std::string& subscribe = "SUBSCRIBE")
      : server_(&server), connection_(server.Subscribe(subscribe, channel)) {}
  Ear(Ear&& other) noexcept
      : server_(std::exchange(other.server_, nullptr)),
        connection_(other.connection_),
        heard_(std::move(other.heard_)) {}
  Ear& operator=(Ear&& other) noexcept {
    std::swap(server_, other.server_);
    std::swap(connection_, other.connection_);
    std::swap(heard_, other.heard_);
    return *this;
  }
  ~Ear() {
    if (server_ != nullptr) server_->Disconnect(connection_);
  }

  // The next message; "" if there is none.
  std::string Hear() {
    for (redis::Reply& message : server_->Take(connection_)) {
      heard_.push_back(std::move(message.elements.back().text));
    }
    if (heard_.empty()) return "";
    std::string message = std::move(heard_.front());
    heard_.pop_front();
    return message;
  }

 private:
  ScriptServer* server_;
  uint64_t connection_;
  std::deque<std::string> heard_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_LUA_SCRIPT_CLIENTS_H_
