// A neighbour is another user of the same server. It may publish on `redlatch:*` and subscribe
// there, and shares one lock with a client. It sends that client arbitrary messages.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::RawConnection;

// The attacked client. It waits for some locks, which another client has, and holds others.
class Victim {
 public:
  virtual ~Victim() = default;

  // Every lock that it uses.
  virtual std::vector<std::string> Names() const = 0;
  // The locks for which it always waits. In a cluster, the client subscribes to the channels of
  // their slots.
  virtual std::vector<std::string> Awaited() const = 0;
  // Makes the server send messages from which a subscriber learns ids.
  virtual void Live() = 0;
  // Waits until the client has read everything that the neighbour has published: a later message of
  // the server has arrived.
  virtual void AwaitMessages() = 0;
  virtual void ExpectNothingChanged() {
    EXPECT_EQ(done_, 0) << "a message has granted what it cannot, or has ended a wait";
    for (const Lease& lease : held_) EXPECT_TRUE(lease.valid());
    EXPECT_TRUE(!passed_.ok() || passed_->valid());
    EXPECT_EQ(client_.Stats().all.lost, 0);
  }
  // The client gets everything that it waits for, with the server's tokens.
  virtual void ExpectAllGranted() {
    owners_.clear();
    EXPECT_TRUE(Await([&] { return done_ == waits_; }));
    for (const auto& lease : granted_) {
      ASSERT_TRUE(lease->ok()) << lease->status();
      EXPECT_TRUE((*lease)->valid());
      EXPECT_LE((*lease)->remaining(), absl::Seconds(60));
      EXPECT_LT((*lease)->fencing_token().value(), 4'000'000'000'000'000U);
    }
  }
  std::string id() const { return client_.Stats().id; }

 protected:
  Victim(const std::string& url, absl::Duration keep)
      : owner_(Connect(url)), client_(Connect(url)) {
    options_.cache_for = keep;
  }
  static LockOptions Short() { return {.lease = absl::Seconds(1)}; }
  const Client& owner() const { return owner_; }
  const Client& client() const { return client_; }
  const LockOptions& options() const { return options_; }
  std::stop_token stop() const { return stop_.get_token(); }

  void OwnerHas(absl::StatusOr<Lease> lease) { owners_.push_back(Must(std::move(lease))); }
  void Holds(absl::StatusOr<Lease> lease) { held_.push_back(Must(std::move(lease))); }
  // A callback for one wait, which stores what it is told in `result`.
  template <class Result>
  auto Into(absl::StatusOr<Result>& result) {
    ++waits_;
    return [this, &result](absl::StatusOr<Result> told) {
      result = std::move(told);
      ++done_;
    };
  }
  auto Waiter() {
    return Into(*granted_.emplace_back(
        std::make_unique<absl::StatusOr<Lease>>(absl::UnknownError("it waits"))));
  }
  // For the end of each constructor, and the start of each destructor.
  void AwaitWaiting() const { AwaitWaiting(waits_); }
  void EndWaits() {
    stop_.request_stop();
    EXPECT_TRUE(Await([&] { return done_ == waits_; }));
  }
  // The client gets a lock and keeps it. A subscriber has read its grant id, since the message was
  // sent on the channel of "simple".
  template <class Lock>
  void PassOn() {
    passed_ = absl::UnknownError("it waits");
    HandOver<Lock>("{simple} passed", passed_);
  }
  // The owner hands a lock over to the client, which waits for it, by a message.
  template <class Lock>
  void HandOver(const std::string& name, absl::StatusOr<Lease>& after) {
    Lock theirs(owner_, name);
    Lock mine(client_, name);
    Lease before = Must(theirs.Acquire());
    std::atomic<bool> told = false;
    mine.AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
      after = std::move(lease);
      told = true;
    });
    AwaitWaiting(waits_ + 1);
    EXPECT_TRUE(before.Release().ok());
    EXPECT_TRUE(Await([&] { return told.load(); }));
    EXPECT_TRUE(after.ok()) << after.status();
  }

 private:
  void AwaitWaiting(int64_t count) const {
    EXPECT_TRUE(Await([&] { return static_cast<int64_t>(client_.Stats().all.waiting) == count; }));
  }

  Client owner_;
  Client client_;
  LockOptions options_;
  std::stop_source stop_;
  std::vector<Lease> owners_;
  std::vector<Lease> held_;
  absl::StatusOr<Lease> passed_ = absl::UnknownError("nothing was handed over yet");
  std::vector<std::unique_ptr<absl::StatusOr<Lease>>> granted_;
  int waits_ = 0;
  std::atomic<int> done_ = 0;
};

// Waits for one lock of each kind, and holds another of each kind.
class VictimOfEachKind : public Victim {
 public:
  VictimOfEachKind(const std::string& url, absl::Duration keep) : Victim(url, keep) {
    for (const char* name : {"simple", "whole", "manual", "{several} 1"}) {
      OwnerHas(SimpleLock(owner(), name).Acquire());
    }
    OwnerHas(SimpleLock(owner(), "short", Short()).Acquire());
    OwnerHas(ReentrantLock(owner(), "reentrant").Acquire());
    OwnerHas(ReentrantReadWriteLock(owner(), "read").AcquireWrite());
    OwnerHas(ReentrantReadWriteLock(owner(), "write").AcquireRead());
    owners_permit_ = Must(slots_.Acquire());
    Holds(SimpleLock(client(), "shared", options()).Acquire());
    Holds(ReentrantLock(client(), "held reentrant", options()).Acquire());
    Holds(ReentrantReadWriteLock(client(), "held read", options()).AcquireRead());
    Holds(ReentrantReadWriteLock(client(), "held write", options()).AcquireWrite());
    Holds(MultiLock(client(), {"{held} first", "{held} second"}).Acquire());
    permit_ = Must(Semaphore(client(), "held slots", 1).Acquire());
    { const std::scoped_lock used(idle_); }
    simple_.AcquireAsync({.stop = stop()}, Waiter());
    whole_.AcquireAsync({.whole_lease = true, .stop = stop()}, Waiter());
    manual_.AcquireAsync({.lease = absl::Seconds(60), .stop = stop()}, Waiter());
    short_.AcquireAsync({.stop = stop()}, Waiter());
    reentrant_.AcquireAsync({.stop = stop()}, Waiter());
    read_.AcquireReadAsync({.stop = stop()}, Waiter());
    write_.AcquireWriteAsync({.stop = stop()}, Waiter());
    several_.AcquireAsync({.stop = stop()}, Waiter());
    my_slots_.AcquireAsync(1, {.stop = stop()}, Into(slot_));
    my_latch_.WaitAsync({.stop = stop()},
                        [told = Into(opened_)](const absl::Status& status) mutable {
                          told(status.ok() ? absl::StatusOr<bool>(true) : status);
                        });
    AwaitWaiting();
  }
  ~VictimOfEachKind() override { EndWaits(); }

  std::vector<std::string> Names() const override {
    std::vector<std::string> names = {
        "short",     "{held} first", "held reentrant",  "idle",   "shared", "held write",
        "held read", "held slots",   "{simple} passed", "nothing"};
    for (std::string& name : Awaited()) names.push_back(std::move(name));
    return names;
  }
  std::vector<std::string> Awaited() const override {
    return {"simple", "whole", "manual", "reentrant",  "read",
            "write",  "slots", "latch",  "{several} 1"};
  }
  void Live() override {
    PassOn<SimpleLock>();
    latch_.count_down();
    --counts_to_go_;
    { const std::scoped_lock used(idle_); }
    { const std::scoped_lock used(others_idle_); }
    EXPECT_FALSE(SimpleLock(owner(), "{several} 2").TryAcquire().ok()) << "others wait for it";
  }
  void AwaitMessages() override {
    absl::StatusOr<Lease> after;
    HandOver<SimpleLock>("behind all", after);
  }
  void ExpectNothingChanged() override {
    Victim::ExpectNothingChanged();
    EXPECT_TRUE(permit_.valid());
  }
  void ExpectAllGranted() override {
    EXPECT_TRUE(owners_permit_.Release().ok());
    latch_.count_down(counts_to_go_);
    Victim::ExpectAllGranted();
    EXPECT_TRUE(slot_.ok()) << slot_.status();
    EXPECT_TRUE(opened_.ok()) << opened_.status();
  }

 private:
  CountDownLatch latch_{owner(), "latch", 1'000'000};
  int64_t counts_to_go_ = 1'000'000;
  Semaphore slots_{owner(), "slots", 1};
  SimpleLock others_idle_{owner(), "idle"};
  SimpleLock simple_{client(), "simple", options()};
  SimpleLock whole_{client(), "whole", options()};
  SimpleLock manual_{client(), "manual", options()};
  SimpleLock short_{client(), "short", Short()};
  ReentrantLock reentrant_{client(), "reentrant", options()};
  ReentrantReadWriteLock read_{client(), "read", options()};
  ReentrantReadWriteLock write_{client(), "write", options()};
  MultiLock several_{client(), {"{several} 1", "{several} 2"}};
  Semaphore my_slots_{client(), "slots", 1};
  CountDownLatch my_latch_{client(), "latch", 1'000'000};
  SimpleLock idle_{client(), "idle", options()};
  Permit owners_permit_;
  Permit permit_;
  absl::StatusOr<Permit> slot_ = absl::UnknownError("it waits");
  absl::StatusOr<bool> opened_ = absl::UnknownError("it waits");
};

// Waits for locks of a quorum, and holds others.
class VictimOfQuorum : public Victim {
 public:
  VictimOfQuorum(QuorumGroup& servers, const std::string& url, absl::Duration keep)
      : Victim(url, keep), servers_(servers) {
    for (const char* name : {"simple", "whole", "manual"})
      OwnerHas(RedLock(owner(), name).Acquire());
    OwnerHas(RedLock(owner(), "short", {.lease = Short().lease}).Acquire());
    Holds(RedLock(client(), "shared").Acquire());
    Holds(RedLock(client(), "held first").Acquire({.lease = absl::Minutes(5)}));
    { const std::scoped_lock used(idle_); }
    simple_.AcquireAsync({.stop = stop()}, Waiter());
    whole_.AcquireAsync({.whole_lease = true, .stop = stop()}, Waiter());
    manual_.AcquireAsync({.lease = absl::Seconds(60), .stop = stop()}, Waiter());
    short_.AcquireAsync({.stop = stop()}, Waiter());
    AwaitWaiting();
  }
  ~VictimOfQuorum() override { EndWaits(); }

  std::vector<std::string> Names() const override {
    return {"simple",     "whole", "manual",          "short",  "shared",
            "held first", "idle",  "{simple} passed", "nothing"};
  }
  std::vector<std::string> Awaited() const override { return {"simple", "whole", "manual"}; }
  void Live() override {
    PassOn<RedLock>();
    { const std::scoped_lock used(idle_); }
  }
  // Two servers of three are a majority: even if one is stopped, messages of the two others arrive.
  void AwaitMessages() override {
    for (const size_t without : {0, 1}) {
      servers_[without].Stop();
      absl::StatusOr<Lease> after;
      HandOver<RedLock>(absl::StrCat("behind all ", without), after);
      servers_[without].Continue();
    }
  }

 private:
  QuorumGroup& servers_;
  RedLock simple_{client(), "simple"};
  RedLock whole_{client(), "whole"};
  RedLock manual_{client(), "manual"};
  RedLock short_{client(), "short", {.lease = Short().lease}};
  RedLock idle_{client(), "idle"};
};

enum class ServerGroup { kServer, kCluster, kQuorum };

// A neighbour publishes on the victim's channels; in a cluster, these are one per slot.
class Neighbour {
 public:
  Neighbour(RedisServer& server, const Victim& victim, bool in_cluster)
      : connection_(LogIn(server)),
        spy_(LogIn(server)),
        victim_(victim.id()),
        names_(victim.Names()),
        in_cluster_(in_cluster) {
    std::set<std::string> channels;
    const std::vector<std::string> awaited = victim.Awaited();
    for (const std::string& name : awaited) channels.insert(ChannelOf(name));
    channels_.assign(channels.begin(), channels.end());
    EXPECT_EQ(channels_.size(), in_cluster ? awaited.size() : 1U);
    for (const std::string& channel : channels_) {
      EXPECT_TRUE(Await([&] {
        const char* const count = in_cluster ? "SHARDNUMSUB" : "NUMSUB";
        const redis::Reply subscribers = server.Command({"PUBSUB", count, channel});
        return subscribers.elements.size() == 2 && subscribers.elements[1].integer == 1;
      })) << channel;
    }
  }

  // A lock that both use reveals an id of the victim.
  void ReadShared() {
    const std::string shared = connection_.Command({"GET", "shared"}).text;
    ids_.push_back(shared.substr(0, shared.find(' ')));
    uint64_t number = 0;
    const std::string digits = shared.substr(33, shared.find_first_of("k ", 33) - 33);
    EXPECT_TRUE(absl::SimpleAtoi(digits, &number)) << shared;
    for (uint64_t step = 1; step <= 100; ++step) {
      for (const uint64_t next : {number + step, number - step, number + 7919 * step}) {
        ids_.push_back(absl::StrCat(victim_, ":", next));
      }
    }
  }
  // Subscribes during the event, and sends each id that it receives, in every kind of message.
  template <class Event>
  void ListenTo(Event&& event) {
    for (const std::string& channel : channels_) {
      EXPECT_FALSE(spy_.Command({in_cluster_ ? "SSUBSCRIBE" : "SUBSCRIBE", channel}).is_error());
    }
    event();
    EXPECT_TRUE(spy_.Send({in_cluster_ ? "SUNSUBSCRIBE" : "UNSUBSCRIBE"}));
    std::set<std::string> learnt;
    for (size_t left = channels_.size(); left > 0;) {
      const redis::Reply message = spy_.Receive();
      ASSERT_EQ(message.elements.size(), 3U) << message.DebugString();
      if (message.elements[0].text.ends_with("unsubscribe")) --left;
      const std::vector<std::string> words = absl::StrSplit(message.elements[2].text, ' ');
      if (words.size() > 1 && words[1].starts_with(victim_)) learnt.insert(words[1]);
    }
    learnt_ += learnt.size();
    for (const std::string& id : learnt) {
      ids_.push_back(id);
      for (const std::string& name : names_) {
        for (const char* attempt : {"1", "2", "3"}) {
          Send(absl::StrCat("grant ", id, " ", attempt, " ", kTokens[2], " 9000000 0 "), name);
        }
        SendBareWords(id, name);
      }
    }
    Flush();
  }
  // Sends every id that it can guess, with every name.
  void SendDirected() {
    for (int i = 0; i < 600; ++i) {
      ids_.push_back(absl::StrCat(victim_, ":", i / 10 * 7919 + i % 10));
    }
    for (const std::string& id : ids_) {
      for (const std::string& name : names_) {
        for (const char* cacheable : {"", "k"}) {
          Send(absl::StrCat("grant ", id, cacheable, " 1 18446744073709551615 987654321 0 "), name);
          Send(absl::StrCat("grant ", id, cacheable, " 1 5 987654321 0 "), name);
        }
        SendBareWords(id, name);
      }
    }
    Flush();
  }
  void SendRandom(int count) {
    static const std::vector<std::string> kWords = {"grant", "grant",  "grant", "forced", "told",
                                                    "look",  "wanted", "tried", "junk",   "vote"};
    static const std::vector<std::string> kClaims = {
        "0", "1", "2000", "30000", "987654321", "9223372036854775807", "-1"};
    for (int i = 0; i < count; ++i) {
      const std::string id = Any(2) == 0 ? absl::StrCat(victim_, ":", random_()) : Any(ids_);
      std::string text = absl::StrCat(Any(kWords), " ", id, Any(4) == 0 ? "k " : " ");
      absl::StrAppend(&text, Any(5), " ", Any(kTokens), " ", Any(kClaims), " ", Any(2), " ");
      if (Any(10) == 0) text[Any(text.size())] = static_cast<char>(random_());
      Send(text, Any(names_));
    }
    Flush();
  }
  int sent() const { return sent_; }
  size_t learnt() const { return learnt_; }

 private:
  static inline const std::vector<std::string> kTokens = {
      "0", "1", "1795227594499240", "9000000000000000", "18446744073709551615"};
  static RawConnection LogIn(RedisServer& server) {
    RawConnection connection = RawConnection::ToPort(server.port());
    EXPECT_EQ(connection.Command({"AUTH", "neighbour", "pw"}).text, "OK");
    return connection;
  }
  uint64_t Any(uint64_t most) { return random_() % most; }
  const std::string& Any(const std::vector<std::string>& list) { return list[Any(list.size())]; }
  std::string ChannelOf(const std::string& name) const {
    return absl::StrCat("redlatch:", in_cluster_ ? redis::TagOf(redis::SlotOf(name)) + ":" : "",
                        victim_);
  }
  void SendBareWords(const std::string& id, const std::string& name) {
    Send(absl::StrCat("told ", id, " 999999999 999999999999999 "), name);
    for (const char* word : {"forced ", "look ", "vote "}) Send(absl::StrCat(word, id, " "), name);
    for (const char* secret : {" 0123456789abcdef ", " "}) {
      Send(absl::StrCat("vote ", id, " 1 4000000000000000 30000 0 1", secret), name);
    }
  }
  // Publishes on the channel of the lock's slot if the victim is subscribed to it, and otherwise on
  // any other.
  void Send(const std::string& message, const std::string& name) {
    std::string channel = ChannelOf(name);
    if (!std::binary_search(channels_.begin(), channels_.end(), channel)) channel = Any(channels_);
    EXPECT_TRUE(connection_.Send({in_cluster_ ? "SPUBLISH" : "PUBLISH", channel, message + name}));
    ++sent_;
    if (++unanswered_ == 500) Flush();
  }
  void Flush() {
    int64_t receivers = 0;
    for (int i = 0; i < unanswered_; ++i) receivers += connection_.Receive().integer;
    EXPECT_GE(receivers, std::exchange(unanswered_, 0)) << "the victim does not listen";
  }

  RawConnection connection_;
  RawConnection spy_;
  const std::string victim_;
  const std::vector<std::string> names_;
  const bool in_cluster_;
  std::vector<std::string> channels_;  // the victim's subscriptions, sorted
  std::mt19937_64 random_{support::Seed()};
  std::vector<std::string> ids_;
  size_t learnt_ = 0;  // ids in messages of others
  int unanswered_ = 0;
  int sent_ = 0;
};

struct Case {
  ServerGroup server_group;
  absl::Duration keep;
};

struct ForgedMessages : ::testing::TestWithParam<Case> {
  static bool in_cluster() { return GetParam().server_group == ServerGroup::kCluster; }
  static bool of_quorum() { return GetParam().server_group == ServerGroup::kQuorum; }

  // The neighbour has these permissions; in a cluster, those for its channels.
  void Start() {
    const std::string s = in_cluster() ? "s" : "";
    const std::string rights = absl::StrCat(
        "user neighbour on >pw ~shared* ~redlatch:2:{shared* resetchannels &redlatch:* -@all +get "
        "+",
        s, "publish +", s, "subscribe +", s, "unsubscribe");
    const support::RedisServerOptions options = {
        .acl = {"user app on >pw ~* &* +@all", rights},
        .config = {"client-output-buffer-limit pubsub 0 0 0"}};
    if (of_quorum()) {
      quorum_ = std::make_unique<QuorumGroup>(3, options);
      std::vector<std::string> urls;
      for (size_t i = 0; i < 3; ++i) urls.push_back(UrlOf((*quorum_)[i]));
      victim_ = std::make_unique<VictimOfQuorum>(
          *quorum_, absl::StrCat("redlock:", absl::StrJoin(urls, ",")), GetParam().keep);
      for (size_t i = 0; i < 3; ++i) neighbours_.emplace_back((*quorum_)[i], *victim_, false);
    } else {
      server_ = in_cluster() ? support::StartClusterOfOne(options) : RedisServer::Start(options);
      victim_ = std::make_unique<VictimOfEachKind>(UrlOf(*server_), GetParam().keep);
      neighbours_.emplace_back(*server_, *victim_, in_cluster());
    }
  }
  static std::string UrlOf(const RedisServer& server) {
    return absl::StrCat(in_cluster() ? "redis-cluster" : "redis",
                        "://app:pw@127.0.0.1:", server.port());
  }
  // At each server of a quorum.
  void SendRandom(int count) {
    for (Neighbour& each : neighbours_) {
      each.SendRandom(std::max<int>(1, count / static_cast<int>(neighbours_.size())));
    }
  }
  // Subscribes at all servers while the victim continues.
  void ListenFrom(size_t i) {
    if (i == neighbours_.size()) return victim_->Live();
    neighbours_[i].ListenTo([&] { ListenFrom(i + 1); });
  }
  void ExpectNothingChanged() {
    victim_->AwaitMessages();
    victim_->ExpectNothingChanged();
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<QuorumGroup> quorum_;
  std::unique_ptr<Victim> victim_;
  std::deque<Neighbour> neighbours_;
};

TEST_P(ForgedMessages, ChangeNothing) {
  Start();
  for (Neighbour& each : neighbours_) {
    each.ReadShared();
    each.SendDirected();
  }
  ExpectNothingChanged();
  SendRandom(support::FullBars() ? 100'000 : support::Scaled(20'000));
  ExpectNothingChanged();
  for (int i = 0; i < 20; ++i) {
    ListenFrom(0);
    SendRandom(support::FullBars() ? 5'000 : support::Scaled(500));
    if (of_quorum()) ExpectNothingChanged();
  }
  for (const Neighbour& each : neighbours_) EXPECT_GT(each.learnt(), 0U);
  ExpectNothingChanged();
  victim_->ExpectAllGranted();
  int sent = 0;
  for (const Neighbour& each : neighbours_) sent += each.sent();
  RecordProperty("messages", sent);
}

constexpr Case kCases[] = {{ServerGroup::kServer, absl::ZeroDuration()},
                           {ServerGroup::kServer, absl::Seconds(20)},
                           {ServerGroup::kCluster, absl::ZeroDuration()},
                           {ServerGroup::kCluster, absl::Seconds(20)},
                           {ServerGroup::kQuorum, absl::ZeroDuration()}};

std::string NameOf(const ::testing::TestParamInfo<Case>& its) {
  constexpr const char* kOf[] = {"Server", "Cluster", "Quorum"};
  return absl::StrCat(kOf[static_cast<int>(its.param.server_group)],
                      its.param.keep > absl::ZeroDuration() ? "Cached" : "");
}

INSTANTIATE_TEST_SUITE_P(Of, ForgedMessages, ::testing::ValuesIn(kCases), NameOf);

}  // namespace
}  // namespace redlatch
