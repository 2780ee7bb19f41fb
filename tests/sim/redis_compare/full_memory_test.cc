// What works on a real server whose memory is full, of every script of every kind: all but new
// requests and new objects. See "If memory is full" in lua/README.md.

#include <set>

#include "absl/strings/str_replace.h"
#include "lua/scripts.h"
#include "src/redis/wire/codec.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/testing.h"

namespace redlatch::sim {
namespace {

using Words = std::vector<std::string>;
using redis::Reply;

// A script, or any other command.
struct Action {
  std::string script;
  Words keys;
  Words words;
};

// What a kind's scripts take beside the contract.
struct FullKind {
  std::string name;
  std::string folder = name;
  std::string side = "";  // "_read"
  Words own = {};         // its own keys
  Words force_keys = {};
  std::string owner = "CLIENT";
  Words more = {};                                 // ARGV of an acquire
  std::string proposal = "";                       // the last of acquire and release
  std::string every = "";                          // the last of every script
  std::string wait = "1";                          // of a request that may wait
  bool queues = true;                              // the server knows its waiters
  bool queues_again = true;                        // a release may queue its client again
  std::vector<Words> exists = {};                  // must be there before
  std::vector<Words> expires = {{"DEL", "name"}};  // as if the leases of all grants were over

  bool java() const { return !every.empty(); }
};

const Words kRedissonKeys = {"yield", "java.readers"};

std::vector<FullKind> FullKinds() {
  const Words rw = {"readers", "writers", "holds"};
  return {
      {.name = "simple"},
      {.name = "election", .own = {"leader", "observers"}, .owner = "user:value"},
      {.name = "reentrant", .own = {"holds"}},
      {.name = "write", .folder = "read_write", .own = rw, .more = {"writer_first"}},
      {.name = "fair write", .folder = "read_write", .own = rw, .more = {"phase_fair"}},
      {.name = "read",
       .folder = "read_write",
       .side = "_read",
       .own = rw,
       .owner = "read:1:CLIENT",
       .expires = {{"DEL", "readers"}}},
      {.name = "semaphore",
       .own = {"permits"},
       .force_keys = {"forced"},
       .more = {"1"},
       .queues_again = false,
       .expires = {{"DEL", "permits"}}},
      {.name = "quorum", .own = {"turn"}, .proposal = "1 take"},
      {.name = "multi",
       .own = {"name2", "queue2", "waiters2", "fence2"},
       .wait = "2",
       .queues_again = false,
       .expires = {{"DEL", "name", "name2"}}},
      {.name = "redisson_lock", .own = kRedissonKeys, .every = "0 1", .queues = false},
      {.name = "redisson_fenced_lock", .own = kRedissonKeys, .every = "0 1", .queues = false},
      {.name = "redisson_fair_lock",
       .own = {"yield", "java.readers", "alive"},
       .every = "0 1 5000"},
      {.name = "redisson_read_write_lock", .own = kRedissonKeys, .every = "0 1", .queues = false},
      {.name = "redisson read",
       .folder = "redisson_read_write_lock",
       .side = "_read",
       .own = kRedissonKeys,
       .owner = "read:1:CLIENT",
       .every = "0 1",
       .queues = false,
       .queues_again = false},
      {.name = "redisson_semaphore",
       .own = {"yield", "java.readers", "{name}:redisson.permits"},
       .every = "0 1",
       .queues = false,
       .queues_again = false,
       .exists = {{"SET", "name", "1"}},
       .expires = {{"DEL", "{name}:redisson.permits"}, {"SET", "name", "1"}}},
      {.name = "permits",
       .folder = "semaphore",
       .own = {"permits"},
       .force_keys = {"forced"},
       .more = {"2"},
       .queues = false,  // there are enough permits for two
       .queues_again = false,
       .expires = {{"DEL", "permits"}}},
  };
}

std::string ClientId(char id) { return std::string(32, id); }
std::string GrantOf(char id, const std::string& number = "1") {
  return ClientId(id) + ":" + number;
}

// The calls of a kind.
class KindCalls {
 public:
  explicit KindCalls(const FullKind& kind) : kind_(kind) {}

  struct Asked {
    int attempt = 1;
    bool waits = true;
    int lease_ms = 30'000;
    bool manual = false;
    std::string number = "1";
    std::string mode = "";  // of a quorum's: in place of "take"
  };
  Action Acquire(char id, const Asked& asked) const {
    return Make("acquire", {"gone." + GrantOf(id, asked.number)}, AcquireWords(id, asked));
  }
  Action Acquire(char id, int attempt = 1) const { return Acquire(id, {.attempt = attempt}); }
  Action Release(char id, int gone_ms = 0) const {
    const std::string gone = "gone." + GrantOf(id);
    Words words = {GrantOf(id)};
    const bool plain = gone_ms == 0 && !kind_.java();
    if (!plain) words.insert(words.end(), {absl::StrCat("0 0 ", gone_ms), Owner(id)});
    if (!kind_.proposal.empty()) words.push_back(kind_.proposal);
    return Make("release", plain ? Words() : Words{gone, gone}, words);
  }
  Action ReleaseAndQueue(char id) const {
    Words words = {GrantOf(id), "0 0 0", Owner(id)};
    for (std::string& word : AcquireWords(id, {.number = "2"})) words.push_back(std::move(word));
    return Make("release", {"gone." + GrantOf(id), "gone." + GrantOf(id, "2")}, words);
  }
  Action Renew(char id, int lease_ms) const {
    return Make("renew", {}, {GrantOf(id), absl::StrCat(lease_ms)});
  }
  Action Cancel(char id, int gone_ms = 5000) const {
    return Make("cancel", {"gone." + GrantOf(id)}, {GrantOf(id), absl::StrCat(gone_ms), "1"});
  }
  Action Inspect() const { return Make("inspect", {}, {"10"}); }
  Action Force() const { return Make("force_release", kind_.force_keys, {"redlatch:"}); }

  Action Make(const std::string& operation, const Words& between, Words words) const {
    const bool sided = operation != "inspect" && operation != "force_release";
    Words keys = {"name", "queue", "waiters", "fence"};
    keys.insert(keys.end(), between.begin(), between.end());
    keys.insert(keys.end(), kind_.own.begin(), kind_.own.end());
    if (kind_.java()) words.push_back(kind_.every);
    std::string script = kind_.folder + "/" + operation + (sided ? kind_.side : "");
    const bool inherits = kind_.folder == "redisson_fenced_lock" &&
                          (operation == "renew" || operation == "cancel" || !sided);
    if (inherits && operation != "inspect") script = "redisson_lock/" + operation;
    return {script, keys, words};
  }

 private:
  std::string Owner(char id) const {
    return absl::StrReplaceAll(kind_.owner, {{"CLIENT", ClientId(id)}});
  }
  Words AcquireWords(char id, const Asked& asked) const {
    Words words = {GrantOf(id, asked.number), absl::StrCat(asked.lease_ms),
                   absl::StrCat("1 ", asked.attempt, " ", asked.waits ? kind_.wait : "0", " 10000 ",
                                asked.manual ? 1 : 0, " 0 2000 0 redlatch:", ClientId(id)),
                   Owner(id)};
    words.insert(words.end(), kind_.more.begin(), kind_.more.end());
    if (!kind_.proposal.empty()) {
      words.push_back(asked.mode.empty() ? kind_.proposal : "1 " + asked.mode);
    }
    return words;
  }

  const FullKind& kind_;
};

class FullMemory : public ::testing::Test {
 protected:
  using Actions = std::vector<Action>;

  FullMemory() {
    for (const char id : {'b', 'c'}) {
      subscriber_.Send({"SUBSCRIBE", "redlatch:" + ClientId(id)});
      subscriber_.Receive();
    }
    for (const LuaScript& script : lua::kAll) scripts_[std::string(script.name)] = &script;
  }

  static Action Other(Words command) {
    return {.script = "", .keys = {}, .words = std::move(command)};
  }

  Reply Run(const Action& step) {
    if (step.script.empty()) return connection_.Command(step.words);
    const auto script = scripts_.find(step.script);
    if (script == scripts_.end()) {
      ADD_FAILURE() << "no script " << step.script;
      return {};
    }
    Words command = {"EVAL", std::string(script->second->body), absl::StrCat(step.keys.size())};
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
      EXPECT_FALSE(reply.is_error()) << step.script << ": " << reply.text;
    }
    Words words;
    for (const Action& step : steps) {
      if (full && !step.script.empty()) connection_.Command({"CONFIG", "SET", "maxmemory", "1"});
      words.push_back(FirstWord(Run(step)));
      connection_.Command({"CONFIG", "SET", "maxmemory", "0"});
      run_.insert(step.script);
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
    EXPECT_EQ(FirstWord(Run(step)).substr(0, 3), "OOM") << step.script;
    connection_.Command({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(connection_.Command({"DBSIZE"}), keys);
    run_.insert(step.script);
  }

  void TryContract(const FullKind& kind) {
    const KindCalls calls(kind);
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
    // A writer excludes readers; so a waiting reader waits for one.
    const FullKind writer = {.name = "w",
                             .folder = kind.folder,
                             .own = kind.own,
                             .more = {"writer_first"},
                             .every = kind.every};
    const Action holds = kind.side.empty() ? a : KindCalls(writer).Acquire('a');
    const KindCalls holder(kind.side.empty() ? kind : writer);
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
    if (!kind.queues_again || !kind.side.empty()) return;
    ExpectWorks("release and queue", after({a, b}), {calls.ReleaseAndQueue('a')});
    ExpectWorks("release and take again", after({a}), {calls.ReleaseAndQueue('a')});
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  support::RawConnection connection_ = support::RawConnection::ToSocket(server_->socket_path());
  support::RawConnection subscriber_ = support::RawConnection::ToSocket(server_->socket_path());
  std::map<std::string, const LuaScript*> scripts_;
  std::set<std::string> run_;  // while memory was full
};

TEST_F(FullMemory, RefusesOnlyNewRequests) {
  const std::vector<FullKind> kinds = FullKinds();
  for (const FullKind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    TryContract(kind);
  }

  // Grants that a client may cache, or that have no token yet.
  const Words four = {"name", "queue", "waiters", "fence"};
  const std::string cached = GrantOf('a') + "k", native = GrantOf('a') + "n";
  const std::string terms = "1 1 1 10000 0 0 2000 0 redlatch:" + ClientId('a');
  for (const char* const lease_ms : {"1000", "30000", "60000"}) {
    for (const std::string folder : {"simple", "reentrant", "read_write"}) {
      Words own = four, with_gone = four;
      with_gone.push_back("gone");
      if (folder == "read_write") own.insert(own.end(), {"readers", "writers"});
      if (folder != "simple") own.push_back("holds");
      with_gone.insert(with_gone.end(), own.begin() + 4, own.end());
      ExpectWorks(folder + " renew cached " + lease_ms,
                  {{folder + "/acquire",
                    with_gone,
                    {cached, "30000", terms, ClientId('a'), "writer_first"}}},
                  {{folder + "/renew", own, {cached, lease_ms, "redlatch:" + ClientId('a'), "0"}}});
    }
    ExpectWorks("renew native", {Other({"SET", "name", native, "PX", "30000"})},
                {{"simple/renew", four, {native, lease_ms, "token"}}});
  }
  ExpectWorks("release natively", {Other({"SET", "name", native, "PX", "30000"})},
              {{"simple/release_natively", {"name"}, {native}}});

  // A waiter whose own client has the lock by now.
  const KindCalls reentrant(kinds[2]);
  ExpectWorks("reentry of a waiter",
              {reentrant.Acquire('a'), reentrant.Acquire('b'),
               reentrant.Acquire('b', {.number = "2"}), reentrant.Release('a')},
              {reentrant.Acquire('b', {.attempt = 2, .number = "2"})});

  const KindCalls election(kinds[1]);
  ExpectWorks("proclaim",
              {Other({"SET", "name", GrantOf('a'), "PX", "30000"}),
               Other({"SET", "leader", GrantOf('a') + " 5 1 7 old", "PX", "30000"})},
              {election.Make("proclaim", {}, {"5", "2", "new"}),
               election.Make("proclaim", {}, {"5", "2", "new"})});
  const Action observe = election.Make("leader", {}, {"redlatch:" + ClientId('b'), "ab", "30000"});
  ExpectWorks("observe", {observe}, {observe, election.Make("leader", {}, {})});

  const KindCalls quorum(kinds[7]);
  const Action raise = quorum.Make("raise", {"gone"}, {GrantOf('a'), "9000000000000", "0", "1"});
  Action raise_far = raise;
  raise_far.words[1] = "5000000000000000";
  ExpectWorks("raise", {quorum.Acquire('a')}, {raise, raise_far, raise_far});
  ExpectWorks("heal", {quorum.Acquire('a'), Other({"DEL", "name"})},
              {quorum.Make("raise", {"gone"}, {GrantOf('a'), "5000000000000000", "30000", "1"})});
  for (const char* const mode : {"queue", "yield"}) {
    ExpectWorks(mode, {quorum.Acquire('a'), quorum.Acquire('b')},
                {quorum.Acquire('a', {.attempt = 2, .mode = mode}), quorum.Acquire('b', 2),
                 quorum.Acquire('a', 3)});
  }
  const Words run = {"redlatch:run"};
  ExpectWorks(
      "first commands of a connection", {},
      {{"quorum/begin", run, {"5000"}}, {"primary_epoch/begin", {"redlatch:epoch"}, {"", "5000"}}});

  const Words latch = {"name", "queue", "waiters", "fence", "counted"};
  const Words waiting = {"name", "queue", "waiters", "fence", "gone", "counted"};
  const std::string its_name = "latch:60000:" + GrantOf('a');
  const Action create = {"latch/create", latch, {"2", "60000", GrantOf('a')}};
  const auto await = [&](int attempt) {
    return Action{
        "latch/acquire",
        waiting,
        {GrantOf('b'), "30000",
         absl::StrCat("1 ", attempt, " 1 10000 0 0 2000 0 redlatch:", ClientId('b')), its_name}};
  };
  ExpectRefused({}, create);
  ExpectRefused({create}, await(1));
  ExpectWorks("latch", {create, await(1)},
              {await(2),
               {"latch/count_down", latch, {its_name, "one", "1"}},
               {"latch/count", latch, {its_name}},
               await(3),
               {"latch/count_down", latch, {its_name, "two", "1"}},
               {"latch/count_down", latch, {its_name, "two", "1"}},
               await(4),
               {"latch/cancel", waiting, {GrantOf('b'), "5000", "1"}}});

  const Words java = {"name", "queue", "waiters", "fence", "counted"};
  ExpectWorks(
      "Redisson latch", {Other({"SET", "name", "3"})},
      {{"redisson_latch/count", java, {"down", "1", "1000", "0 1"}},
       {"redisson_latch/count", java, {"count", "0", "1000", "0 1"}},
       {"redisson_latch/acquire",
        {"name", "queue", "waiters", "fence", "gone", "readers"},
        {GrantOf('a'), "30000", terms, ClientId('a'), "0 1"}},
       {"redisson_latch/cancel", four, {GrantOf('a'), "5000", "1", "0 1"}},
       {"redisson/inspect", {"name", "queue", "waiters", "fence", "taken", "timeout"}, {"10"}}});
  // A reader whose own key has expired, while other readers kept the lock.
  const KindCalls java_read(kinds[13]);
  const Action expired = Other({"DEL", "{name}:" + GrantOf('a') + ":rwlock_timeout:1"});
  for (const int lease_ms : {1000, 60'000}) {
    ExpectWorks("Redisson reader that expired",
                {java_read.Acquire('a'), java_read.Acquire('b'), expired},
                {java_read.Renew('a', lease_ms)});
    ExpectWorks("Redisson reader that expired, repeated",
                {java_read.Acquire('a'), java_read.Acquire('b'), expired},
                {java_read.Acquire('a', {.attempt = 2, .lease_ms = lease_ms, .manual = true})});
  }

  // These change what a lock is like, rather than who has it.
  run_.insert({"semaphore/set_capacity", "redisson_semaphore/set_permits"});
  for (const auto& [name, script] : scripts_) EXPECT_TRUE(run_.contains(name)) << name;
}

}  // namespace
}  // namespace redlatch::sim
