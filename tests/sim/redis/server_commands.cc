// Commands about the server, its connections, messages, scripts and cluster.
#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/redis/wire/codec.h"
#include "tests/sim/redis/command.h"
#include "tests/sim/redis/redis_server.h"

namespace redlatch::sim {

struct ServerCommands {
  static void Ok(Call& call) { call.out.Status("OK"); }

  static void Ping(Call& call) {
    const std::string_view text = call.size() > 1 ? call.Word(1) : "";
    if (call.connection.subscribed() && call.connection.protocol == kResp2) {
      return call.out.List("pong", text);
    }
    call.size() > 1 ? call.out.Text(text) : call.out.Status("PONG");
  }

  static void Time(Call& call) {
    const int64_t now = call.server.now_us_;
    call.out.List(std::to_string(now / 1'000'000), std::to_string(now % 1'000'000));
  }

  static void Auth(Call& call) {
    const std::string& password = call.server.options_.password;
    if (password.empty()) {
      return call.out.Error(
          "ERR AUTH <password> called without any password configured for the default user. Are "
          "you sure your configuration is correct?");
    }
    Authenticate(call, call.size() == 2 ? "default" : call.Word(1), call.Word(call.size() - 1));
    Ok(call);
  }

  static void Authenticate(Call& call, std::string_view user, std::string_view password) {
    const std::string& expected = call.server.options_.password;
    if (user != "default" || (!expected.empty() && password != expected)) {
      throw ErrorReply{"WRONGPASS invalid username-password pair or user is disabled."};
    }
    call.connection.authenticated = true;
  }

  static void SetName(Call& call, std::string_view name) {
    if (!std::all_of(name.begin(), name.end(), absl::ascii_isgraph)) {
      throw ErrorReply{"ERR Client names cannot contain spaces, newlines or special characters."};
    }
    call.connection.name = name;
  }

  // Returns false if an option is wrong.
  static bool ReadHello(Call& call, int64_t& protocol) {
    if (call.size() > 1 && !ParseInteger(call.Word(1), protocol)) {
      throw ErrorReply{"ERR Protocol version is not an integer or out of range"};
    }
    if (protocol != kResp2 && protocol != kResp3) {
      throw ErrorReply{"NOPROTO unsupported protocol version"};
    }
    for (size_t i = 2; i < call.size(); ++i) {
      const std::string_view option = call.Word(i);
      const size_t more = call.size() - 1 - i;
      if (EqualsIgnoringCase(option, "AUTH") && more >= 2) {
        Authenticate(call, call.Word(i + 1), call.Word(i + 2));
        i += 2;
      } else if (EqualsIgnoringCase(option, "SETNAME") && more >= 1) {
        SetName(call, call.Word(++i));
      } else {
        call.out.Error(
            absl::StrCat("ERR Syntax error in HELLO option '", std::string(option), "'"));
        return false;
      }
    }
    return true;
  }

  static void Hello(Call& call) {
    RedisServer& server = call.server;
    const ServerOptions& options = server.options_;
    int64_t protocol = call.connection.protocol;
    if (!ReadHello(call, protocol)) return;
    if (!options.password.empty() && !call.connection.authenticated) {
      return call.out.Error(
          "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
          "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
          "protocol version at the same time");
    }
    call.connection.protocol = static_cast<int>(protocol);
    call.out.Map(7);
    call.out.All("server", options.valkey ? "valkey" : "redis", "version", options.version);
    call.out.All("proto", protocol, "id", call.connection.id);
    call.out.All("mode", options.cluster ? "cluster" : "standalone");
    call.out.All("role", server.role_.is_replica() ? "replica" : "master", "modules");
    call.out.Array(0);
  }

  static void Select(Call& call) {
    const int64_t db = Integer(call, 1);
    if (db < 0 || db > 15) return call.out.Error("ERR DB index is out of range");
    if (call.server.options_.cluster && db != 0) {
      return call.out.Error("ERR SELECT is not allowed in cluster mode");
    }
    // SELECT within a script ends with the script.
    if (!call.in_script) call.connection.db = static_cast<int>(db);
    call.keys.Select(static_cast<int>(db));
    Ok(call);
  }

  static void ClientSetname(Call& call) {
    SetName(call, call.Word(2));
    Ok(call);
  }

  static void ConfigGet(Call& call) {
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& [name, value] : call.server.config_) {
      for (size_t i = 2; i < call.size(); ++i) {
        if (!MatchesGlob(name, call.Word(i))) continue;
        found.emplace_back(name, value);
        break;
      }
    }
    if (found.empty()) Unknown("this parameter", call.words);
    call.out.Map(found.size());
    for (const auto& [name, value] : found) call.out.All(name, value);
  }

  static void ConfigSet(Call& call) {
    for (size_t i = 2; i + 1 < call.size(); i += 2) {
      const auto found = call.server.config_.find(std::string(call.Word(i)));
      if (found == call.server.config_.end()) Unknown("this parameter", call.words);
      found->second = call.Word(i + 1);
    }
    Ok(call);
  }

  static void ConfigResetstat(Call& call) {
    call.server.calls_.clear();
    Ok(call);
  }

  static std::string InfoCommands(const RedisServer& server) {
    std::vector<std::string> lines;
    for (const auto& [command, calls] : server.calls_) {
      lines.push_back(absl::StrCat("cmdstat_", command->LowerName(), ":calls=", calls, ",\r\n"));
    }
    std::sort(lines.begin(), lines.end());
    return absl::StrCat("# Commandstats\r\n", absl::StrJoin(lines, ""));
  }

  static std::string InfoServer(const RedisServer& server) {
    const ServerOptions& options = server.options_;
    const char* const mode = options.cluster ? "cluster" : "standalone";
    return absl::StrCat(
        "# Server\r\nredis_version:", options.valkey ? "7.2.4" : options.version, "\r\n",
        options.valkey ? absl::StrCat("server_name:valkey\r\nvalkey_version:", options.version,
                                      "\r\nserver_mode:", mode, "\r\n")
                       : "",
        "redis_mode:", mode, "\r\nprocess_id:", options.port, "\r\nrun_id:", server.run_id_,
        "\r\ntcp_port:", options.port, "\r\n");
  }

  static std::string InfoMemory(const RedisServer& server) {
    return absl::StrCat(
        "# Memory\r\nused_memory:1000000\r\nmaxmemory:", server.config_.at("maxmemory"),
        "\r\nmaxmemory_policy:", server.config_.at("maxmemory-policy"), "\r\n");
  }

  static std::string InfoReplication(const RedisServer& server) {
    const ReplicationState& state = server.replication_;
    std::string text = absl::StrCat(
        "# Replication\r\nrole:", server.role_.is_replica() ? "slave" : "master", "\r\n");
    if (server.role_.is_replica()) {
      absl::StrAppend(&text, "master_host:", server.role_.primary_host,
                      "\r\nmaster_port:", server.role_.primary_port,
                      "\r\nmaster_link_status:", server.role_.link_up ? "up" : "down",
                      "\r\nslave_repl_offset:", state.offset, "\r\n");
    }
    absl::StrAppend(&text, "connected_slaves:", server.acks_.size(), "\r\nmaster_replid:", state.id,
                    "\r\nmaster_replid2:", state.old_id, "\r\nmaster_repl_offset:", state.offset,
                    "\r\nsecond_repl_offset:", state.old_id_until, "\r\n");
    return text;
  }

  static std::string InfoRest(RedisServer& server) {
    std::string text =
        absl::StrCat("# Clients\r\nconnected_clients:", server.connections_.size(),
                     "\r\n# Stats\r\ntotal_connections_received:", server.connections_made_,
                     "\r\n# Keyspace\r\n");
    const int selected = server.keys_.selected();
    for (int db = 0; db < server.keys_.databases(); ++db) {
      server.keys_.Select(db);
      const size_t keys = server.keys_.Keys().size();
      if (keys > 0) absl::StrAppend(&text, "db", db, ":keys=", keys, ",expires=0,avg_ttl=0\r\n");
    }
    server.keys_.Select(selected);
    return text;
  }

  static void Info(Call& call) {
    RedisServer& server = call.server;
    std::string text;
    const std::string section =
        call.size() > 1 ? absl::AsciiStrToLower(std::string(call.Word(1))) : "";
    const bool all = section.empty();
    if (all || section == "server") absl::StrAppend(&text, InfoServer(server), all ? "\r\n" : "");
    if (all || section == "memory") absl::StrAppend(&text, InfoMemory(server), all ? "\r\n" : "");
    if (all || section == "replication") absl::StrAppend(&text, InfoReplication(server));
    if (all) absl::StrAppend(&text, "\r\n", InfoRest(server));
    if (section == "commandstats") text = InfoCommands(server);
    if (text.empty()) Unknown("this section of INFO", call.words);
    call.out.Lines(text);
  }

  static void RoleCommand(Call& call) {
    const RedisServer& server = call.server;
    if (server.role_.is_replica()) {
      return call.out.List("slave", server.role_.primary_host, server.role_.primary_port,
                           server.role_.link_up ? "connected" : "connect",
                           server.role_.link_up ? server.replication_.offset : -1);
    }
    call.out.Array(3);
    call.out.All("master", server.replication_.offset);
    call.out.Array(0);
  }

  static void WaitFor(Call& call, bool aof) {
    RedisServer& server = call.server;
    int64_t timeout_ms = 0;
    const size_t last = call.size() - 1;
    const int64_t local = aof ? Integer(call, 1) : 0, replicas = Integer(call, last - 1);
    if (!ParseInteger(call.Word(last), timeout_ms) || timeout_ms < 0) {
      return call.out.Error("ERR timeout is not an integer or out of range");
    }
    if (server.role_.is_replica()) {
      return call.out.Error(absl::StrCat(
          "ERR ", aof ? "WAITAOF" : "WAIT",
          " cannot be used with replica instances. Please also note that ",
          aof ? "writes to replicas are just local and are not propagated."
              : "since Redis 4.0 if a replica is configured to be writable (which is not the "
                "default) writes to replicas are just local and are not propagated."));
    }
    const int64_t until_us =
        timeout_ms == 0 ? std::numeric_limits<int64_t>::max() : server.now_us_ + 1000 * timeout_ms;
    const Connection::Waiting waiting{aof, local, replicas, call.connection.write_offset, until_us};
    if (!server.EndsWait(waiting, call.out)) call.connection.waiting = waiting;
  }
  static void Wait(Call& call) { WaitFor(call, false); }
  static void Waitaof(Call& call) { WaitFor(call, true); }

  static void Asking(Call& call) {
    call.connection.asking = true;
    Ok(call);
  }

  // --- Messages

  static void ReplyToSubscription(Call& call, std::string_view word, const std::string* channel,
                                  size_t count) {
    call.out.Push(3);
    call.out.Text(word);
    channel == nullptr ? call.out.Nil() : call.out.Text(*channel);
    call.out.Integer(static_cast<int64_t>(count));
  }

  static void SubscribeTo(Call& call, bool sharded) {
    Connection& me = call.connection;
    if (me.id == 0) Unknown("a subscription without a connection", call.words);
    auto& mine = sharded ? me.sharded_channels : me.channels;
    PubSub& all = sharded ? call.server.sharded_channels_ : call.server.channels_;
    for (size_t i = 1; i < call.size(); ++i) {
      const std::string channel(call.Word(i));
      mine.insert(channel);
      all.Add(channel, me.id);
      ReplyToSubscription(call, sharded ? "ssubscribe" : "subscribe", &channel, mine.size());
    }
  }
  static void Subscribe(Call& call) { SubscribeTo(call, false); }
  static void Ssubscribe(Call& call) { SubscribeTo(call, true); }

  static void UnsubscribeFrom(Call& call, bool sharded) {
    Connection& me = call.connection;
    auto& mine = sharded ? me.sharded_channels : me.channels;
    PubSub& all = sharded ? call.server.sharded_channels_ : call.server.channels_;
    const char* const word = sharded ? "sunsubscribe" : "unsubscribe";
    std::vector<std::string> channels(call.words.begin() + 1, call.words.end());
    if (channels.empty()) channels.assign(mine.begin(), mine.end());
    if (channels.empty()) return ReplyToSubscription(call, word, nullptr, 0);
    for (const std::string& channel : channels) {
      mine.erase(channel);
      all.Remove(channel, me.id);
      ReplyToSubscription(call, word, &channel, mine.size());
    }
  }
  static void Psubscribe(Call& call) {
    for (size_t i = 1; i < call.size(); ++i) {
      const std::string pattern(call.Word(i));
      call.connection.patterns.insert(pattern);
      ReplyToSubscription(call, "psubscribe", &pattern, call.connection.patterns.size());
    }
  }

  static void Unsubscribe(Call& call) { UnsubscribeFrom(call, false); }
  static void Sunsubscribe(Call& call) { UnsubscribeFrom(call, true); }

  static void Publish(Call& call) {
    call.out.Integer(call.server.Publish(call.Word(1), call.Word(2), false));
  }
  static void Spublish(Call& call) {
    call.out.Integer(call.server.Publish(call.Word(1), call.Word(2), true));
  }

  static void CountSubscribers(Call& call, const PubSub& channels) {
    call.out.Array(2 * (call.size() - 2));
    for (size_t i = 2; i < call.size(); ++i) {
      call.out.All(call.Word(i), channels.Count(call.Word(i)));
    }
  }
  static void Numsub(Call& call) { CountSubscribers(call, call.server.channels_); }
  static void Shardnumsub(Call& call) { CountSubscribers(call, call.server.sharded_channels_); }

  // PUBSUB without a subcommand.
  static void WithoutSubcommand(Call& call) { Unknown("this command", call.words); }

  // --- Scripts

  static void Eval(Call& call) {
    LuaEngine& engine = LuaEngine::OfThisThread();
    const std::string sha1 = engine.Sha1(call.Word(1));
    std::string error = engine.Compile(sha1, call.Word(1));
    if (!error.empty()) return call.out.Error(error);
    call.server.scripts_[sha1] = true;
    call.server.RunScript(call, sha1);
  }

  static void Evalsha(Call& call) {
    const std::string sha1 = absl::AsciiStrToLower(std::string(call.Word(1)));
    if (!call.server.scripts_.contains(sha1)) {
      return call.out.Error("NOSCRIPT No matching script. Please use EVAL.");
    }
    call.server.RunScript(call, sha1);
  }

  static void ScriptLoad(Call& call) {
    LuaEngine& engine = LuaEngine::OfThisThread();
    const std::string& sha1 = engine.Sha1(call.Word(2));
    std::string error = engine.Compile(sha1, call.Word(2));
    if (!error.empty()) return call.out.Error(error);
    call.server.scripts_[sha1] = true;
    call.out.Text(sha1);
  }

  // --- Cluster

  static void ReplyWithNode(Call& call, const ClusterNode& node) {
    call.out.Array(4);
    call.out.All(node.host, node.port, node.id);
    call.out.Map(0);
  }

  static std::vector<const ClusterNode*> ReplicasOf(const ClusterView& view,
                                                    const std::string& primary) {
    std::vector<const ClusterNode*> replicas;
    for (const ClusterNode& node : view.nodes) {
      if (node.primary_id == primary && !node.failed) replicas.push_back(&node);
    }
    return replicas;
  }

  static void ClusterSlots(Call& call) {
    const ClusterView& view = call.server.cluster_;
    call.out.Array(view.ranges.size());
    for (const ClusterView::Range& range : view.ranges) {
      const auto replicas = ReplicasOf(view, range.owner);
      call.out.Array(3 + replicas.size());
      call.out.All(range.first, range.last);
      ReplyWithNode(call, *view.Find(range.owner));
      for (const ClusterNode* const replica : replicas) ReplyWithNode(call, *replica);
    }
  }

  static void ReplyWithShardNode(Call& call, const ClusterNode& node) {
    call.out.Map(7);
    call.out.All("id", node.id, "port", node.port, "ip", node.host, "endpoint", node.host, "role",
                 node.primary_id.empty() ? "master" : "replica", "replication-offset",
                 call.server.replication_.offset, "health", node.failed ? "fail" : "online");
  }

  static void ClusterShards(Call& call) {
    const ClusterView& view = call.server.cluster_;
    std::vector<const ClusterNode*> primaries;
    for (const ClusterNode& node : view.nodes) {
      if (node.primary_id.empty()) primaries.push_back(&node);
    }
    call.out.Array(primaries.size());
    for (const ClusterNode* const primary : primaries) {
      std::vector<int> slots;
      for (const ClusterView::Range& range : view.ranges) {
        if (range.owner == primary->id) slots.insert(slots.end(), {range.first, range.last});
      }
      call.out.Map(2);
      call.out.Text("slots");
      call.out.Array(slots.size());
      for (const int slot : slots) call.out.Integer(slot);
      call.out.Text("nodes");
      std::vector<const ClusterNode*> nodes = {primary};
      for (const ClusterNode& node : view.nodes) {
        if (node.primary_id == primary->id) nodes.push_back(&node);
      }
      call.out.Array(nodes.size());
      for (const ClusterNode* const node : nodes) ReplyWithShardNode(call, *node);
    }
  }

  static void ClusterInfo(Call& call) {
    const ClusterView& view = call.server.cluster_;
    call.out.Lines(absl::StrCat("cluster_enabled:1\r\ncluster_state:", view.down ? "fail" : "ok",
                                "\r\ncluster_known_nodes:", view.nodes.size(),
                                "\r\ncluster_current_epoch:", view.epoch, "\r\n"));
  }

  static void ClusterMyid(Call& call) { call.out.Text(call.server.cluster_.me); }
};

using C = ServerCommands;

const std::vector<CommandSpec> kServerCommands = {
    {"PING", -1, kSubscribed, 0, 0, 0, C::Ping},
    {"TIME", 1, kLoading, 0, 0, 0, C::Time},
    {"AUTH", -2, kNoScript | kLoading | kNoAuth | kWhileBusy, 0, 0, 0, C::Auth},
    {"HELLO", -1, kNoScript | kLoading | kNoAuth | kWhileBusy, 0, 0, 0, C::Hello},
    {"SELECT", 2, kLoading, 0, 0, 0, C::Select},
    {"CLIENT SETNAME", 3, kNoScript | kLoading, 0, 0, 0, C::ClientSetname},
    {"CONFIG GET", -3, kNoScript | kLoading, 0, 0, 0, C::ConfigGet},
    {"CONFIG SET", -4, kNoScript | kLoading, 0, 0, 0, C::ConfigSet},
    {"CONFIG RESETSTAT", 2, kNoScript | kLoading, 0, 0, 0, C::ConfigResetstat},
    {"INFO", -1, kLoading, 0, 0, 0, C::Info},
    {"ROLE", 1, kNoScript | kLoading, 0, 0, 0, C::RoleCommand},
    {"WAIT", 3, kNoScript, 0, 0, 0, C::Wait},
    {"WAITAOF", 4, kNoScript, 0, 0, 0, C::Waitaof},
};

const std::vector<CommandSpec> kPubSubCommands = {
    {"SUBSCRIBE", -2, kNoScript | kLoading | kSubscribed | kChannels, 1, -1, 1, C::Subscribe},
    {"SSUBSCRIBE", -2, kNoScript | kLoading | kSubscribed | kChannels | kSharded, 1, -1, 1,
     C::Ssubscribe},
    {"PSUBSCRIBE", -2, kNoScript | kLoading | kSubscribed, 0, 0, 0, C::Psubscribe},
    {"UNSUBSCRIBE", -1, kNoScript | kLoading | kSubscribed | kChannels, 1, -1, 1, C::Unsubscribe},
    {"SUNSUBSCRIBE", -1, kNoScript | kLoading | kSubscribed | kChannels | kSharded, 1, -1, 1,
     C::Sunsubscribe},
    {"PUBLISH", 3, kLoading | kChannels, 1, 1, 1, C::Publish},
    {"SPUBLISH", 3, kLoading | kChannels | kSharded, 1, 1, 1, C::Spublish},
    {"PUBSUB", -2, kLoading, 0, 0, 0, C::WithoutSubcommand},
    {"PUBSUB NUMSUB", -2, kLoading | kChannels, 2, -1, 1, C::Numsub},
    {"PUBSUB SHARDNUMSUB", -2, kLoading | kChannels, 2, -1, 1, C::Shardnumsub},
};

const std::vector<CommandSpec> kScriptCommands = {
    {"EVAL", -3, kNoScript | kKeysByNumber, 0, 0, 0, C::Eval},
    {"EVALSHA", -3, kNoScript | kKeysByNumber, 0, 0, 0, C::Evalsha},
    {"SCRIPT LOAD", 3, kNoScript, 0, 0, 0, C::ScriptLoad},
};

const std::vector<CommandSpec> kClusterCommands = {
    {"ASKING", 1, 0, 0, 0, 0, C::Asking},
    {"CLUSTER SLOTS", 2, kLoading, 0, 0, 0, C::ClusterSlots},
    {"CLUSTER SHARDS", 2, kLoading, 0, 0, 0, C::ClusterShards},
    {"CLUSTER INFO", 2, 0, 0, 0, 0, C::ClusterInfo},
    {"CLUSTER MYID", 2, 0, 0, 0, 0, C::ClusterMyid},
};

}  // namespace redlatch::sim
