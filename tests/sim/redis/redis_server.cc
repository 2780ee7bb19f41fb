#include "tests/sim/redis/redis_server.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/sha1.h"
#include "src/redis/wire/codec.h"
#include "tests/sim/redis/command.h"
#include "tests/sim/redis/resp.h"

namespace redlatch::sim {
namespace {

constexpr int64_t kLongestFaultMs = 4000;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

bool Renews(const std::string& sha1) {
  static const auto* const renewals = [] {
    auto* const found = new std::set<std::string_view>();
    for (const LuaScript& script : lua::kAll) {
      if (script.name.find("/renew") != std::string_view::npos) found->insert(script.sha1);
    }
    return found;
  }();
  return renewals->contains(sha1);
}

}  // namespace

RedisServer::RedisServer(ServerOptions options, Sink* sink)
    : options_(std::move(options)),
      sink_(sink),
      run_id_(options_.run_id.empty() ? MakeId() : options_.run_id) {
  replication_.id = options_.replication_id.empty() ? MakeId() : options_.replication_id;
  config_ = {{"maxmemory", "0"},
             {"maxmemory-policy", "noeviction"},
             {"min-replicas-to-write", "0"},
             {"min-replicas-max-lag", "10"}};
  SetClock(1'700'000'000'000'000);
}

RedisServer::~RedisServer() = default;

std::string RedisServer::MakeId() {
  return base::Sha1Hex(absl::StrCat(options_.seed, ":", options_.port, ":", ids_made_++));
}

void RedisServer::SetClock(int64_t unix_micros) {
  now_us_ = unix_micros;
  keys_.SetTime(unix_micros / 1000, !role_.is_replica());
}

Keyspace& RedisServer::KeysFor(const Connection& connection) {
  keys_.Select(connection.db);
  return keys_;
}

void RedisServer::Connect(uint64_t id) {
  Connection& connection = connections_[id];
  connection = Connection();
  connection.id = id;
  ++connections_made_;
}

void RedisServer::Drop(Connection& connection) {
  for (const std::string& channel : connection.channels) channels_.Remove(channel, connection.id);
  for (const std::string& channel : connection.sharded_channels) {
    sharded_channels_.Remove(channel, connection.id);
  }
  std::erase(unsent_, connection.id);
  connections_.erase(connection.id);
}

void RedisServer::Disconnect(uint64_t id) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) Drop(found->second);
}

void RedisServer::KillConnections(Clients which) {
  for (auto& [id, connection] : connections_) {
    if (which == Clients::kAll || connection.subscribed() == (which == Clients::kPubSub)) {
      connection.closing = true;
      SendLater(id);
    }
  }
  Flush();
}

void RedisServer::Receive(uint64_t id, std::string_view bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  found->second.input.append(bytes);
  ExecuteInput(found->second);
  Flush();
}

void RedisServer::ExecuteInput(Connection& connection) {
  std::vector<std::string_view> words;
  size_t done = 0;
  while (!connection.waiting && !connection.closing) {
    const size_t size = ReadCommand(std::string_view(connection.input).substr(done), words);
    if (size == 0) break;
    done += size;
    if (words.empty()) continue;
    RespOutput out(connection.output, connection.protocol);
    running_ = connection.id;
    Run(connection, words, out);
    running_ = 0;
    connection.output += std::exchange(pushes_to_itself_, "");
  }
  connection.input.erase(0, done);
  if (!connection.output.empty() || connection.closing) SendLater(connection.id);
}

Reply RedisServer::Execute(const std::vector<std::string>& words) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  direct_.authenticated = true;
  ReplyOutput out;
  Run(direct_, views, out);
  if (direct_.waiting) Unknown("a WAIT that waits, without a connection", views);
  Flush();
  return std::move(out.replies().front());
}

void RedisServer::Run(Connection& connection, Words words, Output& out) {
  const CommandSpec* const command = FindCommand(words);
  if (command == nullptr) Unknown("this command", words);
  ++counts_.commands;
  const bool writes = command->is(kWrite) || command->is(kKeysByNumber);
  const bool first = writes && !std::exchange(connection.has_written, true) &&
                     conditions.first != nullptr && !(conditions.*conditions.first);
  bool Conditions::*const refuses = first ? conditions.first : nullptr;
  if (first) conditions.*refuses = true;
  std::string refused = Refused(*command, words, connection);
  const bool asked = connection.asking;
  if (refused.empty()) {
    Call call{*this, connection, KeysFor(connection), words, out};
    command->Execute(call);
    ++calls_[command];
  } else {
    out.Error(refused);
  }
  if (first) conditions.*refuses = false;
  if (asked) connection.asking = false;  // ASKING is valid for one command
  Commit();
  connection.write_offset = replication_.offset;
}

void RedisServer::Commit() {
  if (!keys_.has_changed() && !published_) return;
  published_ = false;
  std::vector<KeyChange> changes = keys_.TakeChanges();
  if (role_.is_replica()) return;
  ++replication_.offset;
  if (keeps_log_) {
    log_.push_back({replication_.offset, std::move(changes), std::move(messages_)});
  }
  messages_.clear();
}

void RedisServer::SendLater(uint64_t id) {
  if (std::find(unsent_.begin(), unsent_.end(), id) == unsent_.end()) unsent_.push_back(id);
}

void RedisServer::Flush() {
  while (!unsent_.empty()) {
    const uint64_t id = unsent_.front();
    unsent_.erase(unsent_.begin());
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    const std::string output = std::move(found->second.output);
    found->second.output.clear();
    const bool closing = found->second.closing;
    if (closing) Drop(found->second);
    if (!output.empty() && sink_ != nullptr) sink_->Send(id, output);
    if (closing && sink_ != nullptr) sink_->Close(id);
  }
}

// --- Scripts

// P8: a waiter asks once in a heartbeat, more often near the head, and again after an error. A
// server that hung, or whose link stood still, executes the requests of a whole fault at once.
void RedisServer::CountAsk(const std::string& grant, std::string_view terms) {
  int64_t heartbeat_ms = 0;
  if (sscanf(std::string(terms).c_str(), "%*u %*u %*1u %ld ", &heartbeat_ms) != 1) return;
  Counts::Asks& asks = counts_.asks.try_emplace(grant, clock(), 0).first->second;
  if (clock() < asks.since) asks = {.since = clock()};
  const int64_t took_ms = (clock() - asks.since) / 1000;
  const int64_t time_ms = took_ms + kLongestFaultMs;
  if (++asks.count <= 4 * time_ms / std::clamp<int64_t>(heartbeat_ms, 1, 100)) return;
  counts_.busy = absl::StrCat(grant, " asked ", asks.count, " times in ", took_ms, " ms");
}

void RedisServer::RunScript(Call& call, const std::string& sha1) {
  int64_t count = 0;
  if (!ParseInteger(call.Word(2), count) || count < 0 ||
      static_cast<size_t>(count) > call.size() - 3) {
    Unknown("this form of EVAL", call.words);
  }
  ++counts_.scripts;
  const auto keys = static_cast<size_t>(count);
  if (call.size() > 3 + keys && !Renews(sha1)) {
    const std::string id(call.Word(3 + keys));
    uint64_t& grant = counts_.grants[id];
    grant = grant * 31 + std::hash<std::string>()(sha1 + std::string(call.Word(3)));
    if (call.size() > 5 + keys) CountAsk(id, call.Word(5 + keys));
  }
  script_ = Script{&call.connection, false, LacksMemory()};
  LuaEngine::OfThisThread().Run(sha1, call.words.subspan(3, keys), call.words.subspan(3 + keys),
                                *this, call.out);
  script_.reset();
}

void RedisServer::CallFromScript(Words words, Output& out) {
  ++counts_.calls_in_scripts;
  const CommandSpec* const command = FindCommand(words);
  if (command == nullptr) Unknown("this command in a script", words);
  if (std::string refused = RefusedInScript(*command, words); !refused.empty()) {
    return out.Error(refused);
  }
  if (command->is(kWrite)) script_->wrote = true;
  ++calls_[command];
  Call call{*this, *script_->connection, keys_, words, out, true};
  command->Execute(call);
}

bool RedisServer::MayRun(Words words, bool& known) {
  const CommandSpec* const command = FindCommand(words);
  known = command != nullptr && command->accepts(words.size());
  std::string_view what;
  return known && Permits(*command, words, what);
}

// --- Messages

// Since 7.2, what a command sends to its own connection follows the command's reply.
template <typename... Values>
void RedisServer::Push(uint64_t id, const Values&... values) {
  Connection& connection = connections_.find(id)->second;
  const bool after_reply = id == running_ && !options_.version.starts_with("7.0");
  RespOutput out(after_reply ? pushes_to_itself_ : connection.output, connection.protocol);
  out.Push(sizeof...(values));
  out.All(values...);
  SendLater(id);
}

int64_t RedisServer::Publish(std::string_view channel, std::string_view text, bool sharded) {
  const Message message{std::string(channel), std::string(text), sharded};
  Deliver(message);
  if (keeps_log_) messages_.push_back(message);
  published_ = true;
  int64_t count = (sharded ? sharded_channels_ : channels_).Count(channel);
  for (auto& [id, connection] : connections_) {
    for (const std::string& pattern : connection.patterns) {
      if (sharded || !MatchesGlob(channel, pattern)) continue;
      ++count;
      Push(id, "pmessage", pattern, channel, text);
    }
  }
  return count;
}

void RedisServer::Deliver(const Message& message) {
  const PubSub& channels = message.sharded ? sharded_channels_ : channels_;
  for (const uint64_t id : channels.Subscribers(message.channel)) {
    Push(id, message.sharded ? "smessage" : "message", message.channel, message.text);
  }
}

// --- Replication

void RedisServer::KeepLog(bool keep) {
  keeps_log_ = keep;
  keys_.Remember(keep);
  if (!keep) log_.clear();
}

void RedisServer::TrimLog(int64_t offset) {
  while (!log_.empty() && log_.front().offset <= offset) log_.pop_front();
}

void RedisServer::Restore(const Snapshot& snapshot) {
  keys_ = snapshot.keys;
  keys_.Remember(keeps_log_);
  keys_.TakeChanges();
  replication_ = snapshot.replication;
  log_.clear();
  SetClock(now_us_);
}

void RedisServer::SetRole(const Role& role) {
  const bool was_replica = role_.is_replica();
  role_ = role;
  SetClock(now_us_);
  if (was_replica && !role.is_replica()) {
    replication_.old_id = std::exchange(replication_.id, MakeId());
    replication_.old_id_until = replication_.offset + 1;
    acks_.clear();
  }
  if (was_replica || !role.is_replica()) return;
  acks_.clear();
  for (auto& [id, connection] : connections_) {
    if (!connection.waiting) continue;
    connection.waiting.reset();
    RespOutput(connection.output)
        .Error(
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> "
            "replica?)");
    connection.closing = true;
    SendLater(id);
  }
  Flush();
}

bool RedisServer::SynchroniseWith(RedisServer& primary) {
  const ReplicationState& theirs = primary.replication_;
  const bool same = replication_.id == theirs.id && replication_.offset <= theirs.offset;
  const bool older = replication_.id == theirs.old_id && replication_.offset < theirs.old_id_until;
  const int64_t first = primary.log_.empty() ? theirs.offset + 1 : primary.log_.front().offset;
  const bool continues = (same || older) && replication_.offset + 1 >= first;
  if (continues) {
    const int64_t offset = replication_.offset;
    replication_ = theirs;
    replication_.offset = offset;
  } else {
    Restore(primary.TakeSnapshot());
  }
  return continues;
}

void RedisServer::Apply(const LogEntry& entry) {
  if (entry.offset != replication_.offset + 1) Unknown("a gap in the replication stream", {});
  for (const KeyChange& change : entry.changes) keys_.Apply(change);
  keys_.TakeChanges();
  for (const Message& message : entry.messages) Deliver(message);
  replication_.offset = entry.offset;
  if (keeps_log_) log_.push_back(entry);
  Flush();
}

void RedisServer::AckFromReplica(uint64_t replica, int64_t offset) {
  acks_[replica] = offset;
  EndWaits();
}

void RedisServer::RemoveReplica(uint64_t replica) { acks_.erase(replica); }

int64_t RedisServer::AckedBy(int64_t offset) const {
  return std::count_if(acks_.begin(), acks_.end(),
                       [offset](const auto& ack) { return ack.second >= offset; });
}

void RedisServer::Synced(int64_t offset) {
  synced_ = offset;
  EndWaits();
}

bool RedisServer::EndsWait(const Connection::Waiting& waiting, Output& out) const {
  const int64_t replicas = AckedBy(waiting.offset);
  const int64_t local = synced_ >= waiting.offset ? 1 : 0;
  const bool enough = replicas >= waiting.replicas && local >= waiting.local;
  if (!enough && now_us_ < waiting.until_us) return false;
  waiting.aof ? out.List(local, replicas) : out.Integer(replicas);
  return true;
}

int64_t RedisServer::NextTimeout() const {
  int64_t next = kNever;
  for (const auto& [id, connection] : connections_) {
    if (connection.waiting) next = std::min(next, connection.waiting->until_us);
  }
  return next;
}

void RedisServer::Tick() { EndWaits(); }

void RedisServer::EndWaits() {
  for (auto& [id, connection] : connections_) {
    if (!connection.waiting) continue;
    RespOutput out(connection.output, connection.protocol);
    if (!EndsWait(*connection.waiting, out)) continue;
    connection.waiting.reset();
    SendLater(id);
    ExecuteInput(connection);
  }
  Flush();
}

// --- Cluster

void RedisServer::SetCluster(ClusterView view) {
  cluster_ = std::move(view);
  LeaveSlots();
  Flush();
}

// Ends the subscriptions to channels of slots that the node no longer serves.
void RedisServer::LeaveSlots() {
  const ClusterNode* const me = cluster_.Find(cluster_.me);
  for (auto& [id, connection] : connections_) {
    const auto channels = connection.sharded_channels;
    for (const std::string& channel : channels) {
      const std::string* const owner = cluster_.OwnerOf(redis::SlotOf(channel));
      if (owner != nullptr && me != nullptr &&
          (*owner == cluster_.me || *owner == me->primary_id)) {
        continue;
      }
      sharded_channels_.Remove(channel, id);
      connection.sharded_channels.erase(channel);
      Push(id, "sunsubscribe", channel, connection.sharded_channels.size());
    }
  }
}

std::vector<std::string> RedisServer::KeysInSlot(int slot) {
  keys_.Select(0);
  std::vector<std::string> keys = keys_.Keys();
  std::erase_if(keys, [slot](const std::string& key) { return redis::SlotOf(key) != slot; });
  return keys;
}

void RedisServer::MoveKey(const std::string& key, RedisServer& to) {
  keys_.Select(0);
  to.keys_.Select(0);
  const Value* const value = keys_.Find(key);
  if (value == nullptr) return;
  to.keys_.Set(key, *value);
  if (const int64_t expiry = keys_.Expiry(key); expiry != kNoExpiry) {
    to.keys_.SetExpiry(key, expiry);
  }
  keys_.Erase(key);
  Commit();
  to.Commit();
}

std::string RedisServer::Dump() { return keys_.Dump(); }

}  // namespace redlatch::sim
