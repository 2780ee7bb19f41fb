// The conformance suite: what every lock promises, written once and run by every class of locks,
// on every way to reach a server.
//
// A test is a TEST_P of a suite that derives from Conformance. INSTANTIATE_CONFORMANCE(Suite,
// cases) runs it: with LockCases() for each kind of lock on every way, with ExclusiveCases() also
// for a semaphore (such a suite makes its locks by NewAny()), with CasesOf() for what is no lock.
// WithoutSmoke() leaves of them TCP and a user who has only the permissions that the documents
// name; OverTcp() leaves TCP alone, for what does not depend on the way.
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

// What only the holder of a lock may touch. Two at a time, an update that is lost, and a token that
// does not grow all show; so does a hold that is not valid.
class Protected {
 public:
  void Touch(const Hold& hold) {
    EXPECT_FALSE(inside_.exchange(true)) << "two holders at a time";
    EXPECT_TRUE(hold.valid());
    EXPECT_GT(hold.fencing_token().value(), token_.load());
    token_ = hold.fencing_token().value();
    const int64_t seen = touches_;
    if (seen % 4 == 0) std::this_thread::yield();
    touches_ = seen + 1;
    inside_ = false;
  }
  int64_t touches() const { return touches_; }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<uint64_t> token_{0};
  std::atomic<int64_t> touches_{0};
};

// Threads that are joined when this goes.
class Crew {
 public:
  Crew() = default;
  ~Crew() { Join(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void Start(std::function<void()> work) { threads_.emplace_back(std::move(work)); }
  void Start(int threads, const std::function<void(int)>& work) {
    for (int i = 0; i < threads; ++i) Start([work, i] { work(i); });
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

// EXPECT_OK(status), and the same for StatusOr.
inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
#define EXPECT_OK(expression) \
  EXPECT_EQ(::redlatch::conformance::StatusOf(expression), absl::OkStatus())
#define ASSERT_OK(expression) \
  ASSERT_EQ(::redlatch::conformance::StatusOf(expression), absl::OkStatus())

// The code of what came out: EXPECT_EQ(CodeOf(lock.TryAcquire()), kBusy).
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

// The code of what a call of the std face throws; kOk where it returns.
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

// Each call is for all of them; what it answers is what most of them do.
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
  // Of a user of theirs.
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
  // None of them is there while another is still what it was.
  void Restart() {
    if (all_.size() > 1) Kill();
    ForEach([](auto& each) { each.Restart(); });
  }

  // Of a list, what is on any of them.
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
  // On any of them.
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

// A class of locks. A new one gets a line in Kinds().
struct Kind {
  std::string_view name;
  bool reentrant;
  std::unique_ptr<RedisLockBase> (*make)(const Client&, std::string_view, LockOptions);
  bool of_users = false;  // as a user would write it: how the server is reached is no matter
  bool quorum = false;    // of several servers
};

template <class Lock>
std::unique_ptr<RedisLockBase> Make(const Client& client, std::string_view name,
                                    LockOptions options) {
  return std::make_unique<Lock>(client, name, std::move(options));
}

// Three names in one slot, or only that one if no other can be in its slot, or is short enough.
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

// Of a semaphore each of whose holders takes them all.
constexpr int64_t kAllPermits = 2;

inline std::vector<Kind> Kinds() {
  return {
      {.name = "simple", .reentrant = false, .make = Make<SimpleLock>},
      {.name = "reentrant", .reentrant = true, .make = Make<ReentrantLock>},
      {.name = "read_write", .reentrant = true, .make = Make<ReentrantReadWriteLock>},
      {.name = "multi", .reentrant = false, .make = MakeMulti},
      {.name = "priority", .reentrant = false, .make = Make<PriorityLock>, .of_users = true},
      {.name = "quorum", .reentrant = false, .make = MakeQuorum, .quorum = true},
  };
}

// How clients reach the server, and what their locks are told.
struct ServerGroup {
  std::string_view name;
  bool smoke = false;  // only the suites that run everywhere
  bool unix_socket = false;
  bool tls = false;
  bool sentinel = false;
  bool cluster = false;  // of one primary; of several: tests/fault/api/cluster_load_test.cc
  bool quorum = false;   // of five servers, each of which has what happens to the server
  // With a prefix, the user may do no more than docs/operations.md says that he must.
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
      cases.push_back({kind, server_group});
      if (kind.of_users) break;
    }
  }
  return cases;
}
// Of what is no RedisLockBase, so that nothing here makes it: it has no window, and is no quorum's.
inline std::vector<Case> CasesOf(std::string_view kind) {
  std::vector<Case> cases;
  for (const ServerGroup& server_group : ServerGroups()) {
    if (server_group.name == "no_turn" || server_group.quorum) continue;
    cases.push_back({{.name = kind, .reentrant = false, .make = nullptr}, server_group});
  }
  return cases;
}
// What has one holder at a time, be it a lock or not.
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

// As docs/operations.md has it, for the prefix `app:`.
constexpr char kUserOfApp[] =
    "user app on >password resetchannels &redlatch:* "
    "~app:* ~redlatch:2:{app:* ~redlatch:rw:{app:* ~redlatch:2.tag:app:* ~redlatch:rw.tag:app:* "
    "~redlatch:client:* "
    "+eval +evalsha +script +info +ping +subscribe +unsubscribe +publish +pubsub|numsub +time "
    "+get +mget +getrange +set +setrange +psetex +del +unlink +rename +exists +pexpire "
    "+pexpireat +pttl +hget +hset +hsetnx +hdel +hexists +hgetall +hkeys +hmget +hincrby "
    "+zadd +zrem +zremrangebyrank +zcard +zcount +zrange +zrangebyscore +zrank +zscore";

constexpr absl::Duration kTestTimeout = absl::Seconds(10);  // for what must come, but when is open
constexpr absl::Duration kGrace = absl::Milliseconds(50);   // how late a call may come back
constexpr absl::Duration kLease = absl::Seconds(2);
// How long a semaphore that nobody uses is kept: a day, and some minutes, so that not every use
// need say so.
inline const absl::Duration kSemaphoreTtl = absl::Hours(24) + absl::Minutes(15) + kLease;
constexpr char kName[] = "lock";
constexpr size_t kQuorum = 5;

// A client that lives in a process of its own is told of its case by name.
inline Case CaseNamed(std::string_view name) {
  for (const Case& which : LockCases()) {
    if (which.name() == name) return which;
  }
  ADD_FAILURE() << "no case is called " << name;
  return LockCases().front();
}

class Conformance : public ::testing::TestWithParam<Case> {
 protected:
  // Here, not in TearDown(): a derived fixture's locks are gone by now.
  ~Conformance() override {
    ExpectNothingIsLeft();
    server().Command({"FLUSHALL"});
  }

  // One for all tests of this program; whoever stops it lets it go on.
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
  // For a test that does what others could not bear; before any client is made.
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
  // One set of them for all servers, each of which they call by its port.
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

  static std::string UrlOf(const Servers& server, const Case& which) {
    if (which.server_group.tls) return server.tls_url();
    if (which.server_group.sentinel) {
      std::vector<std::string> hosts;
      for (const auto& each : Sentinels())
        hosts.push_back(absl::StrCat("127.0.0.1:", each->port()));
      return absl::StrCat("redis-sentinel://", absl::StrJoin(hosts, ","), "/", server.port());
    }
    if (which.server_group.cluster) {
      return absl::StrCat("redis-cluster://127.0.0.1:", server.port());
    }
    if (!which.server_group.key_prefix.empty()) {
      return absl::StrCat("redis://app:password@127.0.0.1:", server.port());
    }
    return which.server_group.unix_socket ? server.unix_url() : server.url();
  }
  std::string url() { return UrlOf(server(), GetParam()); }
  // Of a user who may do everything.
  std::string UrlOfAnyUser() { return GetParam().server_group.cluster ? url() : server().url(); }

  // `options` come behind the `?` of the URL.
  Client NewClient(std::string_view url_options = {}, ClientOptions options = {}) {
    return ClientAt(url(), url_options, std::move(options));
  }
  Client ClientAt(const std::string& url, std::string_view url_options = {},
                  ClientOptions options = {}) {
    return Connected(url, GetParam(), url_options, std::move(options));
  }
  static Client Connected(const std::string& url, const Case& which,
                          std::string_view url_options = {}, ClientOptions options = {}) {
    // Servers of a busy machine may take longer than a second.
    if (url_options.empty()) url_options = "command_timeout=10s&connect_timeout=10s";
    if (options.key_prefix.empty()) options.key_prefix = std::string(which.server_group.key_prefix);
    std::string whole =
        absl::StrCat(url, url.find('?') == std::string::npos ? "?" : "&", std::string(url_options));
    if (which.server_group.quorum) {  // each of them
      whole = absl::StrReplaceAll(
          whole, {{",redis:", absl::StrCat("?", std::string(url_options), ",redis:")}});
    }
    absl::StatusOr<Client> client = Client::Connect(whole, options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  static LockOptions OptionsOf(const Case& which) {
    return {.lease = kLease, .turn = which.server_group.turn};
  }
  LockOptions Options() const { return OptionsOf(GetParam()); }
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

  // TryAcquire() where the server is well: a machine that runs it 40 ms late is no answer.
  template <class Lock>
  static auto Try(Lock& lock) {
    auto lease = lock.TryAcquire();
    for (int i = 0; i < 100 && absl::IsUnavailable(lease.status()); ++i) lease = lock.TryAcquire();
    return lease;
  }
  absl::StatusOr<Lease> Try(const Client& client, std::string_view name = kName) {
    return Try(*NewLock(client, name));
  }

  // The keys of a lock at the server.
  std::string Key(std::string_view name = kName) const {
    return absl::StrCat(std::string(GetParam().server_group.key_prefix), std::string(name));
  }
  // What people are told that its name is.
  static std::string Called(std::string_view name = kName) {
    if (GetParam().kind.name != "multi") return std::string(name);
    std::vector<std::string> names = ThreeNames(name);
    std::sort(names.begin(), names.end());
    return absl::StrJoin(names, ", ");
  }
  // What they are called beside `fence`: "simple".
  virtual std::string_view KeyKind() const {
    if (GetParam().kind.of_users) return "x.priority";
    if (GetParam().kind.quorum) return "quorum";
    if (GetParam().kind.name == "multi") return "simple";
    return GetParam().kind.name == "read_write" ? "rw" : GetParam().kind.name;
  }
  // "queue" is that of this kind.
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
  // Each client that waits counts once, however many of its threads do.
  bool AwaitQueued(int64_t clients, std::string_view name = kName) {
    // Writers have a queue of their own.
    const std::string_view queue = KeyKind() == "rw" ? "writers" : "queue";
    return Await([&] { return server().Integer({"ZCARD", Auxiliary(queue, name)}) == clients; });
  }

  // All keys but the fences, who the clients are, and semaphores, which outlive their last user by
  // a day; every key that can stay for ever is a failure of the test.
  std::vector<std::string> KeysLeft() {
    std::vector<std::string> left;
    for (const redis::Reply& key : server().Command({"KEYS", "*"}).elements) {
      const int64_t ttl_ms = server().Integer({"PTTL", key.text});
      if (!server().Have(key.text)) continue;  // it has just ended
      if (ttl_ms == -1) ADD_FAILURE() << "without a TTL: " << key.text;
      if (server().Text({"HGET", key.text, "kind"}) == "semaphore/2") {
        EXPECT_LE(absl::Milliseconds(ttl_ms), kSemaphoreTtl) << key.text;
        continue;
      }
      const bool stays = key.text.ends_with(":fence") || key.text.starts_with("redlatch:client:");
      if (!stays) left.push_back(key.text);
    }
    return left;
  }
  // Leases that were abandoned end by themselves.
  void ExpectNothingIsLeft() {
    std::vector<std::string> left;
    const bool clean = Await(
        [&] {
          left = KeysLeft();
          return left.empty() || HasFailure();
        },
        2 * kLease);
    EXPECT_TRUE(clean && left.empty()) << "left behind: " << absl::StrJoin(left, ", ");
  }

 private:
  std::unique_ptr<Servers> own_server_;
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_CONFORMANCE_H_
