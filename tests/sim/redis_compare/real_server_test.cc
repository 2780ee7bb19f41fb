// Compares the in-memory Redis with a real one: the same random calls at the same time must give
// the same replies, messages and keys, byte for byte. The tests' usual server,
// $REDLATCH_REDIS_SERVER, is used; its clock stands still except when a call moves it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_format.h"
#include "src/redis/wire/reply_parser.h"
#include "tests/sim/redis/redis_server.h"
#include "tests/sim/redis_compare/common_words.h"
#include "tests/sim/redis_compare/encoded_values.h"
#include "tests/sim/redis_compare/random_calls.h"
#include "tests/support/redis_server.h"
#include "tests/support/resources.h"
#include "tests/support/test_scale.h"

namespace redlatch::sim {
namespace {

using Words = std::vector<std::string>;
using Step = RandomCalls::Step;

// A file that holds a server's Unix time in microseconds.
class StoppedClock {
 public:
  explicit StoppedClock(int64_t now) {
    EXPECT_EQ(pwrite(file_.get(), &now, sizeof now, 0), static_cast<ssize_t>(sizeof now));
  }
  std::vector<std::string> Environment() const {
    return {"LD_PRELOAD=" REDLATCH_SHIFTED_CLOCK, "REDLATCH_CLOCK_STOPPED=" + path_};
  }

 private:
  const support::TempDir directory_;
  const std::string path_ = directory_.path() + "/now";
  const base::UniqueFd file_{open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
};

struct RealServer : ::testing::Test {
  static constexpr int64_t kStart = 1'700'000'000'000'000;
  static constexpr uint64_t kCaller = 1;  // the simulator's connection of all calls

  RealServer() {
    sim_->SetClock(kStart);
    sim_->Connect(kCaller);
    // Some versions delete an expired key in the background one millisecond before others treat it
    // as expired.
    real_->Do({"DEBUG", "SET-ACTIVE-EXPIRE", "0"});
    for (const LuaScript& script : RandomCalls::Scripts()) {
      const Words load = {"SCRIPT", "LOAD", std::string(script.body)};
      EXPECT_EQ(sim_->Execute(load), real_->Command(load));
    }
  }

  static ServerOptions OptionsAs(support::RedisServer& real) {
    return {.version = real.Version(),
            .run_id = real.Info("run_id"),
            .replication_id = real.Info("master_replid")};
  }

  // Executes the words at both servers, and returns the simulator's replies and messages.
  std::vector<std::string> Call(const Words& words) {
    sim::Send(*sim_, kCaller, words);
    std::vector<std::string> values = outputs_.Take(kCaller);
    connection_.Send(words);
    for (const std::string& value : values) sent_.emplace_back(words, value);
    return values;
  }

  static Reply Decoded(const std::string& value) {
    redis::ReplyParser parser;
    std::vector<Reply> replies;
    EXPECT_TRUE(parser.Take(value, replies).ok());
    return replies.at(0);
  }

  static std::string Comparable(const std::string& value) {
    return value.starts_with('-') ? InCommonWords(value) : value;
  }

  // Compares everything that was not compared yet.
  void Synchronise() {
    for (; !sent_.empty(); sent_.pop_front()) {
      ASSERT_EQ(Comparable(connection_.Receive()), Comparable(sent_.front().second)) << Said();
    }
    for (auto& [client, inbox] : inboxes_) {
      inbox.Send({"PING"});
      sim::Send(*sim_, client, {"PING"});
      for (const std::string& value : outputs_.Take(client)) {
        ASSERT_EQ(inbox.Receive(), value) << "messages to " << client;
      }
    }
  }

  std::string Said() {
    std::string said;
    for (const std::string& word : sent_.front().first) absl::StrAppend(&said, " ", word);
    return absl::StrCat(said.substr(0, 2000), "\n at ", sim_->clock(), ", seed ", seed_);
  }

  void Do(const Step& step, RandomCalls& calls) {
    switch (step.kind) {
      case Step::Kind::kCommand: {
        for (const std::string& value : Call(step.words)) {
          if (!value.starts_with('>')) calls.Learn(Decoded(value));
        }
        break;
      }
      case Step::Kind::kSleep: {
        // DEBUG SLEEP rounds down to whole microseconds.
        const std::string seconds =
            absl::StrFormat("%d.%06d5", step.sleep_us / 1'000'000, step.sleep_us % 1'000'000);
        sim_->SetClock(sim_->clock() + step.sleep_us);
        const Words sleep = {"DEBUG", "SLEEP", seconds};
        connection_.Send(sleep);
        sent_.emplace_back(sleep, "+OK\r\n");
        break;
      }
      case Step::Kind::kSubscribe:
      case Step::Kind::kUnsubscribe:
        Subscribe(step.client, step.kind == Step::Kind::kSubscribe);
    }
  }

  // Messages come on a connection for each client; in RESP 3, on the connection of the calls.
  void Subscribe(char client, bool subscribes) {
    const std::string channel = RandomCalls::Channel(client);
    if (resp3_) {
      Call({subscribes ? "SUBSCRIBE" : "UNSUBSCRIBE", channel});
      return;
    }
    Synchronise();
    const auto id = static_cast<uint64_t>(client);
    if (!subscribes) {
      inboxes_.erase(id);
      sim_->Disconnect(id);
      const Words count = {"PUBSUB", "NUMSUB", channel};
      while (real_->Do(count).elements[1].integer > 0) continue;  // until it notices
    } else if (!inboxes_.contains(id)) {
      EncodedConnection& inbox = inboxes_.try_emplace(id, *real_).first->second;
      inbox.Send({"SUBSCRIBE", channel});
      sim_->Connect(id);
      sim::Send(*sim_, id, {"SUBSCRIBE", channel});
      for (const std::string& value : outputs_.Take(id)) EXPECT_EQ(inbox.Receive(), value);
    }
  }

  // The real server's keys as the simulator writes them.
  std::string RealDump() {
    Keyspace keys;
    keys.SetTime(sim_->clock() / 1000, true);
    for (const int db : {0, 1}) {
      real_->Do({"SELECT", absl::StrCat(db)});
      keys.Select(db);
      for (const Reply& key : real_->Do({"KEYS", "*"}).elements) CopyKey(key.text, keys);
    }
    real_->Do({"SELECT", "0"});
    return keys.Dump();
  }

  void CopyKey(const std::string& key, Keyspace& keys) {
    const std::string type = real_->Text({"TYPE", key});
    if (type == "string") keys.Set(key, real_->Text({"GET", key}));
    if (type == "hash") {
      auto& hash = std::get<Hash>(keys.Set(key, Hash()));
      const Reply fields = real_->Do({"HGETALL", key});
      for (size_t i = 0; i < fields.elements.size(); i += 2) {
        hash.Set(fields.elements[i].text, fields.elements[i + 1].text);
      }
    }
    if (type == "zset") {
      auto& set = std::get<SortedSet>(keys.Set(key, SortedSet()));
      const Reply members = real_->Do({"ZRANGE", key, "0", "-1", "WITHSCORES"});
      for (size_t i = 0; i < members.elements.size(); i += 2) {
        double score = 0;
        EXPECT_TRUE(ParseScore(members.elements[i + 1].text, score));
        set.Set(members.elements[i].text, score);
      }
    }
    if (type == "list") {
      auto& list = std::get<List>(keys.Set(key, List()));
      for (const Reply& each : real_->Do({"LRANGE", key, "0", "-1"}).elements) {
        list.push_back(each.text);
      }
    }
    const int64_t expiry = real_->Integer({"PEXPIRETIME", key});
    if (expiry >= 0) keys.SetExpiry(key, expiry);
  }

  void RunEpisode(RandomCalls& calls, int steps) {
    for (int i = 0; i < steps && !HasFatalFailure(); ++i) {
      Do(calls.Next(), calls);
      if (sent_.size() == 200) Synchronise();
    }
    if (HasFatalFailure()) return;
    Call({"TIME"});
    Synchronise();
    if (HasFatalFailure()) return;
    ASSERT_EQ(sim_->Dump(), RealDump()) << "seed " << seed_;
    Call({"CONFIG", "SET", "maxmemory", "0"});
    Call({"FLUSHALL"});
    calls.BeginEpisode();
  }

  void RunEpisodes() {
    RandomCalls calls(seed_, {.run = sim_->run_id(), .replication = sim_->replication().id});
    const uint64_t bar = support::FullBars() ? 1'000'000 : support::Scaled(20'000);
    while (sim_->counts().commands < bar && !HasFatalFailure()) RunEpisode(calls, 400);
    RecordProperty("calls", static_cast<int>(sim_->counts().commands));
  }

  const StoppedClock clock_{kStart};
  const std::unique_ptr<support::RedisServer> real_ =
      support::RedisServer::Start({.environment = clock_.Environment()});
  EncodedConnection connection_{*real_};
  EncodedOutputs outputs_;
  const std::unique_ptr<RedisServer> sim_ =
      std::make_unique<RedisServer>(OptionsAs(*real_), &outputs_);
  std::deque<std::pair<Words, std::string>> sent_;  // and what the simulator sent in return
  std::map<uint64_t, EncodedConnection> inboxes_;
  bool resp3_ = false;
  const uint32_t seed_ = support::Seed();
};

TEST_F(RealServer, RepliesMessagesAndKeysMatch) { RunEpisodes(); }

TEST_F(RealServer, RepliesMessagesAndKeysMatchInResp3) {
  resp3_ = true;
  sim::Send(*sim_, kCaller, {"HELLO", "3"});
  connection_.Send({"HELLO", "3"});
  outputs_.Take(kCaller);
  EXPECT_TRUE(connection_.Receive().starts_with('%'));
  RunEpisodes();
}

}  // namespace
}  // namespace redlatch::sim
