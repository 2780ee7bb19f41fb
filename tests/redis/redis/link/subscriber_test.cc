#include "src/redis/link/subscriber.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include "src/redis/link/listening_thread.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/slot.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

class SubscriberTest : public support::SubscriberTestFixture {};

TEST_F(SubscriberTest, ChannelsAndMessagesAreAnyBytes) {
  const auto subscriber = Make(server_->url());
  const std::string channels[] = {"", std::string("\0\r\n*3\r\n$7", 9), "\xff\xfe {}:*",
                                  std::string(70'000, 'c')};
  const std::string messages[] = {"", std::string("\r\n\0+OK\r\n", 8), "message",
                                  std::string(300'000, '\0')};
  for (const std::string& channel : channels) {
    ASSERT_TRUE(subscriber->Subscribe(channel, Soon()).ok());
    for (const std::string& message : messages) {
      EXPECT_EQ(Publish(channel, message), 1);
      EXPECT_TRUE(ears_.Await("message " + channel + " " + message));
    }
    ASSERT_TRUE(subscriber->Unsubscribe(channel, Soon()).ok());
    EXPECT_EQ(Publish(channel, "late"), 0);
  }
}

TEST_F(SubscriberTest, NothingOfAChannelIsDeliveredAfterUnsubscribeWhileOthersPublishToIt) {
  const auto subscriber = Make(server_->url());
  std::atomic<bool> stop{false};
  std::thread publisher([&] {
    auto connection = support::RawConnection::ToPort(server_->port());
    while (!stop) EXPECT_FALSE(connection.Command({"PUBLISH", "c", "m"}).is_error());
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
    ears_.Forget();
    EXPECT_TRUE(ears_.Await("message c m"));
    ASSERT_TRUE(subscriber->Unsubscribe("c", Soon()).ok());
    ears_.Forget();
    // The answer to this would come behind any message.
    ASSERT_TRUE(subscriber->Subscribe("d" + std::to_string(i), Soon()).ok());
    EXPECT_THAT(ears_.heard(), IsEmpty());
  }
  stop = true;
  publisher.join();
}

TEST_F(SubscriberTest, HasNeitherThreadNorConnectionBeforeTheFirstSubscribe) {
  EXPECT_EQ(server_->Info("connected_clients"), "1");  // the fixture's own
  const int threads = support::ThreadCount();
  const int descriptors = support::OpenDescriptors();
  auto subscriber = Make(server_->url());
  EXPECT_EQ(support::ThreadCount(), threads);
  EXPECT_EQ(support::OpenDescriptors(), descriptors);
  EXPECT_FALSE(subscriber->live());
  EXPECT_EQ(server_->Info("total_connections_received"), "2");
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  EXPECT_EQ(support::ThreadCount(), threads + 1);
  EXPECT_EQ(server_->Info("total_connections_received"), "3");
  subscriber.reset();
  EXPECT_TRUE(AwaitThreads(threads));
  EXPECT_EQ(support::OpenDescriptors(), descriptors);
  EXPECT_TRUE(server_->AwaitInfo("pubsub_channels", "0"));
}

TEST_F(SubscriberTest, AProcessWithoutDescriptorsIsToldAndServedLater) {
  EXPECT_EQ(Publish("c", "m"), 0);  // connects the fixture
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 3, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto subscriber = Make(server_->url());
  const absl::Status subscribed = subscriber->Subscribe("c", In(absl::Milliseconds(20)));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(subscribed, IsError(absl::StatusCode::kUnavailable, HasSubstr("ulimit -n")));
  EXPECT_TRUE(subscriber->Subscribe("c", Soon()).ok());
}

TEST_F(SubscriberTest, IdleThreadUsesHardlyAnyProcessorTime) {
  base::Mutex mu;
  pthread_t thread = {};
  Subscriber subscriber(*ParseUrl(server_->url()),
                        {.on_message = [&](std::string_view, std::string_view) {
                          const base::MutexLock lock(mu);
                          thread = pthread_self();
                          ears_.Options().on_message("c", "m");
                        }});
  ASSERT_TRUE(subscriber.Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "m"), 1);
  ASSERT_TRUE(ears_.Await("message c m"));
  clockid_t clock = 0;
  {
    const base::MutexLock lock(mu);
    ASSERT_EQ(pthread_getcpuclockid(thread, &clock), 0);
  }
  const auto used = [&] {
    timespec now = {};
    EXPECT_EQ(clock_gettime(clock, &now), 0);
    return absl::DurationFromTimespec(now);
  };
  // It is back in poll() when its clock stands still.
  absl::Duration before;
  do {
    before = used();
    EXPECT_FALSE(ears_.Await("never", 1, absl::Milliseconds(50)));
  } while (used() != before);
  EXPECT_FALSE(ears_.Await("never", 1, absl::Milliseconds(500)));
  // It looks at the clock once in half a second, as the machine may have been suspended.
  EXPECT_LT(used() - before, absl::Milliseconds(1));
}

TEST_F(SubscriberTest, AMessageBeyondTheLimitOfAReplyBreaksOnlyThatConnection) {
  server_->Command({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"});
  const auto subscriber = Make(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  server_->Command({"PUBLISH", "c", std::string(size_t{65} << 20, 'm')});
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_THAT(std::string(ears_.why_down().message()), HasSubstr("limit"));
  EXPECT_EQ(Publish("c", "m"), 1);
  EXPECT_TRUE(ears_.Await("message c m"));
}

// Calls of the subscriber, its thread and the server, met at awkward moments.

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class SubscriberRace : public support::SubscriberTestFixture {
 protected:
  // A subscriber whose callback stays at its first message until it is told to go on.
  std::unique_ptr<Subscriber> MakeSlow(const std::string& url) {
    SubscriberOptions options = ears_.Options();
    options.on_message = [this, hear = options.on_message](std::string_view channel,
                                                           std::string_view message) {
      hear(channel, message);
      if (ears_.heard().size() == 1) go_on_.get_future().wait();
    };
    return std::make_unique<Subscriber>(*ParseUrl(url), std::move(options));
  }

  std::promise<void> go_on_;
};

TEST_F(SubscriberRace, NoUnsubscribeIsOkWhileAMessageOfTheChannelIsBeingDelivered) {
  const auto subscriber = MakeSlow(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "1"), 1);
  ASSERT_EQ(Publish("c", "2"), 1);
  ASSERT_TRUE(ears_.Await("message c 1"));
  const absl::Status first = subscriber->Unsubscribe("c", In(absl::Milliseconds(10)));
  EXPECT_THAT(first, IsError(kUnavailable, HasSubstr(server_->url())));
  // Nor the next: it is unknown no sooner than the server has let it go.
  EXPECT_EQ(subscriber->Unsubscribe("c", In(absl::Milliseconds(10))).code(), kUnavailable);
  go_on_.set_value();
  EXPECT_TRUE(subscriber->Unsubscribe("c", Soon()).ok());
  EXPECT_THAT(ears_.heard(), ElementsAre("message c 1"));
  EXPECT_EQ(Publish("c", "3"), 0);
}

// A host to look up or a server to start cannot be woken from.
TEST_F(SubscriberRace, TheDestructorDoesNotWaitForAServerThatDoesNotStart) {
  EmbeddedHome home;
  WriteScript(home.Aside("redis-server"), "exec sleep 60\n");
  const std::string path = home.Aside("") + ":" + getenv("PATH");
  ScopedEnvironment environment("PATH", path.c_str());
  ScopedEnvironment unnamed("REDLATCH_REDIS_SERVER", nullptr);
  auto subscriber = Make("embedded:" + home.directory() + "?connect_timeout=60s");
  EXPECT_EQ(subscriber->Subscribe("c", In(absl::Milliseconds(100))).code(), kUnavailable);
  const base::Instant begun = base::Now();
  subscriber.reset();
  EXPECT_LT(base::Now() - begun, absl::Seconds(2));
}

// A subscriber may be destroyed at any moment at which no call of it is in progress.

class SubscriberEnd : public support::SubscriberTestFixture {
 protected:
  // That its end takes no time, leaves nothing, and that nothing is heard after it.
  void ExpectToEndAtOnce(std::unique_ptr<Subscriber> subscriber) {
    const base::Instant begun = base::Now();
    subscriber.reset();
    EXPECT_LT(base::Now() - begun, absl::Seconds(1));
    const auto heard = ears_.heard();
    EXPECT_TRUE(server_->AwaitInfo("connected_clients", "1"));  // the fixture's own
    Publish("c", "nobody is there");
    EXPECT_EQ(ears_.heard(), heard);
    EXPECT_TRUE(AwaitThreads(threads_));
    EXPECT_EQ(support::OpenDescriptors(), descriptors_);
  }

  const std::string clients_ = server_->Info("connected_clients");  // connects the fixture
  const int threads_ = support::ThreadCount();
  const int descriptors_ = support::OpenDescriptors();
};

TEST_F(SubscriberEnd, WhileACallbackRunsItWaitsForThat) {
  std::atomic<bool> running{false};
  std::atomic<bool> over{false};
  SubscriberOptions options;
  options.on_message = [&](std::string_view, std::string_view) {
    running = true;
    running.notify_all();
    server_->Text({"DEBUG", "SLEEP", "0.1"});
    over = true;
  };
  auto subscriber = std::make_unique<Subscriber>(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "m"), 1);
  running.wait(false);
  subscriber.reset();
  EXPECT_TRUE(over);
}

TEST_F(SubscriberEnd, AtAnyMomentOfTheFirstMilliseconds) {
  const int rounds = support::Scaled(400);
  for (int i = 0; i < rounds; ++i) {
    auto subscriber = Make(server_->url());
    (void)subscriber->Subscribe("c", In(absl::Microseconds(5 * i)));
    if (i % 3 == 0) KillSubscribers();
    (void)subscriber->Unsubscribe("c", In(absl::Microseconds(i)));
  }
  ExpectToEndAtOnce(nullptr);
}

// What the subscriber makes of a server that does not permit what it asks.

constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;

class SubscriberRefusal : public support::SubscriberTestFixture {
 protected:
  SubscriberRefusal()
      : SubscriberTestFixture(
            {.acl = {"user app on >secret ~* resetchannels &ok* -@all +info +ping +subscribe "
                     "+unsubscribe"}}) {}

  std::string AppUrl() const { return "redis://app:secret@" + server_->url().substr(8); }
  void Acl(const std::vector<std::string>& rules) {
    std::vector<std::string> command = {"ACL", "SETUSER", "app"};
    command.insert(command.end(), rules.begin(), rules.end());
    ASSERT_EQ(server_->Text(command), "OK");
  }
};

TEST_F(SubscriberRefusal, OneChannelThatIsDeniedFailsAtOnceAndAlone) {
  const auto subscriber = Make(AppUrl());
  std::vector<std::thread> threads;
  for (const char* channel : {"ok-1", "denied", "ok-2", "denied", "ok-3"}) {
    threads.emplace_back([&, channel] {
      const base::Instant begun = base::Now();
      const absl::Status subscribed = subscriber->Subscribe(channel, Soon());
      EXPECT_LT(base::Now() - begun, kPatience / 2);
      if (*channel == 'o') {
        EXPECT_TRUE(subscribed.ok()) << subscribed;
      } else {
        EXPECT_THAT(subscribed,
                    IsError(kDenied, AllOf(HasSubstr(server_->url()), HasSubstr("NOPERM"),
                                           HasSubstr("ACL SETUSER"), Not(HasSubstr("secret")))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(subscriber->live());
  EXPECT_EQ(subscriber->stats().breaks, 0);
  EXPECT_EQ(Publish("ok-1", "m"), 1);
  EXPECT_TRUE(ears_.Await("message ok-1 m"));
  EXPECT_THAT(ears_.heard(), ElementsAre("message ok-1 m"));  // nothing for the other callbacks

  EXPECT_EQ(subscriber->Subscribe("denied", Soon()).code(), kDenied);
  Acl({"&denied"});
  EXPECT_TRUE(subscriber->Subscribe("denied", Soon()).ok());
  EXPECT_EQ(Publish("denied", "m"), 1);
  EXPECT_TRUE(ears_.Await("message denied m"));
}

TEST_F(SubscriberRefusal, AWrongPasswordEndsTheWaitAtOnceAndNothingGoesOn) {
  const auto subscriber = Make("redis://app:wr0ng-one@" + server_->url().substr(8));
  for (int i = 1; i <= 2; ++i) {
    const absl::Status subscribed = subscriber->Subscribe("ok", Soon());
    EXPECT_THAT(subscribed,
                IsError(kDenied, AllOf(HasSubstr(server_->url()), HasSubstr("WRONGPASS"),
                                       HasSubstr("in the URL"), Not(HasSubstr("wr0ng-one")))));
    EXPECT_TRUE(ears_.Await("down", i));
  }
  const std::string connections = server_->Info("total_connections_received");
  EXPECT_FALSE(ears_.Await("down", 3, absl::Milliseconds(200)));
  EXPECT_EQ(server_->Info("total_connections_received"), connections);

  Acl({">wr0ng-one"});  // which makes it right
  EXPECT_TRUE(subscriber->Subscribe("ok", Soon()).ok());
}

TEST_F(SubscriberRefusal, APermissionThatIsTakenAwayIsToldAndTheOthersLiveAgain) {
  const auto subscriber = Make(AppUrl());
  for (const char* channel : {"ok-1", "ok-2", "ok-3"}) {
    ASSERT_TRUE(subscriber->Subscribe(channel, Soon()).ok());
  }
  Acl({"resetchannels", "&ok-1", "&ok-3"});  // for which the server closes the connection
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_THAT(ears_.heard(), ElementsAre("down", "refused ok-2", "live again"));
  EXPECT_THAT(ears_.why_refused(), IsError(kDenied, HasSubstr("NOPERM")));
  EXPECT_TRUE(subscriber->live());
  EXPECT_EQ(Publish("ok-3", "m"), 1);
  EXPECT_TRUE(ears_.Await("message ok-3 m"));
  EXPECT_EQ(subscriber->Subscribe("ok-2", Soon()).code(), kDenied);
  EXPECT_EQ(ears_.Count("refused ok-2"), 1);  // who called was told
}

// Connections that break, and servers that come and go, under a subscriber.

class SubscriberFault : public support::SubscriberTestFixture {
 protected:
  static constexpr absl::Duration kPing = absl::Milliseconds(40);
  static constexpr absl::Duration kAnswer = absl::Milliseconds(80);
  static SubscriberOptions Impatient() {
    return {.ping_interval = kPing, .answer_timeout = kAnswer};
  }
  // Live through the proxy, with one channel: "c".
  std::unique_ptr<Subscriber> MakeLive(SubscriberOptions options = {}) {
    auto subscriber = Make(proxy_.url() + "?connect_timeout=500ms", std::move(options));
    EXPECT_TRUE(subscriber->Subscribe("c", Soon()).ok());
    return subscriber;
  }
  void ExpectHealed(int losses = 1) {
    EXPECT_TRUE(ears_.Await("live again", losses));
    EXPECT_TRUE(ArrivesSoon("c"));
  }

  TcpProxy proxy_{{.port = server_->port()}};
};

TEST_F(SubscriberFault, SubscribingWhileTheServerIsDownGoesOnInTheBackground) {
  server_->Kill();
  const auto subscriber = Make(server_->url());
  Punctuality punctuality;
  const base::Instant deadline = In(absl::Milliseconds(100));
  const absl::Status subscribed = subscriber->Subscribe("c", deadline);
  punctuality.Note(deadline);
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(50)));
  EXPECT_THAT(subscribed, IsError(absl::StatusCode::kUnavailable,
                                  AllOf(HasSubstr(server_->url()), HasSubstr("refused"),
                                        HasSubstr("background"))));
  EXPECT_FALSE(subscriber->live());
  EXPECT_GE(ears_.Count("down"), 1);
  EXPECT_EQ(ears_.Count("live again"), 0);
  server_->Restart();
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_TRUE(subscriber->live());
  EXPECT_EQ(Publish("c", "m"), 1);
  EXPECT_TRUE(ears_.Await("message c m"));
  EXPECT_EQ(ears_.Count("live again"), 1);
}

TEST_F(SubscriberFault, AClientThatReadsTooSlowlyIsDroppedAndComesBack) {
  server_->Command({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 64kb 0 0"});
  std::promise<void> go_on;
  SubscriberOptions options = ears_.Options();
  options.on_message = [&, hear = options.on_message](std::string_view channel,
                                                      std::string_view message) {
    if (message == "stay") return go_on.get_future().wait();
    if (message.size() < 100) hear(channel, message);
  };
  Subscriber subscriber(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(subscriber.Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "stay"), 1);
  // What the kernel's buffers hold goes first.
  const std::string filler(1 << 20, '.');
  while (Publish("c", filler) > 0) {
  }
  go_on.set_value();
  ExpectHealed();
  EXPECT_EQ(ears_.heard().front(), "down");
}

TEST_F(SubscriberFault, ASilentConnectionIsNoticedByAPingAndReplaced) {
  for (const Direction lost : {Direction::kToClient, Direction::kToServer}) {
    SCOPED_TRACE(static_cast<int>(lost));
    ears_.Forget();
    const auto subscriber = MakeLive(Impatient());
    const base::Instant begun = base::Now();
    proxy_.Drop(lost, Scope::kExisting);
    EXPECT_TRUE(ears_.Await("down"));
    const absl::Duration noticed = base::Now() - begun;
    EXPECT_GE(noticed, kAnswer);
    EXPECT_LE(noticed, kPing + kAnswer + absl::Milliseconds(500));
    EXPECT_THAT(std::string(ears_.why_down().message()), HasSubstr("no answer within 80ms"));
    ExpectHealed();
    proxy_.Heal();
  }
}

// A server, or whatever else answers at its address, that says what it must not.

using support::FakeServer;

constexpr char kMessage[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";

class SubscriberNonsense : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  static base::Instant Soon() { return base::Now() + kPatience; }

  // Says the parameter at some moment of its first connection, and a message ever after.
  static FakeServer::Answer After(std::string verb) {
    return [verb](const FakeServer::Asked& asked) -> std::optional<std::string> {
      std::optional<std::string> answer = FakeServer::Polite(asked);
      if (asked.connection == 1 && asked.command[0] == verb) answer->append(GetParam());
      if (asked.connection > 1 && asked.command[0] == "SUBSCRIBE") answer->append(kMessage);
      return answer;
    };
  }
  void ExpectOneLoss(FakeServer::Answer answer) {
    FakeServer server(std::move(answer));
    Subscriber subscriber(*ParseUrl(server.url()),
                          ears_.Options({.ping_interval = absl::Milliseconds(200),
                                         .answer_timeout = absl::Milliseconds(200),
                                         .first_backoff = absl::Milliseconds(1)}));
    EXPECT_TRUE(subscriber.Subscribe("c", Soon()).ok());
    EXPECT_TRUE(ears_.Await("message c m"));
    EXPECT_THAT(ears_.heard(), ElementsAre("down", "live again", "message c m"));
    EXPECT_EQ(server.connections(), 2);
    EXPECT_THAT(std::string(ears_.why_down().message()), HasSubstr(server.url()));
    EXPECT_LT(ears_.why_down().message().size(), 1000);
  }

  support::SubscriberEars ears_;
};

TEST_P(SubscriberNonsense, UnaskedCostsTheConnectionAndNoMore) {
  ExpectOneLoss(After("SUBSCRIBE"));
}

TEST_P(SubscriberNonsense, BehindTheHandshakeCostsTheConnectionAndNoMore) {
  ExpectOneLoss(After("HELLO"));
}

INSTANTIATE_TEST_SUITE_P(
    Said, SubscriberNonsense,
    ::testing::Values("+OK\r\n", "+PONG\r\n", ":5\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
                      "HTTP/1.1 400 Bad Request\r\n\r\n", std::string("\0\0\0\0\r\n", 6),
                      "*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", "*1\r\n*1\r\n*1\r\n*0\r\n",
                      "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
                      "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
                      "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\nm\r\n",
                      "%1\r\n+a\r\n:1\r\n", "$99999999999\r\n", "*99999999\r\n:1\r\n",
                      "$1000\r\n" + std::string(1000, 'x') + "\r\n"));

// What a node of a cluster says if the slot of a channel moves while that is being left.
class SubscriberLeaves : public ::testing::TestWithParam<bool> {};

TEST_P(SubscriberLeaves, WhileTheSlotMovesWithoutLosingItsConnection) {
  const std::string moved = absl::StrCat("-MOVED ", SlotOf("{a}"), " 127.0.0.1:1\r\n");
  const std::string asks = absl::StrCat("-ASK ", SlotOf("{a}"), " 127.0.0.1:1\r\n");
  const auto said = [](const std::string& word, const std::string& channel) {
    return absl::StrCat("*3\r\n$", word.size(), "\r\n", word, "\r\n$", channel.size(), "\r\n",
                        channel, "\r\n:1\r\n");
  };
  const bool unasked = GetParam();
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (asked.command[0] == "SSUBSCRIBE") return said("ssubscribe", asked.command[1]);
    if (asked.command[0] != "SUNSUBSCRIBE") return FakeServer::Polite(asked);
    return unasked ? said("sunsubscribe", asked.command[1]) + moved : asks;
  });
  support::SubscriberEars ears;
  Subscriber subscriber(*ParseUrl(server.url()), ears.Options({.sharded = true}));
  const base::Instant soon = base::Now() + absl::Seconds(10);
  EXPECT_TRUE(subscriber.Subscribe("{a}", soon).ok());
  EXPECT_TRUE(subscriber.Unsubscribe("{a}", soon).ok());
  EXPECT_TRUE(subscriber.Subscribe("{b}", soon).ok());
  EXPECT_EQ(server.connections(), 1);
}
INSTANTIATE_TEST_SUITE_P(ToldUnasked, SubscriberLeaves, ::testing::Bool());

// One thread that listens for several subscribers.

class ListeningThreadTest : public support::SubscriberTestFixture {
 protected:
  std::unique_ptr<Subscriber> MakeOneOfSeveral(const std::string& url) {
    return Make(url, {.thread = thread_});
  }

  // Within less than what one that cannot be reached takes.
  void ExpectToHear(const std::string& channel) {
    for (int i = 0; i < 50; ++i) {
      const std::string message = absl::StrCat("quick ", i);
      const base::Instant published = base::Now();
      ASSERT_EQ(Publish(channel, message), 1);
      ASSERT_TRUE(ears_.Await(absl::StrCat("message ", channel, " ", message)));
      slowest_ = std::max(slowest_, base::Now() - published);
    }
  }

  const std::shared_ptr<ListeningThread> thread_ = std::make_shared<ListeningThread>();
  TcpProxy proxy_{{.port = server_->port()}};
  absl::Duration slowest_ = absl::ZeroDuration();
};

TEST_F(ListeningThreadTest, OneThreadReadsForAll) {
  const int threads = support::ThreadCount();
  std::vector<std::unique_ptr<Subscriber>> subscribers;
  for (int i = 0; i < 5; ++i) {
    subscribers.push_back(MakeOneOfSeveral(server_->url()));
    const std::string channel = absl::StrCat("c", i);
    ASSERT_TRUE(subscribers.back()->Subscribe(channel, Soon()).ok());
    ASSERT_EQ(Publish(channel, "m"), 1);
    EXPECT_TRUE(ears_.Await(absl::StrCat("message ", channel, " m")));
  }
  EXPECT_EQ(support::ThreadCount(), threads + 1);
}

TEST_F(ListeningThreadTest, OneThatCannotBeReachedHoldsUpNobody) {
  const auto well = MakeOneOfSeveral(server_->url());
  ASSERT_TRUE(well->Subscribe("c", Soon()).ok());
  for (const Arrival arrival : {Arrival::kIgnore, Arrival::kHang, Arrival::kRefuse}) {
    proxy_.SetArrival(arrival);
    const auto sick = MakeOneOfSeveral(proxy_.url() + "?connect_timeout=30s");
    EXPECT_TRUE(absl::IsUnavailable(sick->Subscribe("sick", In(absl::Milliseconds(50)))));
    ExpectToHear("c");
    ears_.Forget();
  }
  EXPECT_LT(slowest_, absl::Milliseconds(100));
}

TEST_F(ListeningThreadTest, OneThatLeavesHearsNothingMoreAndTheOthersGoOn) {
  const auto stays = MakeOneOfSeveral(server_->url());
  ASSERT_TRUE(stays->Subscribe("c", Soon()).ok());
  for (int i = 0; i < 50; ++i) {
    auto leaves = MakeOneOfSeveral(server_->url());
    ASSERT_TRUE(leaves->Subscribe("leaves", Soon()).ok());
    std::thread publisher([&] { Publish("leaves", "m"); });
    leaves->Stop();
    const size_t heard = ears_.heard().size();
    publisher.join();
    leaves.reset();
    EXPECT_EQ(ears_.heard().size(), heard);
  }
  ExpectToHear("c");
}

}  // namespace
}  // namespace redlatch::redis
