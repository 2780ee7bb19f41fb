#include "src/redis/link/subscriber.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/mutex.h"
#include "tests/support/process_stats.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SubscriberTest : public support::SubscriberTestFixture {};

TEST_F(SubscriberTest, WhatIsPublishedArrives) {
  const auto subscriber = Make(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  EXPECT_TRUE(subscriber->live());
  EXPECT_EQ(Publish("c", "hello"), 1);
  EXPECT_EQ(Publish("another", "nobody hears it"), 0);
  EXPECT_EQ(Publish("c", "again"), 1);
  EXPECT_TRUE(ears_.Await("message c again"));
  EXPECT_THAT(ears_.heard(), ElementsAre("message c hello", "message c again"));
  EXPECT_EQ(subscriber->stats().messages, 2);
}

TEST_F(SubscriberTest, TheUnixSocketAndAPasswordServeToo) {
  const auto locked = support::RedisServer::Start({.password = "p@ss word"});
  const auto subscriber = Make("unix://:p%40ss%20word@" + locked->socket_path());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  EXPECT_EQ(locked->Integer({"PUBLISH", "c", "m"}), 1);
  EXPECT_TRUE(ears_.Await("message c m"));
}

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

TEST_F(SubscriberTest, OkOfSubscribeMeansThatTheServerCountsThisReceiver) {
  const auto subscriber = Make(server_->url());
  for (int i = 0; i < 500; ++i) {
    const std::string channel = std::to_string(i);
    ASSERT_TRUE(subscriber->Subscribe(channel, Soon()).ok());
    ASSERT_EQ(Publish(channel, "m"), 1) << channel;
  }
  EXPECT_TRUE(ears_.Await("message 499 m"));
  EXPECT_EQ(subscriber->stats().messages, 500);
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
  EXPECT_EQ(subscribed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(subscribed.message()), HasSubstr("ulimit -n"));
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

}  // namespace
}  // namespace redlatch::redis
