// A Redis in memory: commands in, bytes of RESP 2 or 3 out. It has no sockets, threads or clock,
// and behaves the same in every run.
//
// It executes the scripts of lua/ unchanged, in Lua 5.1, and knows only the commands that these and
// the library use. An unknown command, or an unknown form of one, ends the run.
#ifndef REDLATCH_TESTS_SIM_REDIS_REDIS_SERVER_H_
#define REDLATCH_TESTS_SIM_REDIS_REDIS_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/redis/wire/codec.h"
#include "tests/sim/redis/command.h"
#include "tests/sim/redis/keyspace.h"
#include "tests/sim/redis/lua_engine.h"

namespace redlatch::sim {

// Conditions under which a server refuses commands. Each refuses what Redis refuses then, in
// scripts too.
struct Conditions {
  bool loading = false;        // LOADING
  bool busy = false;           // BUSY
  bool out_of_memory = false;  // OOM, for commands that may need memory; also `maxmemory 1`
  bool cannot_save = false;    // MISCONF, for writes
  bool few_replicas = false;   // NOREPLICAS, for writes
  // This one refuses the first script or write of each connection, and nothing after it.
  bool Conditions::*first = nullptr;
};

// What the user may not do; everything else is permitted. Commands are in lower case, as in ACL
// rules.
struct Permissions {
  std::vector<std::string> denied_commands;
  std::vector<std::string> key_patterns = {"*"};
  std::vector<std::string> channel_patterns = {"*"};
};

// An error that is replied instead of executing a command.
struct Refusal {
  std::string error;                  // "READONLY You can't write against a read only replica."
  std::vector<std::string> commands;  // lower case; empty: all
  int times = std::numeric_limits<int>::max();
  bool in_scripts = false;  // refuses the commands that scripts call, instead of those of clients
};

struct ClusterNode {
  std::string id;  // 40 hex digits
  std::string host;
  int port = 0;
  std::string primary_id;  // of a replica
  bool failed = false;     // for CLUSTER SHARDS: whether its health is "fail"
};

// What one node believes about its cluster. Nodes may believe different things.
struct ClusterView {
  std::string me;  // the node's own id
  std::vector<ClusterNode> nodes;
  struct Range {
    int first, last;
    std::string owner;
  };
  std::vector<Range> ranges;
  std::map<int, std::string> migrating;  // slot -> the node to which it moves
  std::map<int, std::string> importing;  // slot -> the node from which it comes
  int64_t epoch = 1;
  bool down = false;

  const ClusterNode* Find(const std::string& id) const {
    for (const ClusterNode& node : nodes) {
      if (node.id == id) return &node;
    }
    return nullptr;
  }
  const std::string* OwnerOf(int slot) const {
    for (const Range& range : ranges) {
      if (slot >= range.first && slot <= range.last) return &range.owner;
    }
    return nullptr;
  }
};

// Which connections have subscribed to which channels.
class PubSub {
 public:
  bool Add(std::string_view channel, uint64_t connection) {
    std::vector<uint64_t>& all = channels_[channel];
    const auto place = std::lower_bound(all.begin(), all.end(), connection);
    if (place != all.end() && *place == connection) return false;
    all.insert(place, connection);
    return true;
  }
  bool Remove(std::string_view channel, uint64_t connection) {
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return false;
    const bool removed = std::erase(found->second, connection) > 0;
    if (found->second.empty()) channels_.erase(found);
    return removed;
  }
  // In the order of their ids, which is the order in which a message is delivered.
  std::vector<uint64_t> Subscribers(std::string_view channel) const {
    const auto found = channels_.find(channel);
    return found == channels_.end() ? std::vector<uint64_t>() : found->second;
  }
  int64_t Count(std::string_view channel) const {
    const auto found = channels_.find(channel);
    return found == channels_.end() ? 0 : static_cast<int64_t>(found->second.size());
  }

 private:
  StringMap<std::vector<uint64_t>> channels_;
};

struct Message {
  std::string channel, text;
  bool sharded = false;
};

// Everything that one command or script changed, as a replica applies it.
struct LogEntry {
  int64_t offset = 0;
  std::vector<KeyChange> changes;
  std::vector<Message> messages;  // for subscribers at the replica
};
using Log = std::deque<LogEntry>;

// Which stream of changes a server has, and its offset in it.
struct ReplicationState {
  std::string id;                             // master_replid
  std::string old_id = std::string(40, '0');  // master_replid2: valid up to old_id_until - 1
  int64_t old_id_until = -1;                  // second_repl_offset
  int64_t offset = 0;
};

// The data of a full synchronisation, or of a restart.
struct Snapshot {
  Keyspace keys;
  ReplicationState replication;
};

struct Role {
  std::string primary_host;  // empty: the server is a primary
  int primary_port = 0;
  bool link_up = true;
  bool is_replica() const { return !primary_host.empty(); }
};

using Reply = redis::Reply;

// Where a server's output goes. Neither function may call the server back.
struct Sink {
  virtual ~Sink() = default;
  virtual void Send(uint64_t connection, std::string_view bytes) = 0;
  // The server has closed the connection and forgotten it.
  virtual void Close(uint64_t connection) = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 6379;
  std::string version = "7.0.15";
  bool valkey = false;
  bool cluster = false;
  std::string password;  // empty: none is needed
  uint64_t seed = 1;     // for the run id and the replication ids, if these are not given
  std::string run_id = {}, replication_id = {};
};

// A client's connection.
struct Connection {
  struct Waiting {  // in WAIT or WAITAOF
    bool aof;
    int64_t local;
    int64_t replicas;
    int64_t offset;
    int64_t until_us;
  };

  uint64_t id = 0;
  int db = 0;
  int protocol = kResp2;
  bool authenticated = false;
  bool asking = false;
  bool closing = false;
  bool has_written = false;
  std::string name;
  std::set<std::string, std::less<>> channels, sharded_channels, patterns;
  int64_t write_offset = 0;  // for WAIT
  std::optional<Waiting> waiting;
  std::string input;   // not executed yet
  std::string output;  // not sent yet

  bool subscribed() const {
    return !channels.empty() || !sharded_channels.empty() || !patterns.empty();
  }
};

class RedisServer : private ScriptHost {
 public:
  explicit RedisServer(ServerOptions options = {}, Sink* sink = nullptr);
  ~RedisServer() override;
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const ServerOptions& options() const { return options_; }
  const std::string& run_id() const { return run_id_; }

  // The server's wall clock; it may step.
  void SetClock(int64_t unix_micros);
  int64_t clock() const { return now_us_; }
  // When a WAIT times out, on the server's clock; Tick() then replies to it.
  int64_t NextTimeout() const;
  void Tick();

  void Connect(uint64_t connection);
  void Disconnect(uint64_t connection);
  // Accepts any fragment of a stream of commands, and executes the complete ones.
  void Receive(uint64_t connection, std::string_view bytes);
  // Executes a command at once, like a new client.
  Reply Execute(const std::vector<std::string>& words);
  enum class Clients { kAll, kPubSub, kNormal };
  // Like CLIENT KILL.
  void KillConnections(Clients which);

  // All keys, values and expiries, sorted.
  std::string Dump();
  const Keyspace& keys() const { return keys_; }
  bool Has(std::string_view key) { return keys_.Find(key) != nullptr; }
  Snapshot TakeSnapshot() const { return {keys_, replication_}; }
  void Restore(const Snapshot& snapshot);

  // If enabled, the server keeps a log with one entry per command or script that wrote.
  void KeepLog(bool keep);
  const Log& log() const { return log_; }
  void TrimLog(int64_t offset);  // forgets the entries before that offset
  int64_t offset() const { return replication_.offset; }
  const ReplicationState& replication() const { return replication_; }
  const Role& role() const { return role_; }
  // A replica that becomes a primary gets a new replication id.
  void SetRole(const Role& role);
  // Makes this replica continue the stream of its primary: from its own offset if possible, and
  // otherwise from a snapshot. Returns true if it continued.
  bool SynchroniseWith(RedisServer& primary);
  // Applies an entry at a replica, in order.
  void Apply(const LogEntry& entry);
  // At a primary: a replica reports its offset, for WAIT and INFO.
  void AckFromReplica(uint64_t replica, int64_t offset);
  void RemoveReplica(uint64_t replica);
  // For WAITAOF: everything up to that offset is on the server's disk.
  void Synced(int64_t offset);
  int64_t synced() const { return synced_; }

  void SetCluster(ClusterView view);
  const ClusterView& cluster() const { return cluster_; }
  // Like MIGRATE: the keys of a slot that moves, and their values.
  std::vector<std::string> KeysInSlot(int slot);
  void MoveKey(const std::string& key, RedisServer& to);

  Conditions conditions;
  Permissions permissions;
  void Refuse(Refusal refusal) { refusals_.push_back(std::move(refusal)); }
  void FlushScripts() { scripts_.clear(); }

  struct Counts {
    uint64_t commands = 0;  // of clients
    uint64_t scripts = 0;
    // By grant id, a hash of the scripts that ran for it, in order. Renewals are left out, since
    // their number depends on the clock.
    std::map<std::string, uint64_t> grants;
    struct Asks {
      int64_t since = 0;
      int64_t count = 0;
    };
    std::map<std::string, Asks> asks;  // by grant id
    std::string busy;                  // a waiter that asked too often
    uint64_t calls_in_scripts = 0;
    // What scripts cost: the words and values of their calls, and the elements that DEL freed.
    uint64_t work = 0;
  };
  const Counts& counts() const { return counts_; }
  void CountWork(size_t work) override { counts_.work += work; }

 private:
  friend struct ServerCommands;

  struct Script {  // the running script
    Connection* connection;
    bool wrote;
    bool out_of_memory;
  };

  // ScriptHost
  void CallFromScript(Words words, Output& out) override;
  bool MayRun(Words words, bool& known) override;

  void ExecuteInput(Connection& connection);
  void Run(Connection& connection, Words words, Output& out);
  void CountAsk(const std::string& grant, std::string_view terms);
  void RunScript(Call& call, const std::string& sha1);
  void Commit();
  void Flush();
  void SendLater(uint64_t connection);
  void Drop(Connection& connection);

  // Why a command is refused; empty if it is not.
  std::string Refused(const CommandSpec& command, Words words, const Connection& connection);
  std::string RefusedInScript(const CommandSpec& command, Words words);
  std::string RefusedByFault(const CommandSpec& command, bool in_script);
  std::string RefusedBySlot(const CommandSpec& command, Words words, bool asking, bool in_script);
  std::string Redirection(int slot, bool asking, bool channels, size_t missing, size_t existing,
                          size_t keys);
  bool LacksMemory() const;
  bool Permits(const CommandSpec& command, Words words, std::string_view& what) const;
  Keyspace& KeysFor(const Connection& connection);

  int64_t Publish(std::string_view channel, std::string_view text, bool sharded);
  void Deliver(const Message& message);
  template <typename... Values>
  void Push(uint64_t id, const Values&... values);
  void EndWaits();
  // Replies if so many have it, or if its time is over.
  bool EndsWait(const Connection::Waiting& waiting, Output& out) const;
  int64_t AckedBy(int64_t offset) const;
  void LeaveSlots();
  std::string MakeId();

  const ServerOptions options_;
  Sink* const sink_;
  uint64_t ids_made_ = 0;
  std::string run_id_;
  int64_t now_us_ = 0;
  Keyspace keys_;
  std::map<std::string, std::string> config_;
  StringMap<bool> scripts_;
  std::optional<Script> script_;
  std::map<uint64_t, Connection> connections_;
  Connection direct_;             // Execute()'s
  uint64_t running_ = 0;          // the connection whose command runs
  std::string pushes_to_itself_;  // of that command
  std::vector<uint64_t> unsent_;  // connections that have output
  PubSub channels_, sharded_channels_;
  ReplicationState replication_;
  Role role_;
  bool keeps_log_ = false;
  Log log_;
  std::vector<Message> messages_;  // of the running command
  bool published_ = false;
  std::map<uint64_t, int64_t> acks_;
  int64_t synced_ = 0;
  ClusterView cluster_;
  std::vector<Refusal> refusals_;
  Counts counts_;
  absl::flat_hash_map<const CommandSpec*, int64_t> calls_;  // for INFO commandstats
  uint64_t connections_made_ = 0;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_REDIS_SERVER_H_
