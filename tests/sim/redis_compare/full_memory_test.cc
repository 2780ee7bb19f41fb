// What works on a real server whose memory is full, of every script of every kind: all but new
// requests and new objects. See "If memory is full" in lua/README.md.

#include "tests/sim/lua/redisson/fixture.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"

namespace redlatch::sim {
namespace {

using Words = std::vector<std::string>;
using redis::Reply;

// A script, or any other command.
struct Action {
  LuaScript script;
  Words keys;
  Words words;
};

std::string KeyOf(const std::string& suffix) { return "{name}:" + suffix; }

// A kind of locks, and what its tests must know.
struct FullKind {
  LockKind lock;
  std::optional<LockKind> writer = {};             // of the same lock, which keeps its readers out
  bool queues = true;                              // the server knows its waiters
  bool queues_again = true;                        // a release may queue its client again
  std::vector<Words> exists = {};                  // must be there before
  std::vector<Words> expires = {{"DEL", "name"}};  // as if the leases of all grants were over
};

LockKind With(LockKind kind, const Words& more_args) {
  kind.more_args = more_args;
  return kind;
}
LockKind MultiKind() {
  return {.name = "multi",
          .scripts = lua::kMultiScripts,
          .own_keys = {"name2", "queue2", "waiters2", "fence2"}};
}
LockKind RedissonReads() {
  LockKind kind = RedissonReadWriteLock();
  kind.name = "redisson_read";
  kind.owner = "read:1:CLIENT";
  kind.scripts.acquire = lua::kRedissonReadWriteLockAcquireRead;
  kind.scripts.release = lua::kRedissonReadWriteLockReleaseRead;
  kind.scripts.renew = lua::kRedissonReadWriteLockRenewRead;
  kind.scripts.cancel = lua::kRedissonReadWriteLockCancelRead;
  return kind;
}

std::vector<FullKind> FullKinds() {
  const std::vector<Words> no_permits = {{"DEL", KeyOf("permits")}};
  return {
      {.lock = SimpleKind()},
      {.lock = ElectionKind()},
      {.lock = ReentrantKind()},
      {.lock = WriteKind()},
      {.lock = With(WriteKind(), {"phase_fair"})},
      {.lock = ReadKind(), .writer = WriteKind(), .expires = {{"DEL", KeyOf("readers")}}},
      {.lock = SemaphoreKind(), .queues_again = false, .expires = no_permits},
      {.lock = With(SemaphoreKind(), {"2"}), .queues = false},  // there are enough permits for two
      {.lock = QuorumKind()},
      {.lock = MultiKind(), .queues_again = false, .expires = {{"DEL", "name", KeyOf("name2")}}},
      {.lock = RedissonLock(), .queues = false},
      {.lock = RedissonFencedLock(), .queues = false},
      {.lock = RedissonFairLock()},
      {.lock = RedissonReadWriteLock(), .queues = false},
      {.lock = RedissonReads(), .writer = RedissonReadWriteLock(), .queues = false},
      {.lock = RedissonSemaphore(), .queues = false, .exists = {{"SET", "name", "1"}}},
  };
}

std::string ClientId(char id) { return std::string(32, id); }
std::string GrantOf(char id, const std::string& number = "1") {
  return ClientId(id) + ":" + number;
}

// The calls of a kind.
class KindCalls {
 public:
  explicit KindCalls(LockKind kind) : kind_(std::move(kind)) {}

  struct Asked {
    int attempt = 1;
    int lease_ms = 30'000;
    bool manual = false;
    std::string number = "1";
    std::string mode = "";  // of a quorum's: in place of "take"
  };
  Action Acquire(char id, const Asked& asked) const {
    return Make(kind_.scripts.acquire, {"gone." + GrantOf(id, asked.number)},
                AcquireWords(id, asked));
  }
  Action Acquire(char id, int attempt = 1) const { return Acquire(id, {.attempt = attempt}); }
  Action Release(char id, int gone_ms = 0) const {
    const std::string gone = "gone." + GrantOf(id);
    Words words = {GrantOf(id)};
    const bool plain = gone_ms == 0 && kind_.last_args.empty();
    if (!plain) words.insert(words.end(), {absl::StrCat("0 0 ", gone_ms), Owner(id)});
    words.insert(words.end(), kind_.release_args.begin(), kind_.release_args.end());
    return Make(kind_.scripts.release, plain ? Words() : Words{gone, gone}, words);
  }
  Action ReleaseAndQueue(char id) const {
    Words words = {GrantOf(id), "0 0 0", Owner(id)};
    for (std::string& word : AcquireWords(id, {.number = "2"})) words.push_back(std::move(word));
    return Make(kind_.scripts.release, {"gone." + GrantOf(id), "gone." + GrantOf(id, "2")}, words);
  }
  Action Renew(char id, int lease_ms) const {
    return Make(kind_.scripts.renew, {}, {GrantOf(id), absl::StrCat(lease_ms)});
  }
  Action Cancel(char id, int gone_ms = 5000) const {
    return Make(kind_.scripts.cancel, {"gone." + GrantOf(id)},
                {GrantOf(id), absl::StrCat(gone_ms), "1"});
  }
  Action Inspect() const { return Make(kind_.scripts.inspect, {}, {"10"}); }
  Action Force() const {
    Words keys;
    for (const std::string& key : kind_.force_keys) keys.push_back(KeyOf(key));
    return Make(kind_.scripts.force_release, keys, {"redlatch:"});
  }

  Action Make(const LuaScript& script, const Words& between, Words words) const {
    Words keys = {"name", "queue", "waiters", "fence"};
    keys.insert(keys.end(), between.begin(), between.end());
    for (const std::string& key : kind_.own_keys) keys.push_back(KeyOf(key));
    words.insert(words.end(), kind_.last_args.begin(), kind_.last_args.end());
    return {script, keys, words};
  }

 private:
  std::string Owner(char id) const {
    return absl::StrReplaceAll(kind_.owner, {{"CLIENT", ClientId(id)}});
  }
  Words AcquireWords(char id, const Asked& asked) const {
    Words words = Request{.grant = GrantOf(id, asked.number),
                          .owner = Owner(id),
                          .lease_ms = asked.lease_ms,
                          .attempt = asked.attempt,
                          .manual = asked.manual,
                          .claim_ms = 2000,
                          .more = kind_.more_args}
                      .Args();
    if (kind_.name == "multi") words[2].replace(words[2].find(" 1 10000"), 2, " 2");
    if (!asked.mode.empty()) words.back() = "0 " + asked.mode;
    return words;
  }

  const LockKind kind_;
};

struct FullMemory : ::testing::Test {
  using Actions = std::vector<Action>;

  FullMemory() {
    for (const char id : {'b', 'c'}) {
      subscriber_.Send({"SUBSCRIBE", "redlatch:" + ClientId(id)});
      subscriber_.Receive();
    }
  }

  static Action Other(Words command) {
    return {.script = {}, .keys = {}, .words = std::move(command)};
  }

  Reply Run(const Action& step) {
    if (step.script.body.empty()) return connection_.Command(step.words);
    Words command = {"EVAL", std::string(step.script.body), absl::StrCat(step.keys.size())};
    command.insert(command.end(), step.keys.begin(), step.keys.end());
    command.insert(command.end(), step.words.begin(), step.words.end());
    return connection_.Command(command);
  }
  static std::string FirstWord(const Reply& reply) {
    if (!reply.elements.empty()) return FirstWord(reply.elements[0]);
    if (reply.is_error()) return reply.text;
    return reply.text.substr(0, reply.text.find(' '));
  }

  // The first words of the replies to `steps`, whose scripts run while memory is full or not.
  Words Replies(const Actions& before, const Actions& steps, bool full) {
    connection_.Command({"FLUSHALL"});
    for (const Action& step : before) {
      const Reply reply = Run(step);
      EXPECT_FALSE(reply.is_error()) << step.script.name << ": " << reply.text;
    }
    Words words;
    for (const Action& step : steps) {
      if (full && !step.script.body.empty())
        connection_.Command({"CONFIG", "SET", "maxmemory", "1"});
      words.push_back(FirstWord(Run(step)));
      connection_.Command({"CONFIG", "SET", "maxmemory", "0"});
      run_.emplace(step.script.name);
    }
    return words;
  }
  // Full memory does not change the replies.
  void ExpectWorks(const std::string& what, const Actions& before, const Actions& steps) {
    SCOPED_TRACE(what);
    const Words free = Replies(before, steps, false);
    for (const std::string& word : free) EXPECT_EQ(word.find("ERR"), word.npos) << word;
    EXPECT_EQ(Replies(before, steps, true), free);
  }
  // Full memory keeps the call out, and it leaves nothing behind.
  void ExpectRefused(const Actions& before, const Action& step) {
    connection_.Command({"CONFIG", "SET", "maxmemory", "0"});
    Replies(before, {}, false);
    const Reply keys = connection_.Command({"DBSIZE"});
    connection_.Command({"CONFIG", "SET", "maxmemory", "1"});
    EXPECT_EQ(FirstWord(Run(step)).substr(0, 3), "OOM") << step.script.name;
    connection_.Command({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(connection_.Command({"DBSIZE"}), keys);
    run_.emplace(step.script.name);
  }

  void TryContract(const FullKind& kind) {
    const KindCalls calls(kind.lock), holder(kind.writer.value_or(kind.lock));
    Actions exists;
    for (const Words& command : kind.exists) exists.push_back(Other(command));
    const auto after = [&exists](Actions steps) {
      steps.insert(steps.begin(), exists.begin(), exists.end());
      return steps;
    };
    const auto over = [&kind](Actions steps) {
      for (const Words& command : kind.expires) steps.push_back(Other(command));
      return steps;
    };
    const Action a = calls.Acquire('a'), b = calls.Acquire('b'), c = calls.Acquire('c');
    const Action holds = holder.Acquire('a');  // so that others wait
    ExpectRefused(after({}), a);
    ExpectWorks("renew", after({a}), {calls.Renew('a', 60'000)});
    ExpectWorks("renew a longer lease", after({a}), {calls.Renew('a', 1000)});
    ExpectWorks("repeat", after({a}), {calls.Acquire('a', 2), calls.Acquire('a', 2)});
    ExpectWorks("manual repeat", after({a}), {calls.Acquire('a', {.attempt = 2, .manual = true})});
    ExpectWorks("release", after({a}), {calls.Release('a')});
    ExpectWorks("release with tombstone", after({a}), {calls.Release('a', 5000)});
    ExpectWorks("release again", after({a, calls.Release('a', 5000)}), {calls.Release('a', 5000)});
    ExpectWorks("release of another's", after({holds, b}), {calls.Release('c', 5000)});
    ExpectWorks("cancel", after({a}), {calls.Cancel('a')});
    ExpectWorks("cancel of nothing", after({}), {calls.Cancel('a'), calls.Acquire('a', 2)});
    ExpectWorks("cancel of a waiter", after({holds, b}), {calls.Cancel('b')});
    ExpectWorks("heartbeat", after({holds, b}), {calls.Acquire('b', 2)});
    ExpectWorks("heartbeat of the second", after({holds, b, c}), {calls.Acquire('c', 2)});
    ExpectWorks("inspect", after({a}), {calls.Inspect()});
    ExpectWorks("forced release", after({a}), {calls.Force()});
    if (!kind.queues) return;  // its waiters are new requests each time
    ExpectWorks("handover", after({holds, b, c}),
                {holder.Release('a'), calls.Renew('b', 30'000), calls.Acquire('b', 2),
                 calls.Release('b'), calls.Acquire('c', 2)});
    ExpectWorks("waiter finds it free", over(after({holds, b})), {calls.Acquire('b', 2)});
    ExpectWorks("second waiter finds it free", over(after({holds, b, c})),
                {calls.Acquire('c', 2), calls.Acquire('b', 2)});
    ExpectWorks("check finds it free", over(after({holds, b})),
                {calls.Cancel('f', 0), calls.Acquire('b', 2)});
    ExpectWorks("forced release with waiters", after({holds, b}),
                {calls.Force(), calls.Acquire('b', 2)});
    if (!kind.queues_again || kind.writer) return;
    ExpectWorks("release and queue", after({a, b}), {calls.ReleaseAndQueue('a')});
    ExpectWorks("release and take again", after({a}), {calls.ReleaseAndQueue('a')});
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  support::RawConnection connection_ = support::RawConnection::ToSocket(server_->socket_path());
  support::RawConnection subscriber_ = support::RawConnection::ToSocket(server_->socket_path());
  std::set<std::string> run_;  // while memory was full
};

TEST_F(FullMemory, RefusesOnlyNewRequests) {
  for (const FullKind& kind : FullKinds()) {
    SCOPED_TRACE(kind.lock.name);
    TryContract(kind);
  }

  // Grants that a client may cache, or that have no token yet.
  const KindCalls simple{SimpleKind()};
  const std::string native = GrantOf('a', "1n");
  const Action held_natively = Other({"SET", "name", native, "PX", "30000"});
  for (const char* const lease_ms : {"1000", "30000", "60000"}) {
    for (const LockKind& kind : {SimpleKind(), ReentrantKind(), WriteKind()}) {
      const KindCalls calls(kind);
      ExpectWorks(kind.name + " renew cached " + lease_ms, {calls.Acquire('a', {.number = "1k"})},
                  {calls.Make(kind.scripts.renew, {},
                              {GrantOf('a', "1k"), lease_ms, "redlatch:" + ClientId('a'), "0"})});
    }
    ExpectWorks("renew native", {held_natively},
                {simple.Make(lua::kSimpleRenew, {}, {native, lease_ms, "token"})});
  }
  ExpectWorks("release natively", {held_natively},
              {{lua::kSimpleReleaseNatively, {"name"}, {native}}});

  // A waiter whose own client has the lock by now.
  const KindCalls reentrant{ReentrantKind()};
  ExpectWorks("reentry of a waiter",
              {reentrant.Acquire('a'), reentrant.Acquire('b'),
               reentrant.Acquire('b', {.number = "2"}), reentrant.Release('a')},
              {reentrant.Acquire('b', {.attempt = 2, .number = "2"})});

  const KindCalls election{ElectionKind()};
  const Action proclaim = election.Make(lua::kElectionProclaim, {}, {"5", "2", "new"});
  ExpectWorks("proclaim",
              {Other({"SET", "name", GrantOf('a'), "PX", "30000"}),
               Other({"SET", KeyOf("leader"), GrantOf('a') + " 5 1 7 old", "PX", "30000"})},
              {proclaim, proclaim});
  const Action observe =
      election.Make(lua::kElectionLeader, {}, {"redlatch:" + ClientId('b'), "ab", "30000"});
  ExpectWorks("observe", {observe}, {observe, election.Make(lua::kElectionLeader, {}, {})});

  const KindCalls quorum{QuorumKind()};
  const auto raise = [&](const std::string& token, const std::string& lease_ms) {
    return quorum.Make(lua::kQuorumRaise, {"gone"}, {GrantOf('a'), token, lease_ms, "1"});
  };
  const std::string far = "5000000000000000";
  ExpectWorks("raise", {quorum.Acquire('a')},
              {raise("9000000000000", "0"), raise(far, "0"), raise(far, "0")});
  ExpectWorks("heal", {quorum.Acquire('a'), Other({"DEL", "name"})}, {raise(far, "30000")});
  for (const char* const mode : {"queue", "yield"}) {
    ExpectWorks(mode, {quorum.Acquire('a'), quorum.Acquire('b')},
                {quorum.Acquire('a', {.attempt = 2, .mode = mode}), quorum.Acquire('b', 2),
                 quorum.Acquire('a', 3)});
  }
  const Words run = {"redlatch:run"};
  ExpectWorks("first commands of a connection", {},
              {{lua::kQuorumBegin, run, {"5000"}},
               {lua::kPrimaryEpochBegin, {"redlatch:epoch"}, {"", "5000"}}});

  const KindCalls latches{LatchKind()};
  const std::string its_name = "latch:60000:" + GrantOf('a');
  const Action create = latches.Make(lua::kLatchCreate, {}, {"2", "60000", GrantOf('a')});
  const auto await = [&](int attempt) {
    return latches.Make(
        lua::kLatchAcquire, {"gone"},
        Request{.grant = GrantOf('b'), .owner = its_name, .attempt = attempt, .claim_ms = 2000}
            .Args());
  };
  const auto count = [&](const std::string& id) {
    return latches.Make(lua::kLatchCountDown, {}, {its_name, id, "1"});
  };
  ExpectRefused({}, create);
  ExpectRefused({create}, await(1));
  ExpectWorks("latch", {create, await(1)},
              {create, await(2), count("one"), latches.Make(lua::kLatchCount, {}, {its_name}),
               await(3), count("two"), count("two"), await(4), latches.Cancel('b')});

  const KindCalls java{RedissonLatch()};
  const auto counts = [](const char* how, const char* n) {
    return Action{lua::kRedissonLatchCount,
                  {"name", "queue", "waiters", "fence", "counted"},
                  {how, n, "1000", "0 1"}};
  };
  ExpectWorks(
      "Redisson latch", {Other({"SET", "name", "3"})},
      {counts("down", "1"),
       counts("count", "0"),
       java.Acquire('a'),
       java.Cancel('a'),
       {lua::kRedissonInspect, {"name", "queue", "waiters", "fence", "taken", "timeout"}, {"10"}}});
  // A reader whose own key has expired, while other readers kept the lock.
  const KindCalls reads{RedissonReads()};
  const Action expired = Other({"DEL", KeyOf(GrantOf('a') + ":rwlock_timeout:1")});
  for (const int lease_ms : {1000, 60'000}) {
    const Actions before = {reads.Acquire('a'), reads.Acquire('b'), expired};
    ExpectWorks("Redisson reader that expired", before, {reads.Renew('a', lease_ms)});
    ExpectWorks("Redisson reader that expired, repeated", before,
                {reads.Acquire('a', {.attempt = 2, .lease_ms = lease_ms, .manual = true})});
  }

  // These change what a lock is like, rather than who has it.
  run_.insert({"semaphore/set_capacity", "redisson_semaphore/set_permits"});
  for (const LuaScript& script : lua::kAll) {
    EXPECT_TRUE(run_.contains(std::string(script.name))) << script.name;
  }
}

}  // namespace
}  // namespace redlatch::sim
