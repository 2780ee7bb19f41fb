#include "tests/sim/redis/redis_server.h"

#include "lua/scripts.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/slot.h"
#include "tests/support/testing.h"

namespace redlatch::sim {
namespace {

struct Outputs : Sink {
  void Send(uint64_t connection, std::string_view bytes) override { sent[connection] += bytes; }
  void Close(uint64_t connection) override { sent[connection] += "<closed>"; }
  std::string Take(uint64_t connection) { return std::exchange(sent[connection], ""); }
  std::map<uint64_t, std::string> sent;
};

class SimRedis : public ::testing::Test {
 protected:
  static constexpr int64_t kStart = 1'700'000'000'000'000;

  void Send(uint64_t connection, std::initializer_list<std::string_view> words) {
    server_.Receive(connection, redis::Command(words).bytes());
  }
  void Advance(int64_t ms) { server_.SetClock(server_.clock() + 1000 * ms); }
  std::string Text(const std::vector<std::string>& words) {
    return server_.Execute(words).DebugString();
  }
  std::string Eval(const std::string& script,
                   const std::vector<std::string>& keys_and_args = {"0"}) {
    std::vector<std::string> words = {"EVAL", script};
    words.insert(words.end(), keys_and_args.begin(), keys_and_args.end());
    return Text(words);
  }

  Outputs outputs_;
  RedisServer server_{{}, &outputs_};
};

TEST_F(SimRedis, CommandsArriveInPieces) {
  server_.Connect(1);
  const std::string bytes =
      "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nab\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
  for (const char byte : bytes) server_.Receive(1, {&byte, 1});
  EXPECT_EQ(outputs_.Take(1), "+OK\r\n$2\r\nab\r\n");
}

TEST_F(SimRedis, KeysExpireByTheClock) {
  Text({"SET", "k", "v", "PX", "100"});
  Advance(100);
  EXPECT_EQ(Text({"PTTL", "k"}), "0");
  Advance(1);
  EXPECT_EQ(Text({"PTTL", "k"}), "-2");
  EXPECT_EQ(server_.Dump(), "");
}

TEST_F(SimRedis, MessagesReachSubscribersByTheirIds) {
  for (const uint64_t id : {3, 1, 2}) {
    server_.Connect(id);
    Send(id, {"SUBSCRIBE", "c"});
    EXPECT_EQ(outputs_.Take(id), "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
  }
  EXPECT_EQ(Text({"PUBLISH", "c", "hi"}), "3");
  EXPECT_EQ(outputs_.Take(2), "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
  server_.Disconnect(2);
  EXPECT_EQ(Text({"PUBSUB", "NUMSUB", "c"}), "[\"c\", 2]");
  Send(3, {"GET", "k"});
  EXPECT_NE(outputs_.Take(3).find("-ERR Can't execute 'get'"), std::string::npos);
}

TEST_F(SimRedis, ScriptsReplyAsRedisDoes) {
  EXPECT_EQ(Eval("return {1, 2.9, 'x', true, false, {}, nil, 3}"), "[1, 2, \"x\", 1, nil, []]");
  EXPECT_EQ(Eval("return redis.status_reply('FINE')"), "FINE");
  EXPECT_EQ(Eval("return redis.call('GET', 'none') == false"), "1");
  EXPECT_EQ(Eval("return tostring(123456789012345678)"), "\"1.2345678901235e+17\"");
  const std::string error = server_.Execute({"EVAL", "return x", "0"}).text;
  EXPECT_TRUE(
      error.starts_with("ERR user_script:1: Script attempted to access nonexistent global "
                        "variable 'x' script: "));
  EXPECT_TRUE(error.ends_with(", on @user_script:1."));
}

TEST_F(SimRedis, OutOfMemoryStopsAScriptOnlyBeforeItsFirstWrite) {
  server_.conditions.out_of_memory = true;
  EXPECT_EQ(server_.Execute({"SET", "k", "v"}).text,
            "OOM command not allowed when used memory > 'maxmemory'.");
  EXPECT_EQ(Eval("redis.call('DEL', 'other') return redis.call('SET', 'k', 'v')"), "OK");
  EXPECT_EQ(Eval("return redis.call('HSET', 'h', 'f', 'v')").substr(0, 10), "error OOM ");
}

TEST_F(SimRedis, ReplicasApplyTheLogAndMayLoseItsEnd) {
  RedisServer replica({.port = 6380});
  replica.SetRole({.primary_host = "127.0.0.1", .primary_port = 6379});
  server_.KeepLog(true);
  Text({"SET", "a", "1"});
  EXPECT_FALSE(replica.SynchroniseWith(server_));
  Eval("redis.call('SET', 'b', '2') redis.call('DEL', 'a') redis.call('PUBLISH', 'c', 'x')");
  Text({"SET", "lost", "3"});
  ASSERT_EQ(server_.log().size(), 3);
  replica.Apply(server_.log()[1]);
  EXPECT_EQ(replica.Execute({"SET", "x", "1"}).text.substr(0, 8), "READONLY");
  const std::string old_id = server_.replication().id;
  replica.SetRole({});
  EXPECT_EQ(replica.Dump(), "\"b\" string - \"2\"\n");
  EXPECT_NE(replica.replication().id, old_id);
  EXPECT_EQ(replica.replication().old_id, old_id);
}

TEST_F(SimRedis, WaitEndsByAcknowledgementOrTimeout) {
  server_.Connect(1);
  Send(1, {"SET", "k", "v"});
  outputs_.Take(1);
  Send(1, {"WAIT", "1", "100"});
  Send(1, {"GET", "k"});
  EXPECT_EQ(outputs_.Take(1), "");
  server_.AckFromReplica(7, server_.offset());
  EXPECT_EQ(outputs_.Take(1), ":1\r\n$1\r\nv\r\n");
  Send(1, {"WAIT", "2", "100"});
  server_.SetClock(server_.NextTimeout());
  server_.Tick();
  EXPECT_EQ(outputs_.Take(1), ":1\r\n");
}

TEST_F(SimRedis, ClusterNodesRedirect) {
  RedisServer node({.port = 7001, .cluster = true});
  ClusterView view{.me = "a",
                   .nodes = {{"a", "h", 7001}, {"b", "h", 7002}},
                   .ranges = {{0, 8191, "a"}, {8192, 16383, "b"}}};
  node.SetCluster(view);
  const std::string low = redis::TagOf(5) + "x", high = redis::TagOf(9000);
  EXPECT_EQ(node.Execute({"SET", low, "v"}).text, "OK");
  EXPECT_EQ(node.Execute({"SET", high, "v"}).text, "MOVED 9000 h:7002");
  EXPECT_EQ(node.Execute({"EXISTS", low, high}).text,
            "CROSSSLOT Keys in request don't hash to the same slot");
  view.migrating[5] = "b";
  node.SetCluster(view);
  EXPECT_EQ(node.Execute({"EXISTS", low}).integer, 1);
  EXPECT_EQ(node.Execute({"EXISTS", redis::TagOf(5)}).text, "ASK 5 h:7002");
  EXPECT_EQ(node.Execute({"EXISTS", low, redis::TagOf(5)}).text.substr(0, 9), "TRYAGAIN ");
}

TEST_F(SimRedis, AGrantIsReleasedByTheEmbeddedScripts) {
  const std::string hold = std::string(32, 'a') + ":1";
  const std::vector<std::string> keys = {"N", "q", "w", "f"};
  const auto eval = [&](const LuaScript& script, std::vector<std::string> more) {
    std::vector<std::string> words = {"EVAL", std::string(script.body)};
    words.insert(words.end(), more.begin(), more.end());
    return Text(words);
  };
  EXPECT_EQ(eval(lua::kSimpleAcquire, {"5", "N", "q", "w", "f", "gone", hold, "30000",
                                       "1 1 1 10000 0 0 2000 0 redlatch:" + std::string(32, 'a')}),
            "\"granted 1700000000000000 30000 0\"");
  EXPECT_EQ(eval(lua::kSimpleRelease, {"4", "N", "q", "w", "f", hold}), "\"released\"");
  EXPECT_EQ(server_.Dump(), "\"f\" string 1700086500000 \"1700000000000000\"\n");
}

}  // namespace
}  // namespace redlatch::sim
