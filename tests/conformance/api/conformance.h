// The conformance suite: what every lock promises. Each promise is written once, and every class of
// locks runs it on every server group.
//
// A test is a TEST_P of a suite that derives from Conformance. INSTANTIATE_CONFORMANCE(Suite,
// cases) runs it with these cases: LockCases() has each kind of lock on each server group.
// ExclusiveCases() adds a semaphore (the suite then makes its locks by NewAny()). CasesOf() is for
// classes that are not locks. WithoutSmoke() keeps only TCP, a quorum, and a user with just the
// documented permissions. OverTcp() keeps only TCP and the quorum, for behaviour that does not
// depend on the server group.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_CONFORMANCE_H_
#define REDLATCH_TESTS_CONFORMANCE_API_CONFORMANCE_H_

#include <ostream>

#include "docs/code/06-a-lock-of-your-own/priority_lock.h"
#include "tests/support/acquire_as.h"
#include "tests/support/any_lock.h"
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"
#include "tests/support/testing.h"

namespace redlatch::conformance {

// Data that only the holder of a lock may touch. It detects two holders at once, lost updates,
// tokens that do not grow, and invalid holds.
class Protected {
 public:
  explicit Protected(bool tokens = true) : tokens_(tokens) {}
  void Touch(const Hold& hold) {
    EXPECT_FALSE(inside_.exchange(true)) << "two holders at a time";
    EXPECT_TRUE(hold.valid());
    EXPECT_TRUE(!tokens_ || hold.fencing_token().value() > token_);
    token_ = hold.fencing_token().value();
    const int64_t seen = touches_;
    if (seen % 4 == 0) std::this_thread::yield();
    touches_ = seen + 1;
    inside_ = false;
  }
  int64_t touches() const { return touches_; }

 private:
  const bool tokens_;  // the locks have fencing tokens
  std::atomic<bool> inside_{false};
  std::atomic<uint64_t> token_{0};
  std::atomic<int64_t> touches_{0};
};

// EXPECT_OK() and ASSERT_OK() take a Status or a StatusOr.
inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
#define EXPECT_OK(expression) \
  EXPECT_EQ(::redlatch::conformance::StatusOf(expression), absl::OkStatus())
#define ASSERT_OK(expression) \
  ASSERT_EQ(::redlatch::conformance::StatusOf(expression), absl::OkStatus())

// The code of a result: EXPECT_EQ(CodeOf(lock.TryAcquire()), kBusy).
template <class Result>
absl::StatusCode CodeOf(const Result& result) {
  return StatusOf(result).code();
}
inline constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
inline constexpr absl::StatusCode kBusy = absl::StatusCode::kDeadlineExceeded;
inline constexpr absl::StatusCode kUnreachable = absl::StatusCode::kUnavailable;
inline constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;
inline constexpr absl::StatusCode kLost = absl::StatusCode::kAborted;
inline constexpr absl::StatusCode kMisuse = absl::StatusCode::kFailedPrecondition;
inline constexpr absl::StatusCode kBadInput = absl::StatusCode::kInvalidArgument;

// The code that a call of the std interface throws; kOk if it returns.
template <class Call>
absl::StatusCode Thrown(const Call& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().category(), error_category()) << error.what();
    return static_cast<absl::StatusCode>(error.code().value());
  }
  return kOk;
}

// The servers of one case. Each call goes to all of them, and returns what most of them reply.
class Servers {
 public:
  explicit Servers(std::vector<std::unique_ptr<support::RedisServer>> all) : all_(std::move(all)) {}

  std::string url() const {
    return QuorumUrl([](const auto& each) { return each.url(); });
  }
  size_t size() const { return all_.size(); }
  support::RedisServer& first() { return *all_.front(); }
  std::string unix_url() const { return all_.front()->unix_url(); }
  std::string tls_url() const { return all_.front()->tls_url(); }
  int port() const { return all_.front()->port(); }
  // The URL with a user of these servers.
  std::string UrlOfUser(const std::string& user) const {
    return QuorumUrl([&](const auto& each) {
      return absl::StrCat("redis://", user, "@127.0.0.1:", each.port());
    });
  }

  void Stop() {
    ForEach([](auto& each) { each.Stop(); });
  }
  void Continue() {
    ForEach([](auto& each) { each.Continue(); });
  }
  void Kill() {
    ForEach([](auto& each) { each.Kill(); });
  }
  // All are down before the first one starts again.
  void Restart() {
    if (all_.size() > 1) Kill();
    ForEach([](auto& each) { each.Restart(); });
  }

  // For a list, the elements from all servers together.
  redis::Reply Command(const std::vector<std::string>& args) {
    redis::Reply first = all_.front()->Command(args);
    for (size_t i = 1; i < all_.size(); ++i) {
      redis::Reply reply = all_[i]->Command(args);
      for (redis::Reply& element : reply.elements) first.elements.push_back(std::move(element));
    }
    return first;
  }
  std::string Text(const std::vector<std::string>& args) {
    return MostOften<std::string>([&](auto& each) { return each.Text(args); });
  }
  int64_t Integer(const std::vector<std::string>& args) {
    return MostOften<int64_t>([&](auto& each) { return each.Integer(args); });
  }
  // True if any server has the key.
  bool Have(const std::string& key) {
    bool any = false;
    ForEach([&](auto& each) { any |= each.Integer({"EXISTS", key}) > 0; });
    return any;
  }
  std::string Info(std::string_view field) { return all_.front()->Info(field); }
  std::vector<std::string> LockKeys() {
    std::map<std::string, size_t> count;
    ForEach([&](auto& each) {
      for (const std::string& key : each.LockKeys()) ++count[key];
    });
    std::vector<std::string> keys;
    for (const auto& [key, servers] : count) {
      if (servers > all_.size() / 2) keys.push_back(key);
    }
    return keys;
  }

 private:
  template <class Function>
  void ForEach(Function function) {
    for (const auto& each : all_) function(*each);
  }
  template <class Value, class Function>
  Value MostOften(Function function) {
    std::map<Value, size_t> count;
    ForEach([&](auto& each) { ++count[function(each)]; });
    Value most{};
    size_t best = 0;
    for (const auto& [value, times] : count) {
      if (times > std::exchange(best, std::max(best, times))) most = value;
    }
    return most;
  }
  template <class Function>
  std::string QuorumUrl(Function url_of) const {
    if (all_.size() == 1) return url_of(*all_.front());
    std::string text = "redlock:";
    for (const auto& each : all_)
      absl::StrAppend(&text, each == all_.front() ? "" : ",", url_of(*each));
    return text;
  }

  const std::vector<std::unique_ptr<support::RedisServer>> all_;
};

// A class of locks. A new class gets a line in Kinds().
struct Kind {
  std::string_view name;
  bool reentrant;
  std::unique_ptr<RedisLockBase> (*make)(const Client&, std::string_view, LockOptions);
  bool of_users = false;  // written by a user; one server group is enough
  bool quorum = false;    // needs several servers
  bool redisson = false;  // shared with Redisson, whose protocol promises less

  bool has_tokens() const { return !redisson || name == "redisson_fenced_lock"; }
  bool has_queue() const { return !redisson || name == "redisson_fair_lock"; }
};

template <class Lock>
std::unique_ptr<RedisLockBase> Make(const Client& client, std::string_view name,
                                    LockOptions options) {
  return std::make_unique<Lock>(client, name, std::move(options));
}

// Three names in one slot, or only the first if it is too long or no other name fits in its slot.
inline std::vector<std::string> ThreeNames(std::string_view name) {
  const std::string first(name);
  const bool plain = !first.empty() && first.find_first_of("{}") == std::string::npos;
  const bool tagged = first.find('}') != std::string::npos;
  if (first.size() > 1000 || !(plain || tagged || first.empty())) return {first};
  const std::string stem = plain ? "{" + first + "}" : first;
  return {first, stem + ".b", stem + ".c"};
}
inline std::unique_ptr<RedisLockBase> MakeQuorum(const Client& client, std::string_view name,
                                                 LockOptions options) {
  return std::make_unique<RedLock>(
      client, name,
      RedLockOptions{.lease = options.lease, .turn = options.turn, .on_lost = options.on_lost});
}
inline std::unique_ptr<RedisLockBase> MakeMulti(const Client& client, std::string_view name,
                                                LockOptions options) {
  return std::make_unique<MultiLock>(
      client, ThreeNames(name),
      MultiLockOptions{.lease = options.lease, .turn = options.turn, .on_lost = options.on_lost});
}

// The capacity of a semaphore of which each holder takes every permit.
constexpr int64_t kAllPermits = 2;

inline std::vector<Kind> Kinds() {
  return {
      {.name = "simple", .reentrant = false, .make = Make<SimpleLock>},
      {.name = "reentrant", .reentrant = true, .make = Make<ReentrantLock>},
      {.name = "read_write", .reentrant = true, .make = Make<ReentrantReadWriteLock>},
      {.name = "multi", .reentrant = false, .make = MakeMulti},
      {.name = "election", .reentrant = false, .make = Make<Election>},
      {.name = "priority", .reentrant = false, .make = Make<PriorityLock>, .of_users = true},
      {.name = "quorum", .reentrant = false, .make = MakeQuorum, .quorum = true},
      {.name = "redisson_lock", .reentrant = true, .make = Make<redisson::Lock>, .redisson = true},
      {.name = "redisson_fenced_lock",
       .reentrant = true,
       .make = Make<redisson::FencedLock>,
       .redisson = true},
      {.name = "redisson_fair_lock",
       .reentrant = true,
       .make = Make<redisson::FairLock>,
       .redisson = true},
      {.name = "redisson_read_write_lock",
       .reentrant = true,
       .make = Make<redisson::ReadWriteLock>,
       .redisson = true},
  };
}

// How clients reach the server, and the options of their locks.
struct ServerGroup {
  std::string_view name;
  bool smoke = false;  // only suites that run on every server group
  bool unix_socket = false;
  bool tls = false;
  bool sentinel = false;
  bool cluster = false;  // with one primary; tests/fault/api/cluster_load_test.cc uses several
  bool quorum = false;   // five servers; faults hit all of them
  // With a prefix, the user has only the permissions that docs/operations.md asks for.
  std::string_view key_prefix = {};
  std::optional<Duration> turn = {};
};

inline std::vector<ServerGroup> ServerGroups() {
  return {
      {.name = "tcp"},
      {.name = "unix", .smoke = true, .unix_socket = true},
      {.name = "tls", .smoke = true, .tls = true},
      {.name = "sentinel", .smoke = true, .sentinel = true},
      {.name = "cluster", .smoke = true, .cluster = true},
      {.name = "acl_user", .key_prefix = "app:"},
      {.name = "no_turn", .smoke = true, .turn = absl::ZeroDuration()},
      {.name = "quorum", .quorum = true},
  };
}

struct Case {
  Kind kind;
  ServerGroup server_group;
  std::string name() const {
    return absl::StrCat(std::string(kind.name), "_", std::string(server_group.name));
  }
};

inline void PrintTo(const Case& which, std::ostream* out) { *out << which.name(); }

inline std::vector<Case> LockCases() {
  std::vector<Case> cases;
  for (const Kind& kind : Kinds()) {
    for (const ServerGroup& server_group : ServerGroups()) {
      if (kind.quorum != server_group.quorum) continue;
      // Some are enough for these, which share their way to the server with the others.
      const bool few =
          kind.name == "redisson_fenced_lock" || kind.name == "redisson_read_write_lock";
      const bool other_way =
          server_group.cluster || server_group.sentinel || server_group.name == "tls";
      if (kind.redisson && server_group.name != "tcp" && (few || !other_way)) continue;
      cases.push_back({kind, server_group});
      if (kind.of_users) break;
    }
  }
  return cases;
}
// Cases for a class that is no RedisLockBase. The suite makes its objects itself; they have no
// turn, and no quorum.
inline std::vector<Case> CasesOf(std::string_view kind) {
  std::vector<Case> cases;
  for (const ServerGroup& server_group : ServerGroups()) {
    if (server_group.name == "no_turn" || server_group.quorum) continue;
    cases.push_back({{.name = kind, .reentrant = false, .make = nullptr}, server_group});
  }
  return cases;
}
// Everything that has one holder at a time, semaphores included.
inline std::vector<Case> ExclusiveCases() {
  std::vector<Case> cases = LockCases();
  for (const Case& each : CasesOf("semaphore")) cases.push_back(each);
  return cases;
}

inline std::vector<Case> Where(std::vector<Case> cases, bool (*matches)(const Case&)) {
  std::erase_if(cases, [&](const Case& each) { return !matches(each); });
  return cases;
}
inline std::vector<Case> WithoutSmoke(std::vector<Case> cases) {
  return Where(std::move(cases), [](const Case& each) { return !each.server_group.smoke; });
}
inline std::vector<Case> OverTcp(std::vector<Case> cases) {
  return Where(std::move(cases), [](const Case& each) {
    return each.server_group.name == "tcp" || each.server_group.quorum;
  });
}

inline std::string NameOfCase(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name();
}

#define INSTANTIATE_CONFORMANCE(suite, cases) \
  INSTANTIATE_TEST_SUITE_P(Locks, suite, ::testing::ValuesIn(cases), NameOfCase)

// The user that docs/operations.md recommends, for the prefix `app:`.
constexpr char kUserOfApp[] =
    "user app on >password resetchannels &redlatch:* "
    "~app:* ~redlatch:2:{app:* ~redlatch:rw:{app:* ~redlatch:2.tag:app:* ~redlatch:rw.tag:app:* "
    "~redlatch:client:* "
    "+eval +evalsha +script +info +ping +subscribe +unsubscribe +publish +pubsub|numsub +time "
    "+get +mget +getrange +set +setrange +psetex +del +unlink +rename +exists +pexpire "
    "+pexpireat +pttl +hget +hset +hsetnx +hdel +hexists +hgetall +hkeys +hmget +hincrby "
    "+zadd +zrem +zremrangebyrank +zcard +zcount +zrange +zrangebyscore +zrank +zscore";

// for events that must come, but may come late
constexpr absl::Duration kTestTimeout = absl::Seconds(10);
constexpr absl::Duration kGrace = absl::Milliseconds(50);  // how late a call may return
constexpr absl::Duration kLease = absl::Seconds(2);
// How long an unused semaphore stays: one day, plus some minutes so that not every use must prolong
// it.
inline const absl::Duration kSemaphoreTtl = absl::Hours(24) + absl::Minutes(15) + kLease;
constexpr char kName[] = "lock";
constexpr size_t kQuorum = 5;

class Conformance : public ::testing::TestWithParam<Case> {
 protected:
  // This is not in TearDown(), because a derived fixture destroys its locks only after that.
  ~Conformance() override {
    ExpectNothingIsLeft();
    server().Command({"FLUSHALL"});
  }

  // All tests of this program share these servers. A test that stops them must continue them.
  static Servers& SharedServer() {
    static std::map<std::string_view, std::unique_ptr<Servers>> servers;
    const ServerGroup& way = GetParam().server_group;
    auto& server =
        servers[way.tls || way.sentinel || way.cluster || way.quorum || !way.key_prefix.empty()
                    ? way.name
                    : ""];
    if (server == nullptr) server = Start();
    return *server;
  }
  // For tests that would disturb others. Call it before the first client.
  void UseOwnServer(support::RedisServerOptions options = {}) {
    own_server_ = Start(std::move(options));
  }
  Servers& server() { return own_server_ ? *own_server_ : SharedServer(); }
  static std::unique_ptr<Servers> Start(const support::RedisServerOptions& options = {}) {
    std::vector<std::unique_ptr<support::RedisServer>> all;
    const size_t count = GetParam().server_group.quorum ? kQuorum : 1;
    while (all.size() < count) all.push_back(StartOne(options));
    return std::make_unique<Servers>(std::move(all));
  }
  static std::unique_ptr<support::RedisServer> StartOne(support::RedisServerOptions options) {
    if (GetParam().server_group.tls) {
      static support::Authority authority;
      static const std::string cert = authority.Certify();
      options.tls = support::ServerTls{.cert = cert, .ca = authority.file()};
    }
    if (!GetParam().server_group.key_prefix.empty()) options.acl.emplace_back(kUserOfApp);
    if (GetParam().server_group.cluster) return support::StartClusterOfOne(std::move(options));
    auto server = support::RedisServer::Start(std::move(options));
    if (GetParam().server_group.sentinel) {
      for (const auto& each : Sentinels()) {
        const std::string port = absl::StrCat(server->port());
        const auto watched = each->Command({"SENTINEL", "MONITOR", port, "127.0.0.1", port, "2"});
        EXPECT_FALSE(watched.is_error()) << watched.text;
        for (const char* const option : {"auth-user", "auth-pass"}) {
          each->Command({"SENTINEL", "SET", port, option, "redlatch-test"});
        }
      }
    }
    return server;
  }
  // One set of sentinels serves all servers, which they know under their ports.
  static const std::vector<std::unique_ptr<support::RedisServer>>& Sentinels() {
    static const auto* const sentinels = [] {
      auto* const all = new std::vector<std::unique_ptr<support::RedisServer>>();
      for (int i = 0; i < 3; ++i) {
        all->push_back(support::RedisServer::Start({.sentinel = true}));
      }
      return all;
    }();
    return *sentinels;
  }

  std::string url() {
    const ServerGroup& way = GetParam().server_group;
    const int port = server().port();
    if (way.tls) return server().tls_url();
    if (way.sentinel) {
      std::vector<std::string> hosts;
      for (const auto& each : Sentinels())
        hosts.push_back(absl::StrCat("127.0.0.1:", each->port()));
      return absl::StrCat("redis-sentinel://", absl::StrJoin(hosts, ","), "/", port);
    }
    if (way.cluster) return absl::StrCat("redis-cluster://127.0.0.1:", port);
    if (!way.key_prefix.empty()) return absl::StrCat("redis://app:password@127.0.0.1:", port);
    return way.unix_socket ? server().unix_url() : server().url();
  }
  // The URL of a user with every permission.
  std::string UrlOfAnyUser() { return GetParam().server_group.cluster ? url() : server().url(); }

  // `url_options` follow the `?` of the URL.
  Client NewClient(std::string_view url_options = {}, ClientOptions options = {}) {
    return ClientAt(url(), url_options, std::move(options));
  }
  Client ClientAt(const std::string& url, std::string_view url_options = {},
                  ClientOptions options = {}) {
    // A server on a busy machine may take longer than a second.
    if (url_options.empty()) url_options = "command_timeout=10s&connect_timeout=10s";
    if (options.key_prefix.empty())
      options.key_prefix = std::string(GetParam().server_group.key_prefix);
    std::string whole =
        absl::StrCat(url, url.find('?') == std::string::npos ? "?" : "&", std::string(url_options));
    if (GetParam().server_group.quorum) {  // each of them
      whole = absl::StrReplaceAll(
          whole, {{",redis:", absl::StrCat("?", std::string(url_options), ",redis:")}});
    }
    absl::StatusOr<Client> client = absl::UnknownError("");
    EXPECT_TRUE(Await([&] {  // on a busy machine, a short timeout may end first
                  client = Client::Connect(whole, options);
                  return client.ok() || !absl::IsUnavailable(client.status());
                }) &&
                client.ok())
        << client.status();
    return *std::move(client);
  }

  LockOptions Options() const { return {.lease = kLease, .turn = GetParam().server_group.turn}; }
  LockOptions LeaseOf(absl::Duration lease) const {
    LockOptions options = Options();
    options.lease = lease;
    return options;
  }
  std::unique_ptr<RedisLockBase> NewLock(const Client& client, std::string_view name = kName) {
    return NewLock(client, name, Options());
  }
  std::unique_ptr<RedisLockBase> NewLock(const Client& client, std::string_view name,
                                         LockOptions options) {
    return GetParam().kind.make(client, name, std::move(options));
  }

  std::unique_ptr<support::AnyLock> NewAny(const Client& client, std::string_view name = kName) {
    return NewAny(client, name, Options());
  }
  std::unique_ptr<support::AnyLock> NewAny(const Client& client, std::string_view name,
                                           LockOptions options) {
    if (GetParam().kind.make != nullptr) {
      return std::make_unique<support::AnyLock>(NewLock(client, name, std::move(options)));
    }
    return std::make_unique<support::AnyLock>(
        std::make_unique<Semaphore>(
            client, name, kAllPermits,
            SemaphoreOptions{.lease = options.lease, .on_lost = options.on_lost}),
        kAllPermits);
  }

  // Repeats a call while the server is unavailable, since a busy machine may answer after the
  // deadline.
  template <class Call>
  static auto Repeated(const Call& call) {
    auto result = call();
    for (int i = 0; i < 100 && absl::IsUnavailable(StatusOf(result)); ++i) result = call();
    return result;
  }
  template <class Lock>
  static auto Try(Lock& lock) {
    return Repeated([&] { return lock.TryAcquire(); });
  }
  absl::StatusOr<Lease> Try(const Client& client, std::string_view name = kName) {
    return Try(*NewLock(client, name));
  }

  // The main key of a lock at the server.
  std::string Key(std::string_view name = kName) const {
    return absl::StrCat(std::string(GetParam().server_group.key_prefix), std::string(name));
  }
  // The name that messages and statistics show.
  static std::string Called(std::string_view name = kName) {
    if (GetParam().kind.name != "multi") return std::string(name);
    std::vector<std::string> names = ThreeNames(name);
    std::sort(names.begin(), names.end());
    return absl::StrJoin(names, ", ");
  }
  // The kind in the names of its other keys, such as "simple".
  virtual std::string_view KeyKind() const {
    if (GetParam().kind.of_users) return "x.priority";
    if (GetParam().kind.quorum) return "quorum";
    if (GetParam().kind.name == "multi") return "simple";
    return GetParam().kind.name == "read_write" ? "rw" : GetParam().kind.name;
  }
  // A key of this kind, such as its queue.
  std::string Auxiliary(std::string_view suffix, std::string_view name = kName) const {
    const std::string kind = suffix == "fence" ? "" : std::string(KeyKind()) + ".";
    return support::AuxiliaryKey(Key(name), kind + std::string(suffix));
  }

  bool IsHeld(std::string_view name = kName) {
    const std::string key = KeyKind() == "semaphore" ? Auxiliary("permits", name) : Key(name);
    return server().Integer({"EXISTS", key}) == 1;
  }
  bool AwaitHeld(bool held = true, std::string_view name = kName) {
    return Await([&] { return IsHeld(name) == held; });
  }
  // Each waiting client counts once, however many of its threads wait.
  bool AwaitQueued(int64_t clients, std::string_view name = kName) {
    const std::string tagged = absl::StrCat("{", std::string(name), "}");
    if (GetParam().kind.redisson && GetParam().kind.has_queue()) {
      const std::string queue = "redisson_lock_queue:" + tagged;
      return Await([&] { return server().Integer({"LLEN", queue}) == clients; });
    }
    if (GetParam().kind.redisson) {
      const std::string channel =
          (GetParam().kind.name == "redisson_read_write_lock" ? "redisson_rwlock:"
                                                              : "redisson_lock__channel:") +
          tagged;
      const char* const count = GetParam().server_group.cluster ? "SHARDNUMSUB" : "NUMSUB";
      return Await([&] {
        const redis::Reply reply = server().Command({"PUBSUB", count, channel});
        // All acquires of a client listen there together.
        return reply.elements.size() == 2 && (reply.elements[1].integer > 0) == (clients > 0);
      });
    }
    // Writers have their own queue.
    const std::string_view queue = KeyKind() == "rw" ? "writers" : "queue";
    return Await([&] { return server().Integer({"ZCARD", Auxiliary(queue, name)}) == clients; });
  }

  // All keys but fences, client descriptions, and semaphores, which outlive their last user by a
  // day. The test fails if a key has no expiry.
  std::vector<std::string> KeysLeft() {
    std::vector<std::string> left;
    for (const redis::Reply& key : server().Command({"KEYS", "*"}).elements) {
      const int64_t ttl_ms = server().Integer({"PTTL", key.text});
      if (!server().Have(key.text)) continue;  // it has just expired
      if (ttl_ms == -1 && !key.text.starts_with("redisson_lock_"))
        ADD_FAILURE() << "without a TTL: " << key.text;
      if (server().Text({"HGET", key.text, "kind"}) == "semaphore/2") {
        EXPECT_LE(absl::Milliseconds(ttl_ms), kSemaphoreTtl) << key.text;
        continue;
      }
      const bool stays = key.text.ends_with(":fence") ||
                         key.text.starts_with("redisson_lock_token") ||
                         key.text.starts_with("redlatch:client:");
      if (!stays) left.push_back(key.text);
    }
    return left;
  }
  // Abandoned leases and tombstones expire by themselves. On a busy machine the last request that
  // leaves one comes late.
  void ExpectNothingIsLeft() {
    std::vector<std::string> left;
    const bool clean = Await(
        [&] {
          left = KeysLeft();
          return left.empty() || HasFailure();
        },
        2 * kLease + absl::Seconds(5));
    EXPECT_TRUE(clean && left.empty()) << "left behind: " << absl::StrJoin(left, ", ");
  }

 private:
  std::unique_ptr<Servers> own_server_;
};

// With another client, which has no holds of its own.
struct WithOther : Conformance {
  bool BusyForOthers(std::string_view name = kName) {
    return CodeOf(Try(*NewAny(other_, name))) == kBusy;
  }
  // A release may still be in flight.
  bool FreeForOthers(std::string_view name = kName) {
    return Await([&] { return !BusyForOthers(name); });
  }

  const Client other_ = NewClient();
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_CONFORMANCE_H_
