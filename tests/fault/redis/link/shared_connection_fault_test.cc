// A bar: a faulty network, 64 threads, 10,000 commands each. Every caller gets its own reply, or
// an error, by its deadline and 50 ms more; nobody hangs, and nobody gets another's reply.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/base/parker.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/punctuality.h"
#include "tests/support/test_scale.h"

namespace redlatch::redis {
namespace {

using support::Direction;
using support::Scope;
using support::TcpProxy;

constexpr int kThreads = 64;
constexpr int kCommands = 10'000;
constexpr absl::Duration kWait = absl::Milliseconds(150);
constexpr absl::Duration kPatience = absl::Seconds(60);

struct Fault {
  const char* name;
  // Does it once; it lasts until the next time, or until the connection has mended it.
  void (*inject)(TcpProxy& proxy, std::minstd_rand& random);
  absl::Duration pause;  // between two
  bool breaks;           // the connection
};

Direction Either(std::minstd_rand& random) {
  return random() % 2 == 0 ? Direction::kToServer : Direction::kToClient;
}

constexpr Fault kFaults[] = {
    {.name = "Delay",
     .inject =
         [](TcpProxy& proxy, std::minstd_rand& random) {
           const bool long_one = random() % 4 == 0;
           proxy.Delay(Either(random),
                       long_one ? absl::Milliseconds(random() % 10) : absl::ZeroDuration());
         },
     .pause = absl::Milliseconds(5),
     .breaks = false},
    {.name = "Reset",
     .inject = [](TcpProxy& proxy, std::minstd_rand&) { proxy.ResetAll(); },
     .pause = absl::Milliseconds(20),
     .breaks = true},
    {.name = "Close",
     .inject = [](TcpProxy& proxy, std::minstd_rand&) { proxy.CloseAll(); },
     .pause = absl::Milliseconds(20),
     .breaks = true},
    {.name = "Blackhole",
     .inject = [](TcpProxy& proxy,
                  std::minstd_rand& random) { proxy.Drop(Either(random), Scope::kExisting); },
     .pause = absl::Milliseconds(700),
     .breaks = true},
    {.name = "CutMidReply",
     .inject =
         [](TcpProxy& proxy, std::minstd_rand& random) {
           proxy.CutAfter(Direction::kToClient, static_cast<int64_t>(random() % 3000));
         },
     .pause = absl::Milliseconds(20),
     .breaks = true},
    {.name = "DroppedReply",
     // Or disarms it: else handshakes might lose theirs for ever, each in its turn.
     .inject = [](TcpProxy& proxy,
                  std::minstd_rand& random) { proxy.DropReplies(random() % 2 == 0 ? 1 : 0); },
     .pause = absl::Milliseconds(350),
     .breaks = true},
};

// What became of the calls.
struct Tally {
  std::atomic<int64_t> own{0};
  std::atomic<int64_t> others{0};
  std::atomic<int64_t> unsent{0};
  std::atomic<int64_t> unknown{0};
  std::atomic<int64_t> wrong_code{0};
  std::atomic<int64_t> slow{0};  // 5 ms and more
};

class SharedConnectionFaultTest : public ChannelFixture,
                                  public ::testing::WithParamInterface<Fault> {
 protected:
  static SharedConnectionOptions Options() {
    SharedConnectionOptions options;
    options.stall_timeout = absl::Milliseconds(100);
    options.longest_backoff = absl::Milliseconds(20);  // else most of the time nothing happens
    return options;
  }

  void Call(const std::string& unique) {
    const base::Instant begun = base::Now();
    const absl::StatusOr<Reply> reply = connection_.Call({"ECHO", unique}, begun + kWait);
    punctuality_.Note(begun + kWait);
    if (base::Now() - begun >= absl::Milliseconds(5)) ++tally_.slow;
    if (reply.ok()) {
      ++(reply->text == unique ? tally_.own : tally_.others);
      return;
    }
    if (!absl::IsUnavailable(reply.status())) ++tally_.wrong_code;
    ++(MayHaveExecuted(reply.status()) ? tally_.unknown : tally_.unsent);
  }

  // Whether some call met a fault.
  bool Felt() const {
    if (!GetParam().breaks) return tally_.slow > 0;
    return connection_.stats().breaks > 0 && tally_.unknown > 0;
  }

  // Until the calls are done; how often.
  int Inject(const std::atomic<bool>& done) {
    std::minstd_rand random(1);
    int times = 0;
    base::Parker().ParkUntil(In(absl::Milliseconds(10)));
    for (; !done; ++times) {
      GetParam().inject(proxy_, random);
      base::Parker().ParkUntil(In(GetParam().pause));
    }
    return times;
  }

  SharedConnection connection_{UrlOf(proxy_.url()), Options()};
  Punctuality punctuality_;
  Tally tally_;
};

TEST_P(SharedConnectionFaultTest, EveryCallerGetsItsOwnReplyOrAnErrorInTime) {
  const int commands =
      std::min(support::Scaled(kCommands), support::FullBars() ? kCommands : kCommands / 4);
  const base::Instant begun = base::Now();
  std::atomic<bool> done{false};
  int faults = 0;
  std::thread injector([&] { faults = Inject(done); });
  int rounds = 0;
  do {  // a fast machine may be through before a fault was felt
    InThreads(kThreads, [&](int thread) {
      for (int i = 0; i < commands; ++i) Call(absl::StrCat(thread, ":", rounds, ":", i));
    });
    ++rounds;
  } while (!Felt() && base::Now() - begun < kPatience);
  const absl::Duration took = base::Now() - begun;
  done = true;
  injector.join();

  EXPECT_EQ(tally_.others, 0) << "another's reply";
  EXPECT_EQ(tally_.wrong_code, 0);
  EXPECT_TRUE(punctuality_.Within(kGrace));
  const int64_t calls = int64_t{kThreads} * commands * rounds;
  EXPECT_EQ(tally_.own + tally_.unsent + tally_.unknown, calls);
  EXPECT_GT(tally_.own, calls / 2) << "the faults leave too little to be said of replies";
  EXPECT_GT(faults, 0);
  const SharedConnection::Stats stats = connection_.stats();
  if (GetParam().breaks) {
    EXPECT_GT(stats.breaks, 0);
    EXPECT_GT(tally_.unknown, 0);
  } else {
    EXPECT_GT(tally_.slow, 0);
  }
  proxy_.Heal();
  EXPECT_TRUE(Await([&] { return Echo(connection_, "healed") == "healed"; }));
  std::puts(absl::StrCat(GetParam().name, ": ", faults, " faults in ", absl::FormatDuration(took),
                         ", ", stats.breaks, " breaks; ", calls, " calls: ", tally_.own.load(),
                         " own replies, ", tally_.unknown.load(), " unknown, ",
                         tally_.unsent.load(), " never sent; ",
                         punctuality_.Within(kGrace).message())
                .c_str());
}

INSTANTIATE_TEST_SUITE_P(Faults, SharedConnectionFaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

}  // namespace
}  // namespace redlatch::redis
