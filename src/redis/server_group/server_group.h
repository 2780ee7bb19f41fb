#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/redis/link/pipeline.h"
#include "src/redis/link/script_call.h"
#include "src/redis/transport/transport.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

// All that the engine knows of servers: what goes to which of them is decided here, by key, and so
// is over which connections. Each server has two, one for commands and one for messages, and it is
// seen to that both lead to the same server.
//
// Thread-safe. Not to be used in a forked child, except that it may be destroyed there, and that
// what is asked of it fails with kFailedPrecondition.
class ServerGroup {
 public:
  // They run on any thread, also on one that is just calling; they return at once and call
  // nothing of the server group but server().
  struct Events {
    std::function<void(std::string_view message)> on_message;
    // A connection was lost and made again: whatever was under way may be lost. A thread of the
    // client's own is to call Realign() soon.
    std::function<void()> on_reconnected;
    // For now no message arrives. Nothing, if nobody is to be told.
    std::function<void()> on_down = nullptr;
    // Messages do not arrive, for that reason, or arrive again.
    std::function<void(bool is_subscribed, std::string_view why)> on_subscribed;
    // Answers to what was posted are still to come, and nobody reads them any more.
    std::function<void()> on_unread = nullptr;
  };

  virtual ~ServerGroup() = default;

  // The server that has the key, for messages to people.
  virtual std::string server(std::string_view key) const = 0;

  // The id of the replication stream of the server that has the key; empty: whoever needs it is to
  // ask there, as is due now and then: a server that stepped down and came back unnoticed has
  // another.
  virtual std::string primary_epoch(std::string_view key) = 0;
  // The id of its present run; empty where nobody knows.
  virtual std::string run_id(std::string_view key) = 0;
  // For how long a server that lost its replicas goes on granting, as far as that is known: until
  // there was a connection, the least.
  virtual absl::Duration grants_alone_for() const = 0;

  // Makes the first connections, or tells by the deadline why that failed; what the servers warn of
  // is appended to `warnings`. Calls connect by themselves.
  virtual absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) = 0;

  // The answer of the server that has the key. See SharedConnection::Call().
  virtual absl::StatusOr<Reply> Call(std::string_view key, const Command& command,
                                     base::Instant deadline) = 0;
  // The strings at these keys, wherever each is; empty where there is none, or no answer.
  virtual std::vector<std::string> Get(absl::Span<const std::string> keys,
                                       base::Instant deadline) = 0;
  // The call as that server is to be given it.
  virtual ScriptCall WordingOf(const ScriptCall& call) { return call; }
  // The answer of the server that has the call's first key. See Scripts.
  virtual absl::StatusOr<Reply> Run(const ScriptCall& call, base::Instant deadline,
                                    StillWanted still_wanted = AlwaysWanted) = 0;
  // Those to one server travel in one write.
  virtual void RunBatch(absl::Span<const ScriptCall> calls, base::Instant deadline,
                        absl::Span<absl::StatusOr<Reply>> results) = 0;
  // The same at the server that has the keys of all of them, and who has them then; see
  // AckedConnection.
  virtual absl::StatusOr<base::Acks> RunAcked(absl::Span<const ScriptCall> calls,
                                              const base::AcksWanted& wanted,
                                              absl::Duration patience, base::Instant deadline,
                                              absl::Span<absl::StatusOr<Reply>> results) = 0;
  // To the server that has the key; see SharedConnection.
  using Done = std::function<void(absl::StatusOr<Reply> answer)>;
  virtual absl::Status Send(std::string_view key, const Command& command, Done done = nullptr) = 0;
  virtual bool Drain(std::string_view key, base::Instant until) = 0;
  // The same over the connections to all servers.
  virtual bool DrainAll(base::Instant until) = 0;
  // Whether a script can be posted: for the first time over a connection it is to be waited for, as
  // the server may not know it. Asked once, this has happened.
  virtual bool MayPost(std::string_view key, const LuaScript& script) = 0;
  // Sends a script, by its SHA-1, to the server that has its first key, and does not wait; see
  // SharedConnection::Post(). The last of the exchange's results is its reply; if there are two, a
  // PING goes before it.
  virtual absl::Status Post(const ScriptCall& call, InFlight& in_flight) = 0;
  // The same, of an exchange with one result that a thread waits for later: in
  // SharedConnection::Finish(), which must follow. False: it was not sent.
  virtual bool BeginRun(const ScriptCall&, InFlight&) { return false; }
  // For who polls several at once: where the answers come from that Drain() reads, its descriptor
  // -1 while another thread reads them.
  virtual Transport::Polled BeginPoll(std::string_view key) = 0;
  // The same of the connections that DrainAll() reads.
  virtual void BeginPollAll(std::vector<Transport::Polled>&) {}

  // What stands in the names of channels, and of keys that are no lock's, for them to lie where
  // `key` does: a hash tag and ':'. Empty where all is one server's.
  virtual std::string slot_tag(std::string_view key) const = 0;
  // Messages about the key can reach this client.
  virtual bool subscribed(std::string_view key) const = 0;
  // They do, as far as this client knows.
  virtual bool subscribed_now(std::string_view key) const { return subscribed(key); }
  // Sees to that; two may do so at once. kUnavailable, by the deadline or when the stop is
  // requested: it goes on in the background.
  virtual absl::Status Subscribe(std::string_view key, base::Instant deadline,
                                 const std::stop_token& stop) = 0;
  // From here on, or no longer, messages about the key are to be heard at once though nobody awaits
  // any. Each call that begins it is followed by one that ends it.
  virtual void Attend(std::string_view, bool /*begins*/) {}
  // Those that have come are heard now; see Subscriber::Look().
  virtual void Look(std::string_view) {}
  // Sleeps until the parker is set, as by a message; see Subscriber::Await().
  virtual uint32_t Await(std::string_view key, base::Parker& parker, base::Instant deadline) = 0;

  // Whether the next script for the key is to ask if messages arrive, and what it was told.
  // `asked`: when it was sent.
  virtual bool asks_if_subscribed(std::string_view key) const = 0;
  virtual void NoteSubscribed(std::string_view key, bool is_subscribed, base::Instant asked) = 0;
  // Messages about the key may not arrive: a wait lasts, or one that began then ended without the
  // message that was due.
  virtual void CheckSubscription(std::string_view key, base::Instant now,
                                 std::optional<base::Instant> missed_since) = 0;
  // After on_reconnected, by a thread of the client's own.
  using Concerned = std::function<bool(std::string_view key)>;
  struct Realigned {
    Concerned concerned = nullptr;  // whose locks that is about; null: all
    bool reconnected = true;        // a connection was made again; else a slot has moved
  };
  virtual Realigned Realign() = 0;

  struct Stats {
    uint64_t connects = 0;  // connections for commands: made, lost or given up
    uint64_t breaks = 0;
    uint64_t late = 0;  // calls whose deadline came first
  };
  virtual Stats stats() const = 0;

  // No event comes any more. Calls can be made.
  virtual void Stop() = 0;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_
