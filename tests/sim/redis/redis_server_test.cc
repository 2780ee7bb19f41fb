#include "tests/sim/redis/redis_server.h"

#include "tests/support/testing.h"

namespace redlatch::sim {
namespace {

struct Outputs : Sink {
  void Send(uint64_t connection, std::string_view bytes) override { sent[connection] += bytes; }
  void Close(uint64_t connection) override { sent[connection] += "<closed>"; }
  std::string Take(uint64_t connection) { return std::exchange(sent[connection], ""); }
  std::map<uint64_t, std::string> sent;
};

struct SimRedis : ::testing::Test {
  void Send(uint64_t connection, std::initializer_list<std::string_view> words) {
    server_.Receive(connection, redis::Command(words).bytes());
  }
  std::string Text(const std::vector<std::string>& words) {
    return server_.Execute(words).DebugString();
  }

  Outputs outputs_;
  RedisServer server_{{}, &outputs_};
};

TEST_F(SimRedis, AcceptsCommandsInPieces) {
  server_.Connect(1);
  const std::string bytes =
      "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nab\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
  for (const char byte : bytes) server_.Receive(1, {&byte, 1});
  EXPECT_EQ(outputs_.Take(1), "+OK\r\n$2\r\nab\r\n");
}

TEST_F(SimRedis, ReplicasApplyLogAndMayLoseItsEnd) {
  RedisServer replica({.port = 6380});
  replica.SetRole({.primary_host = "127.0.0.1", .primary_port = 6379});
  server_.KeepLog(true);
  Text({"SET", "a", "1"});
  EXPECT_FALSE(replica.SynchroniseWith(server_));
  Text({"EVAL",
        "redis.call('SET', 'b', '2') redis.call('DEL', 'a') redis.call('PUBLISH', 'c', 'x')", "0"});
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

// Since 7.2, so that it cannot come inside of the reply.
TEST_F(SimRedis, LaterVersionsSendMessageToItselfAfterReply) {
  RedisServer later({.version = "7.2.0"}, &outputs_);
  for (RedisServer* const server : {&server_, &later}) {
    server->Connect(1);
    server->Receive(1, redis::Command({"HELLO", "3"}).bytes());
    server->Receive(1, redis::Command({"SUBSCRIBE", "c"}).bytes());
    outputs_.Take(1);
    server->Receive(1, redis::Command({"PUBLISH", "c", "x"}).bytes());
    const std::string message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", reply = ":1\r\n";
    EXPECT_EQ(outputs_.Take(1), server == &later ? reply + message : message + reply);
  }
}

}  // namespace
}  // namespace redlatch::sim
