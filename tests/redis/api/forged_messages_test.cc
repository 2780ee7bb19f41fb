// A neighbour is another user of the same server, who may publish on `redlatch:*`, perhaps listen
// there too, and shares one lock with a client. It sends that client whatever it likes.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/multi_lock.h"
#include "redlatch/permit.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using support::Await;
using support::RawConnection;
using support::RedisServer;

template <class Held>
Held Must(absl::StatusOr<Held> held) {
  EXPECT_TRUE(held.ok()) << held.status();
  return held.ok() ? *std::move(held) : Held();
}

// An acquisition that waits, and what became of it.
template <class Held>
struct Waiting {
  std::atomic<bool> done{false};
  absl::StatusOr<Held> held = absl::UnknownError("it waits");

  auto Callback() {
    return [this](absl::StatusOr<Held> result) {
      held = std::move(result);
      done = true;
    };
  }
};

// The client that is attacked waits for a lock of each kind, and holds another of each kind.
class Victim {
 public:
  static std::vector<std::string> Names() {
    return {"simple", "whole",  "manual",     "short",     "reentrant",  "read",
            "write",  "slots",  "latch",      "several 1", "held first", "held reentrant",
            "idle",   "shared", "held write", "held read", "held slots", "nothing"};
  }

  Victim(const std::string& url, Client owner, absl::Duration keep)
      : owner_(std::move(owner)), client_(support::Connect(url)) {
    options_.keep = keep;
    for (const char* name : {"simple", "whole", "manual", "several 1"}) {
      owners_.push_back(Must(SimpleLock(owner_, name).Acquire()));
    }
    owners_.push_back(Must(SimpleLock(owner_, "short", Short()).Acquire()));
    owners_.push_back(Must(ReentrantLock(owner_, "reentrant").Acquire()));
    owners_.push_back(Must(ReentrantReadWriteLock(owner_, "read").AcquireWrite()));
    owners_.push_back(Must(ReentrantReadWriteLock(owner_, "write").AcquireRead()));
    owners_permit_ = Must(slots_.Acquire());
    held_.push_back(Must(SimpleLock(client_, "shared", options_).Acquire()));
    held_.push_back(Must(ReentrantLock(client_, "held reentrant", options_).Acquire()));
    held_.push_back(Must(ReentrantReadWriteLock(client_, "held read", options_).AcquireRead()));
    held_.push_back(Must(ReentrantReadWriteLock(client_, "held write", options_).AcquireWrite()));
    held_.push_back(Must(MultiLock(client_, {"held first", "held second"}).Acquire()));
    permit_ = Must(Semaphore(client_, "held slots", 1).Acquire());
    { const std::scoped_lock used(idle_); }
    const std::stop_token stop = stop_.get_token();
    simple_.AcquireAsync({.stop = stop}, Waiter());
    whole_.AcquireAsync({.whole_lease = true, .stop = stop}, Waiter());
    manual_.AcquireAsync({.lease = absl::Seconds(60), .stop = stop}, Waiter());
    short_.AcquireAsync({.stop = stop}, Waiter());
    reentrant_.AcquireAsync({.stop = stop}, Waiter());
    read_.AcquireReadAsync({.stop = stop}, Waiter());
    write_.AcquireWriteAsync({.stop = stop}, Waiter());
    several_.AcquireAsync({.stop = stop}, Waiter());
    my_slots_.AcquireAsync(1, {.stop = stop}, slot_.Callback());
    my_latch_.WaitAsync({.stop = stop}, [this](const absl::Status& status) {
      opened_.held = status.ok() ? absl::StatusOr<bool>(true) : status;
      opened_.done = true;
    });
    EXPECT_TRUE(AwaitWaiting(10));
  }
  ~Victim() {
    stop_.request_stop();
    EXPECT_TRUE(Await([&] { return Done() == 10; }));
  }

  std::string id() const { return client_.Stats().id; }

  // What the neighbour has published so far was heard when this message, behind it, was.
  void HearAll() {
    SimpleLock theirs(owner_, "behind all");
    SimpleLock mine(client_, "behind all");
    Lease before = Must(theirs.Acquire());
    Waiting<Lease> after;
    mine.AcquireAsync({}, after.Callback());
    EXPECT_TRUE(AwaitWaiting(11));
    EXPECT_TRUE(before.Release().ok());
    EXPECT_TRUE(Await([&] { return after.done.load(); }));
    EXPECT_TRUE(after.held.ok());
  }
  void ExpectNothingChanged() {
    EXPECT_EQ(Done(), 0) << "a message has granted what it cannot, or has ended a wait";
    for (const Lease& lease : held_) EXPECT_TRUE(lease.valid());
    EXPECT_TRUE(permit_.valid());
    EXPECT_EQ(client_.Stats().all.lost, 0);
  }
  // By right it gets all that it waits for, with tokens that are the server's.
  void ExpectAllGranted() {
    owners_.clear();
    EXPECT_TRUE(owners_permit_.Release().ok());
    latch_.count_down(counts_to_go_);
    EXPECT_TRUE(Await([&] { return Done() == 10; }));
    EXPECT_TRUE(slot_.held.ok()) << slot_.held.status();
    EXPECT_TRUE(opened_.held.ok()) << opened_.held.status();
    for (const auto& waiter : waiters_) {
      ASSERT_TRUE(waiter->held.ok()) << waiter->held.status();
      EXPECT_TRUE(waiter->held->valid());
      EXPECT_LE(waiter->held->remaining(), absl::Seconds(60));
      EXPECT_LT(waiter->held->fencing_token().value(), 4'000'000'000'000'000U);
    }
  }
  // What makes the server send messages from which a listener learns ids.
  void Live() {
    latch_.count_down();
    --counts_to_go_;
    { const std::scoped_lock used(idle_); }
    { const std::scoped_lock used(others_idle_); }
    EXPECT_FALSE(SimpleLock(owner_, "several 2").TryAcquire().ok()) << "others wait for it";
  }

 private:
  static LockOptions Short() { return {.lease = absl::Seconds(1)}; }
  RedisLockBase::AcquireCallback Waiter() {
    return waiters_.emplace_back(std::make_unique<Waiting<Lease>>())->Callback();
  }
  bool AwaitWaiting(int64_t count) {
    return Await([&] { return static_cast<int64_t>(client_.Stats().all.waiting) == count; });
  }
  int Done() const {
    int done = (slot_.done ? 1 : 0) + (opened_.done ? 1 : 0);
    for (const auto& waiter : waiters_) done += waiter->done ? 1 : 0;
    return done;
  }

  Client owner_;
  Client client_;
  LockOptions options_;
  std::stop_source stop_;
  CountDownLatch latch_{owner_, "latch", 1'000'000};
  int64_t counts_to_go_ = 1'000'000;
  Semaphore slots_{owner_, "slots", 1};
  SimpleLock others_idle_{owner_, "idle"};
  SimpleLock simple_{client_, "simple", options_};
  SimpleLock whole_{client_, "whole", options_};
  SimpleLock manual_{client_, "manual", options_};
  SimpleLock short_{client_, "short", Short()};
  ReentrantLock reentrant_{client_, "reentrant", options_};
  ReentrantReadWriteLock read_{client_, "read", options_};
  ReentrantReadWriteLock write_{client_, "write", options_};
  MultiLock several_{client_, {"several 1", "several 2"}};
  Semaphore my_slots_{client_, "slots", 1};
  CountDownLatch my_latch_{client_, "latch", 1'000'000};
  SimpleLock idle_{client_, "idle", options_};
  std::vector<Lease> owners_;
  std::vector<Lease> held_;
  Permit owners_permit_;
  Permit permit_;
  std::vector<std::unique_ptr<Waiting<Lease>>> waiters_;
  Waiting<Permit> slot_;
  Waiting<bool> opened_;
};

class Neighbour {
 public:
  Neighbour(RedisServer& server, std::string victim)
      : connection_(LogIn(server)), spy_(LogIn(server)), victim_(std::move(victim)) {}

  // A lock that both use shows an id of the victim's.
  void ReadShared() {
    const std::string shared = connection_.Command({"GET", "shared"}).text;
    ids_.push_back(shared);
    uint64_t number = 0;
    const std::string digits = shared.substr(33, shared.find('k') - 33);
    EXPECT_TRUE(absl::SimpleAtoi(digits, &number)) << shared;
    for (uint64_t step = 1; step <= 100; ++step) {
      for (const uint64_t next : {number + step, number - step, number + 7919 * step}) {
        ids_.push_back(absl::StrCat(victim_, ":", next));
      }
    }
  }
  // Listens while that happens, and sends each id that it hears of as a grant.
  template <class Event>
  void ListenTo(Event&& event) {
    EXPECT_FALSE(spy_.Command({"PSUBSCRIBE", "redlatch:*"}).is_error());
    event();
    EXPECT_TRUE(spy_.Send({"PUNSUBSCRIBE"}));
    std::vector<std::string> heard;
    for (;;) {
      const redis::Reply message = spy_.Receive();
      ASSERT_FALSE(message.is_error()) << message.DebugString();
      if (message.elements.size() < 4) break;
      const std::vector<std::string> words = absl::StrSplit(message.elements[3].text, ' ');
      if (words.size() > 1 && words[1].starts_with(victim_)) heard.push_back(words[1]);
    }
    heard_ += heard.size();
    for (const std::string& id : heard) {
      ids_.push_back(id);
      for (const char* attempt : {"1", "2", "3"}) {
        for (const std::string& name : Victim::Names()) {
          Send(absl::StrCat("grant ", id, " ", attempt, " ", kTokens[2], " 9000000 0 ", name));
        }
      }
    }
    Flush();
  }
  // Each id that it can think of, with each name.
  void SendDirected() {
    for (int i = 0; i < 600; ++i) {
      ids_.push_back(absl::StrCat(victim_, ":", i / 10 * 7919 + i % 10));
    }
    for (const std::string& id : ids_) {
      for (const std::string& name : Victim::Names()) {
        for (const char* kept : {"", "k"}) {
          Send(absl::StrCat("grant ", id, kept, " 1 18446744073709551615 987654321 0 ", name));
          Send(absl::StrCat("grant ", id, kept, " 1 5 987654321 0 ", name));
        }
        Send(absl::StrCat("told ", id, " 999999999 999999999999999 ", name));
        Send(absl::StrCat("forced ", id, " ", name));
      }
    }
    Flush();
  }
  void SendRandom(int count) {
    static const std::vector<std::string> kWords = {"grant", "grant", "grant",  "forced",
                                                    "told",  "look",  "wanted", "junk"};
    static const std::vector<std::string> kClaims = {
        "0", "1", "2000", "30000", "987654321", "9223372036854775807", "-1"};
    for (int i = 0; i < count; ++i) {
      const std::string id = Any(2) == 0 ? absl::StrCat(victim_, ":", random_()) : Any(ids_);
      std::string text = absl::StrCat(Any(kWords), " ", id, Any(4) == 0 ? "k " : " ");
      absl::StrAppend(&text, Any(5), " ", Any(kTokens), " ", Any(kClaims), " ", Any(2), " ",
                      Any(Victim::Names()));
      if (Any(10) == 0) text[Any(text.size())] = static_cast<char>(random_());
      Send(text);
    }
    Flush();
  }
  int sent() const { return sent_; }
  size_t heard() const { return heard_; }

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
  void Send(const std::string& message) {
    EXPECT_TRUE(connection_.Send({"PUBLISH", "redlatch:" + victim_, message}));
    ++sent_;
    if (++unanswered_ == 500) Flush();
  }
  void Flush() {
    int64_t heard = 0;
    for (int i = 0; i < unanswered_; ++i) heard += connection_.Receive().integer;
    EXPECT_GE(heard, std::exchange(unanswered_, 0)) << "the victim does not listen";
  }

  RawConnection connection_;
  RawConnection spy_;
  const std::string victim_;
  std::mt19937_64 random_{support::Seed()};
  std::vector<std::string> ids_;
  size_t heard_ = 0;  // ids that messages of others named
  int unanswered_ = 0;
  int sent_ = 0;
};

class ForgedMessages : public ::testing::TestWithParam<absl::Duration> {
 protected:
  static constexpr char kRights[] =
      "user neighbour on >pw ~shared* ~redlatch:2:{shared* resetchannels &redlatch:* -@all "
      "+publish +get ";
  void Start(const std::string& more) {
    server_ = RedisServer::Start({.acl = {"user app on >pw ~* &* +@all", kRights + more},
                                  .config = {"client-output-buffer-limit pubsub 0 0 0"}});
    url_ = absl::StrCat("redis://app:pw@127.0.0.1:", server_->port());
  }

  std::unique_ptr<RedisServer> server_;
  std::string url_;
};

TEST_P(ForgedMessages, OfOneWhoMayPublishChangeNothing) {
  Start("");
  Victim victim(url_, support::Connect(url_), GetParam());
  Neighbour neighbour(*server_, victim.id());
  neighbour.ReadShared();
  neighbour.SendDirected();
  victim.HearAll();
  victim.ExpectNothingChanged();
  neighbour.SendRandom(support::Scaled(50'000));
  victim.HearAll();
  victim.ExpectNothingChanged();
  victim.ExpectAllGranted();
  RecordProperty("messages", neighbour.sent());
}

TEST_P(ForgedMessages, OfOneWhoListensTooChangeNothing) {
  Start("+psubscribe +punsubscribe");
  Victim victim(url_, support::Connect(url_), GetParam());
  Neighbour neighbour(*server_, victim.id());
  neighbour.ReadShared();
  for (int i = 0; i < 20; ++i) {
    neighbour.ListenTo([&] { victim.Live(); });
    neighbour.SendRandom(support::Scaled(500));
  }
  EXPECT_GT(neighbour.heard(), 0U);
  victim.HearAll();
  victim.ExpectNothingChanged();
  victim.ExpectAllGranted();
}

INSTANTIATE_TEST_SUITE_P(Keep, ForgedMessages,
                         ::testing::Values(absl::ZeroDuration(), absl::Seconds(20)),
                         [](const auto& keep) {
                           return keep.param > absl::ZeroDuration() ? "on" : "off";
                         });

}  // namespace
}  // namespace redlatch
