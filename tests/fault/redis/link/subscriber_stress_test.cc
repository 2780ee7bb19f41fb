// Many threads subscribe and unsubscribe while connections break in all ways. What each thread
// asked for last must be what the server has in the end, and nothing is delivered that was
// unsubscribed.
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/raw_connection.h"
#include "tests/support/subscriber_test_fixture.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_scale.h"

namespace redlatch::redis {
namespace {

using support::Direction;

class SubscriberStress : public support::SubscriberTestFixture {
 protected:
  static constexpr int kThreads = 6;
  static constexpr int kChannels = 5;  // each thread's own

  static std::string Name(int thread, int channel) {
    return "t" + std::to_string(thread) + ":" + std::to_string(channel);
  }
  static size_t Index(std::string_view name) {
    return static_cast<size_t>((name[1] - '0') * kChannels + (name[3] - '0'));
  }

  // A thread's life. `wanted` gets the channels that it asked for last.
  void Wander(Subscriber& subscriber, int thread, int steps, std::set<std::string>& wanted) {
    std::minstd_rand random(static_cast<unsigned>(thread + 1));
    for (int step = 0; step < steps; ++step) {
      const std::string name = Name(thread, static_cast<int>(random() % kChannels));
      const base::Instant deadline =
          random() % 2 == 0 ? Soon() : In(absl::Microseconds(random() % 2000));
      if (random() % 2 == 0) {
        silent_[Index(name)] = false;
        const absl::Status subscribed = subscriber.Subscribe(name, deadline);
        EXPECT_TRUE(subscribed.ok() || absl::IsUnavailable(subscribed)) << subscribed;
        wanted.insert(name);
      } else {
        const absl::Status unsubscribed = subscriber.Unsubscribe(name, deadline);
        EXPECT_TRUE(unsubscribed.ok() || absl::IsUnavailable(unsubscribed)) << unsubscribed;
        if (unsubscribed.ok()) silent_[Index(name)] = true;
        wanted.erase(name);
      }
      // One that all threads fight for; it is theirs to be told kCancelled.
      if (random() % 8 == 0) (void)subscriber.Subscribe("common", deadline);
      if (random() % 8 == 0) (void)subscriber.Unsubscribe("common", deadline);
    }
  }

  void Publish100(support::RawConnection& connection) {
    for (int i = 0; i < 100; ++i) {
      connection.Send({"PUBLISH", Name(i % kThreads, i / kThreads % kChannels), "m"});
    }
    for (int i = 0; i < 100; ++i) connection.Receive();
  }

  std::set<std::string> ChannelsAtTheServer() {
    std::set<std::string> channels;
    for (const Reply& each : server_->Command({"PUBSUB", "CHANNELS"}).elements) {
      channels.insert(each.text);
    }
    return channels;
  }

  std::atomic<bool> silent_[kThreads * kChannels] = {};
  std::atomic<int> broken_silences_{0};
};

TEST_F(SubscriberStress, WhatWasAskedForLastIsWhatIsLiveInTheEnd) {
  support::TcpProxy proxy({.port = server_->port()});
  SubscriberOptions options = ears_.Options();
  options.first_backoff = absl::Milliseconds(1);
  options.longest_backoff = absl::Milliseconds(10);
  options.on_message = [&, hear = options.on_message](std::string_view channel,
                                                      std::string_view message) {
    if (message != "m") return hear(channel, message);
    if (channel != "common" && silent_[Index(channel)]) ++broken_silences_;
  };
  Subscriber subscriber(*ParseUrl(proxy.url()), options);

  std::atomic<bool> stop{false};
  std::thread publisher([&] {
    auto connection = support::RawConnection::ToPort(server_->port());
    while (!stop) Publish100(connection);
  });
  std::thread breaker([&] {
    for (int i = 0; !stop; ++i) {
      switch (i % 5) {
        case 0:
          KillSubscribers();
          break;
        case 1:
          proxy.ResetAll();
          break;
        case 2:
          proxy.HalfClose(Direction::kToClient);
          break;
        case 3:
          proxy.CutAfter(Direction::kToClient, 137 * (i % 11));
          break;
        default:
          proxy.CloseAll();
      }
      // As soon as it has recovered, or in the midst of that.
      (void)ears_.Await("live again", ears_.Count("live again") + 1, absl::Milliseconds(i % 7));
    }
  });
  std::set<std::string> wanted[kThreads];
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { Wander(subscriber, t, support::Scaled(1500), wanted[t]); });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  breaker.join();
  publisher.join();
  proxy.Heal();

  EXPECT_TRUE(subscriber.Unsubscribe("common", Soon()).ok());
  std::set<std::string> expected;
  for (const auto& each : wanted) expected.insert(each.begin(), each.end());
  const base::Instant patience = Soon();
  while ((ChannelsAtTheServer() != expected || !subscriber.live()) && base::Now() < patience) {
  }
  EXPECT_EQ(ChannelsAtTheServer(), expected);
  EXPECT_TRUE(subscriber.live());
  for (const std::string& name : expected) {
    EXPECT_EQ(Publish(name, "end"), 1);
    EXPECT_TRUE(ears_.Await("message " + name + " end"));
  }
  EXPECT_EQ(broken_silences_, 0);
  EXPECT_GT(subscriber.stats().breaks, 3);
}

}  // namespace
}  // namespace redlatch::redis
