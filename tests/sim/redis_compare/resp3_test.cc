// Compares the in-memory Redis in RESP 3 with a real server, byte for byte: HELLO in all its forms,
// the types of replies, and messages on a connection that has commands too.
#include <regex>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/sim/redis/redis_server.h"
#include "tests/sim/redis_compare/encoded_values.h"
#include "tests/support/redis_server.h"
#include "tests/support/server_groups.h"

namespace redlatch::sim {
namespace {

using Words = std::vector<std::string>;

// The same connections to a real server and to the simulated one.
class Pairs {
 public:
  explicit Pairs(support::RedisServer& real, ServerOptions options = {})
      : real_(real), sim_(std::move(options), &outputs_) {}
  RedisServer& sim() { return sim_; }

  void Do(uint64_t client, const Words& words) {
    if (reals_.try_emplace(client, real_).second) sim_.Connect(client);
    reals_.at(client).Send(words);
    Send(sim_, client, words);
    Compare(absl::StrJoin(words, " "));
  }
  // "SET a 1; GET a"
  void Do(uint64_t client, const std::string& commands) {
    for (const std::string& words : Words(absl::StrSplit(commands, "; "))) {
      Do(client, Words(absl::StrSplit(words, ' ')));
    }
  }

  // Compares what all connections are sent. What a real server sends beyond that shows next time.
  void Compare(const std::string& after) {
    for (auto& [client, real] : reals_) {
      for (const std::string& value : outputs_.Take(client)) {
        EXPECT_EQ(Comparable(value), Comparable(real.Receive())) << client << ": " << after;
      }
    }
  }

 private:
  // Without connection ids, the texts of INFO, and the order of the nodes of a cluster.
  static std::string Comparable(const std::string& value) {
    static const std::regex kId("\\$2\r\nid\r\n:\\d+"), kInfo("^=\\d+\r\n(txt:)[^]*");
    std::string text = std::regex_replace(value, kId, "id");
    text = std::regex_replace(text, kInfo, "=$1");
    if (text.find("replication-offset") == text.npos) return text;
    Words lines = absl::StrSplit(text, "\r\n");
    std::sort(lines.begin(), lines.end());
    return absl::StrJoin(lines, "\r\n");
  }

  support::RedisServer& real_;
  std::map<uint64_t, EncodedConnection> reals_;
  EncodedOutputs outputs_;
  RedisServer sim_;
};

struct RealServerResp3 : ::testing::Test {
  RealServerResp3() : real_(support::RedisServer::Start()), pairs_(*real_) {}

  void SetUp() override {
    if (!real_->Version().starts_with("7.0")) {
      GTEST_SKIP() << "later versions have other words, numbers and orders";
    }
  }

  void Eval(uint64_t client, const std::string& script) {
    pairs_.Do(client, {"EVAL", script, "1", "z"});
  }

  const std::unique_ptr<support::RedisServer> real_;
  Pairs pairs_;
};

TEST_F(RealServerResp3, HelloMatches) {
  const auto locked = support::RedisServer::Start({.password = "secret"});
  Pairs with_password(*locked, {.password = "secret"});
  const std::string forms =
      "HELLO; HELLO 2; HELLO 3; HELLO 1; HELLO 4; HELLO x; HELLO ; HELLO 03; HELLO -3; "
      "HELLO 99999999999999999999; HELLO 3 AUTH default secret; "
      "HELLO 3 AUTH default wrong; HELLO 3 AUTH other secret; HELLO 3 AUTH default; "
      "HELLO 3 AUTH; HELLO AUTH default secret; HELLO 3 SETNAME name; HELLO 3 SETNAME; "
      "HELLO 3 SETNAME n\x80; HELLO 3 SETNAME ; hello 3 setname name auth default secret; "
      "HELLO 2 AUTH default secret SETNAME name; HELLO 3 SETNAME name AUTH default wrong; "
      "HELLO 3 FOO; HELLO 4 FOO; HELLO 3 AUTH default secret FOO; "
      "HELLO 3 AUTH default wrong FOO";
  uint64_t client = 0;
  for (const std::string& form : Words(absl::StrSplit(forms, "; "))) {
    ++client;
    for (Pairs* const pairs : {&pairs_, &with_password}) {
      pairs->Do(client, form);
      pairs->Do(client,
                "GET none; HELLO; HELLO 3 AUTH default secret; GET none; HELLO 2; GET none");
    }
  }
}

TEST_F(RealServerResp3, RepliesMatch) {
  for (const char* const protocol : {"HELLO 2", "HELLO 3"}) {
    pairs_.Do(1, protocol);
    pairs_.Do(1,
              "FLUSHALL; SET a 1; SET a 2 NX; MGET a none; TYPE a; HSET h f 1 g 2; HGET h "
              "none; HMGET h f none; HGETALL h; HGETALL none; HKEYS h; HKEYS none; HLEN none; "
              "HSCAN h 0; HSCAN none 0; HRANDFIELD h 9; HRANDFIELD h 9 WITHVALUES; HRANDFIELD "
              "none 9 WITHVALUES; HGETALL a");
    pairs_.Do(1,
              "ZADD z 1 a 1.5 b 3e30 c inf d -inf e 1e17 f 1e16 g 0.1 h; ZSCORE z a; ZSCORE z "
              "c; ZSCORE z d; ZSCORE z e; ZSCORE z f; ZSCORE z g; ZSCORE z h; ZSCORE z none; "
              "ZSCORE none a; ZRANK z a; ZRANK z none; ZRANGE z 0 -1; ZRANGE z 0 -1 "
              "WITHSCORES; ZRANGE none 0 -1 WITHSCORES; ZRANGEBYSCORE z 1 2 WITHSCORES; "
              "ZRANGEBYSCORE z 1 2; ZRANGEBYSCORE z 2 1 WITHSCORES; LPOP none; LRANGE none 0 "
              "-1; DUMP none");
    pairs_.Do(1,
              "CONFIG GET maxmemory; PUBSUB NUMSUB; "
              "PUBSUB NUMSUB a b; PUBSUB SHARDNUMSUB a; WAIT 0 1; PING; PING x; GET; SELECT "
              "99; CLIENT SETNAME n\x80");
  }
  pairs_.Do(1, "INFO; INFO replication; INFO commandstats");
}

TEST_F(RealServerResp3, RepliesOfScriptsMatch) {
  pairs_.Do(1, "HELLO 3; ZADD z 1.5 a");
  for (const char* const script :
       {"return nil",
        "return false",
        "return true",
        "return {1, false, true, {}, 'a', 2.9}",
        "return {1, nil, 3}",
        "return {ok = 'x'}",
        "return {err = 'E x'}",
        "error('x')",
        "return redis.call('GET', 'none')",
        "return redis.call('ZSCORE', 'z', 'a')",
        "return type(redis.call('ZSCORE', 'z', 'none'))",
        "return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')",
        "return redis.call('HELLO', '3')",
        "redis.call('HSET', 'h', 'f', '1') return redis.call('HGETALL', 'h')",
        "return redis.call('HRANDFIELD', 'h', 9, 'WITHVALUES')",
        "return redis.call('PING')",
        "return redis.call('PUBSUB', 'NUMSUB', 'c')",
        "return type(redis.call('INFO', 'server'))",
        "return redis.call('SET', 'k', 'v', 'NX')",
        "return redis.call('SET', 'k', 'v', 'NX')"}) {
    Eval(1, script);
  }
}

TEST_F(RealServerResp3, MessagesMatch) {
  pairs_.Do(1, "HELLO 3; SUBSCRIBE a b a; SUBSCRIBE; GET none; PING; PING x; INFO");
  pairs_.Do(1, "PUBLISH a self; SSUBSCRIBE s; SPUBLISH s self");
  for (const char* const script :
       {"redis.call('PUBLISH', 'a', '1') return {1, redis.call('PUBLISH', 'b', '2')}",
        "redis.call('PUBLISH', 'a', '1') error('x')",
        "return redis.pcall('PUBLISH', 'a', '1', 'x')"}) {
    Eval(1, script);
  }
  pairs_.Do(2, "PUBLISH a other; SUBSCRIBE a");  // in RESP 2
  pairs_.Do(3, "HELLO 3; PSUBSCRIBE a*; PUBLISH a all");
  pairs_.Do(1, "PUBLISH a all");
  pairs_.Do(1, "WAIT 1 50");
  pairs_.Do(3, "PUBLISH a meanwhile");
  pairs_.sim().SetClock(pairs_.sim().NextTimeout());
  pairs_.sim().Tick();
  pairs_.Compare("WAIT");
  pairs_.Do(1, "HELLO 2; GET none; PING; HELLO 3");
  pairs_.Do(3, "PUBLISH a other");
  pairs_.Do(1,
            "UNSUBSCRIBE none; UNSUBSCRIBE a b; UNSUBSCRIBE; SUNSUBSCRIBE; SUNSUBSCRIBE; "
            "HELLO 3; UNSUBSCRIBE; SUNSUBSCRIBE; SUBSCRIBE c; UNSUBSCRIBE c x; PING");
}

TEST_F(RealServerResp3, SubscribersAreOfClassPubsub) {
  pairs_.Do(1, "HELLO 3; SUBSCRIBE a");
  real_->Do({"CLIENT", "KILL", "TYPE", "normal"});
  pairs_.sim().KillConnections(RedisServer::Clients::kNormal);
  pairs_.Do(1, "PING; SUBSCRIBE b; UNSUBSCRIBE a b");
  EXPECT_EQ(real_->Integer({"CLIENT", "KILL", "TYPE", "pubsub"}), 0);
  pairs_.sim().KillConnections(RedisServer::Clients::kPubSub);
  pairs_.Do(1, "PING");
}

TEST_F(RealServerResp3, ClusterMatches) {
  const auto group = support::ClusterGroup::Start({.primaries = 2});
  ClusterView view;
  for (size_t i = 0; i < 2; ++i) {
    support::RedisServer& node = group->server(i);
    view.nodes.push_back({node.Text({"CLUSTER", "MYID"}), "127.0.0.1", node.port()});
  }
  const std::string &here = view.nodes[0].id, &there = view.nodes[1].id;
  view.me = here;
  view.ranges = {{0, 8191, here}, {8192, 16383, there}};
  Pairs pairs(group->server(0), {.cluster = true});
  pairs.sim().SetCluster(view);
  const std::string tag = redis::TagOf(7), other = redis::TagOf(12000);
  for (const std::string_view protocol : {"2", "3"}) {
    for (const Words& words : {Words{"HELLO", std::string(protocol)},
                               {"CLUSTER", "SLOTS"},
                               {"CLUSTER", "SHARDS"},
                               {"SSUBSCRIBE", other},
                               {"SSUBSCRIBE", tag, other},
                               {"SUNSUBSCRIBE", other}}) {
      pairs.Do(1, words);
    }
  }
  pairs.Do(1, "CLUSTER INFO");
  pairs.Do(1, {"SSUBSCRIBE", tag});
  pairs.Do(1, {"SPUBLISH", tag, "self"});
  pairs.Do(1, {"EVAL", "return redis.call('SPUBLISH', KEYS[1], 'self')", "1", tag});
  group->BeginMove(7, 1);
  group->MoveKeys(7, 0, 1);
  group->FinishMove(7, 1);
  view.ranges = {{0, 6, here}, {7, 7, there}, {8, 8191, here}, {8192, 16383, there}};
  pairs.sim().SetCluster(view);
  pairs.Compare("the slot moved");
  pairs.Do(1, {"SSUBSCRIBE", tag});
  pairs.Do(1, "SUNSUBSCRIBE");
}

}  // namespace
}  // namespace redlatch::sim
