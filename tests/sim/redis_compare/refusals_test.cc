// Compares what the in-memory Redis refuses, and its error texts, with a real server in the same
// condition: a replica, a user without permissions, full memory, a slot that moves, and so on.

#include "absl/strings/str_join.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/wire/errors.h"
#include "src/redis/wire/reply_parser.h"
#include "tests/sim/redis/redis_server.h"
#include "tests/sim/redis_compare/common_words.h"
#include "tests/support/raw_connection.h"
#include "tests/support/server_groups.h"

namespace redlatch::sim {
namespace {

using Words = std::vector<std::string>;

struct LastOutput : Sink {
  void Send(uint64_t, std::string_view bytes) override {
    EXPECT_TRUE(parser.Take(bytes, replies).ok());
  }
  void Close(uint64_t) override {}
  redis::ReplyParser parser;
  std::vector<Reply> replies;
};

// A connection to a real server and one to the simulated server.
class Pair {
 public:
  explicit Pair(support::RedisServer& real, ServerOptions options = {})
      : real_(support::RawConnection::ToSocket(real.socket_path())),
        sim_(With(std::move(options), real), &output_) {
    sim_.Connect(1);
  }
  RedisServer& sim() { return sim_; }

  Reply Real(const Words& words) { return InCommonWords(real_.Command(words)); }
  Reply Simulated(const Words& words) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    sim_.Receive(1, redis::Command(views).bytes());
    EXPECT_EQ(output_.replies.size(), 1);
    output_.replies.resize(1);
    return InCommonWords(std::exchange(output_.replies, {})[0]);
  }
  void ExpectSame(const std::vector<Words>& calls) {
    for (const Words& words : calls) {
      const Reply expected = ByMeaning(Real(words)), reply = ByMeaning(Simulated(words));
      EXPECT_EQ(reply, expected) << absl::StrJoin(words, " ") << "\n"
                                 << reply.DebugString() << "\n"
                                 << expected.DebugString();
    }
  }

 private:
  // Later versions use other words, so errors are compared by what clients make of them.
  Reply ByMeaning(Reply reply) const {
    if (!reply.is_error() || sim_.options().version.starts_with("7.0")) return reply;
    const redis::ErrorCode code = redis::ClassifyError(reply.text);
    reply.text = code == redis::ErrorCode::kOther ? reply.text.substr(0, reply.text.find(' '))
                                                  : std::to_string(static_cast<int>(code));
    return reply;
  }

  static ServerOptions With(ServerOptions options, support::RedisServer& real) {
    options.version = real.Version();
    return options;
  }

  support::RawConnection real_;
  LastOutput output_;
  RedisServer sim_;
};

// Reads, writes, scripts of both kinds and messages.
const std::vector<Words>& Calls() {
  static const auto* const calls = new std::vector<Words>{
      {"GET", "a"},
      {"SET", "a", "1"},
      {"DEL", "a"},
      {"EXISTS", "a", "b"},
      {"EVAL", "return redis.call('GET', KEYS[1])", "1", "a"},
      {"EVAL", "return redis.call('SET', KEYS[1], '2')", "1", "a"},
      {"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], '2')", "1", "a"},
      {"EVAL", "return redis.pcall('HSET', KEYS[1], 'f', 'v').err", "1", "h"},
      {"EVAL", "return redis.call('PUBLISH', 'c', 'x')", "0"},
      {"EVALSHA", std::string(40, '0'), "1", "a"},
      {"PUBLISH", "c", "x"},
      {"PUBSUB", "NUMSUB", "c"},
      {"PING"},
      {"SCRIPT", "LOAD", "return 1"},
  };
  return *calls;
}

TEST(SimRefusals, MatchReplica) {
  const auto primary = support::RedisServer::Start();
  const auto real = support::RedisServer::Start({.replica_of = primary->port()});
  ASSERT_TRUE(real->AwaitInfo("master_link_status", "up"));
  Pair pair(*real);
  pair.sim().SetRole({.primary_host = "127.0.0.1", .primary_port = primary->port()});
  pair.ExpectSame(Calls());
  pair.ExpectSame({{"WAIT", "1", "10"}});
}

TEST(SimRefusals, MatchTooFewReplicas) {
  const auto real = support::RedisServer::Start({.config = {"min-replicas-to-write 1"}});
  Pair pair(*real);
  pair.sim().conditions.few_replicas = true;
  pair.ExpectSame(Calls());
  pair.ExpectSame({{"WAIT", "0", "10"}});
}

TEST(SimRefusals, MatchFullMemory) {
  const auto real = support::RedisServer::Start();
  Pair pair(*real);
  for (const char* const maxmemory : {"1", "0", "1"}) {
    pair.ExpectSame({{"CONFIG", "SET", "maxmemory", maxmemory}});
    pair.ExpectSame(Calls());
    pair.ExpectSame({{"SUBSCRIBE", "c"}, {"UNSUBSCRIBE", "c"}});
  }
}

TEST(SimRefusals, MatchMissingPassword) {
  const auto real = support::RedisServer::Start({.password = "secret"});
  Pair pair(*real, {.password = "secret"});
  pair.ExpectSame(Calls());
  pair.ExpectSame({{"HELLO"},
                   {"AUTH", "wrong"},
                   {"AUTH", "unknown", "secret"},
                   {"INFO", "server"},
                   {"SUBSCRIBE", "c"},
                   {"AUTH", "default", "secret"},
                   {"GET", "a"},
                   {"PING"}});
}

TEST(SimRefusals, MatchUnneededPassword) {
  const auto real = support::RedisServer::Start();
  Pair pair(*real);
  pair.ExpectSame(
      {{"GET"}, {"AUTH", "any"}, {"SELECT", "99"}, {"SELECT", "x"}, {"SELECT", "3"}, {"DBSIZE"}});
}

TEST(SimRefusals, MatchWhileSubscribed) {
  const auto real = support::RedisServer::Start();
  Pair pair(*real);
  pair.ExpectSame({{"SUBSCRIBE", "c"}});
  pair.ExpectSame(Calls());
  pair.ExpectSame({{"PING", "x"},
                   {"SSUBSCRIBE", "s"},
                   {"UNSUBSCRIBE", "none"},
                   {"UNSUBSCRIBE"},
                   {"GET", "a"},
                   {"SUNSUBSCRIBE"},
                   {"GET", "a"}});
}

TEST(SimRefusals, MatchForbiddenCommands) {
  struct Case {
    std::string rules;
    Permissions permissions;
  };
  const std::vector<std::string> all = {"*"};
  for (const Case& each :
       {Case{"+@all ~* &*", {}}, Case{"+@all -publish -get ~* &*", {{"publish", "get"}, all, all}},
        Case{"+@all -set -eval ~* &*", {{"set", "eval"}, all, all}},
        Case{"+@all -script -pubsub ~* &*", {{"script", "pubsub"}, all, all}},
        Case{"+@all ~b* &*", {{}, {"b*"}, all}},
        Case{"+@all ~* &redlatch:*", {{}, all, {"redlatch:*"}}}}) {
    const auto real = support::RedisServer::Start();
    real->Do({"ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all"});
    Words rules = {"ACL", "SETUSER", "default"};
    for (const auto& rule : absl::StrSplit(each.rules, ' ')) rules.emplace_back(rule);
    real->Do(rules);
    Pair pair(*real);
    pair.sim().permissions = each.permissions;
    SCOPED_TRACE(each.rules);
    pair.ExpectSame(Calls());
    for (const bool in_cluster : {false, true}) {
      std::vector<std::string_view> probe;
      const redis::Command command = redis::NeedsProbe(in_cluster);
      ReadCommand(command.bytes(), probe);
      pair.ExpectSame({Words(probe.begin(), probe.end())});
    }
    pair.ExpectSame({{"SUBSCRIBE", "c"}, {"SUBSCRIBE", "redlatch:x"}});
  }
}

TEST(SimRefusals, MatchBusyScript) {
  const auto real = support::RedisServer::Start({.config = {"busy-reply-threshold 1"}});
  auto looping = support::RawConnection::ToSocket(real->socket_path());
  Pair pair(*real);
  looping.Send({"EVAL", "while true do end", "0"});
  while (!pair.Real({"PING"}).text.starts_with("BUSY")) continue;
  pair.sim().conditions.busy = true;
  pair.ExpectSame(Calls());
  pair.ExpectSame({{"INFO", "replication"},
                   {"TIME"},
                   {"SUBSCRIBE", "c"},
                   {"CONFIG", "GET", "maxmemory"},
                   {"WAIT", "0", "1"}});
  real->Kill();
}

// Two nodes, and a slot that moves from one to the other.
struct SimClusterRefusals : ::testing::Test {
  SimClusterRefusals() {
    for (size_t i = 0; i < 2; ++i) {
      support::RedisServer& real = group_->server(i);
      ids_.push_back(real.Text({"CLUSTER", "MYID"}));
      view_.nodes.push_back({ids_[i], "127.0.0.1", real.port()});
      pairs_.push_back(std::make_unique<Pair>(real, ServerOptions{.cluster = true}));
    }
    view_.ranges = {{0, 8191, ids_[0]}, {8192, 16383, ids_[1]}};
    SetViews();
  }

  void SetViews(int moving = -1) {
    for (size_t i = 0; i < 2; ++i) {
      ClusterView view = view_;
      view.me = ids_[i];
      if (moving >= 0 && i == 0) view.migrating[moving] = ids_[1];
      if (moving >= 0 && i == 1) view.importing[moving] = ids_[0];
      pairs_[i]->sim().SetCluster(view);
    }
  }
  void ExpectSame(const std::vector<Words>& calls) {
    for (const auto& pair : pairs_) pair->ExpectSame(calls);
  }

  const std::unique_ptr<support::ClusterGroup> group_ =
      support::ClusterGroup::Start({.primaries = 2});
  std::vector<std::string> ids_;
  ClusterView view_;
  std::vector<std::unique_ptr<Pair>> pairs_;
};

TEST_F(SimClusterRefusals, RedirectLikeRealNodes) {
  if (!group_->server(0).Version().starts_with("7.0")) {
    GTEST_SKIP() << "later versions treat SELECT and SUNSUBSCRIBE in other ways";
  }
  const std::string tag = redis::TagOf(7), other = redis::TagOf(12000);
  const std::string here = tag + "here", gone = tag + "gone";
  const std::vector<Words> calls = {
      {"GET", here},
      {"GET", gone},
      {"EXISTS", here, gone},
      {"EXISTS", here, other},
      {"SET", gone, "v"},
      {"DEL", gone},
      {"EVAL", "return redis.call('EXISTS', KEYS[1])", "1", here},
      {"EVAL", "return redis.call('EXISTS', KEYS[1])", "1", gone},
      {"EVAL", "return redis.call('EXISTS', KEYS[1], KEYS[2])", "2", here, gone},
      {"EVAL", "return redis.call('EXISTS', ARGV[1])", "1", here, other},
      {"EVAL", "return redis.call('EXISTS', ARGV[1])", "1", here, gone},
      {"EVAL", "return redis.pcall('SPUBLISH', ARGV[1], 'x')", "1", here, tag},
      {"SPUBLISH", tag, "x"},
      {"PUBSUB", "SHARDNUMSUB", tag, other},
      {"SSUBSCRIBE", tag},
      {"SUNSUBSCRIBE", tag},
      {"SSUBSCRIBE", tag, other},
      {"SUNSUBSCRIBE"},
      {"PING"},
      {"SELECT", "1"},
      {"CLUSTER", "MYID"}};
  std::vector<Words> asking;
  for (const Words& call : calls) {
    asking.push_back({"ASKING"});
    asking.push_back(call);
  }
  pairs_[0]->ExpectSame({{"SET", here, "v"}});
  ExpectSame(calls);
  ExpectSame(asking);
  group_->BeginMove(7, 1);
  SetViews(7);
  ExpectSame(calls);
  ExpectSame(asking);
  group_->MoveKeys(7, 0, 1);
  for (const std::string& key : pairs_[0]->sim().KeysInSlot(7)) {
    pairs_[0]->sim().MoveKey(key, pairs_[1]->sim());
  }
  ExpectSame(calls);
  ExpectSame(asking);
  group_->FinishMove(7, 1);
  view_.ranges = {{0, 6, ids_[0]}, {7, 7, ids_[1]}, {8, 8191, ids_[0]}, {8192, 16383, ids_[1]}};
  SetViews();
  ExpectSame(calls);
}

}  // namespace
}  // namespace redlatch::sim
