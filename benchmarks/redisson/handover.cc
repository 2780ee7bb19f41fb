// How long a waiter sleeps on after an unlock, if Java and C++ share a lock: from the moment before
// unlock() is called until the waiter's lock() has returned. Redisson's own handover, between two
// JVMs, is measured in turn with those between the languages.
//
//   redisson_handover [--samples=N] [--check]
//
// With --check, it fails if a median is more than 1.5 times Redisson's.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "redlatch/client.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/read_write_lock.h"
#include "tests/support/await.h"
#include "tests/support/fatal.h"
#include "tests/support/java_peer.h"
#include "tests/support/redis_server.h"

namespace redlatch::bench {
namespace {

using Clock = std::chrono::steady_clock;
using support::Fatal;
using support::JavaClient;
using support::JavaPeer;
using support::JavaReply;
using support::RedisServer;

constexpr char kName[] = "handed-over";
constexpr int kWarm = 300;  // the JVMs compile meanwhile
constexpr double kBar = 1.5;
// Until a waiter that has subscribed has asked once more, and sleeps.
constexpr absl::Duration kFallAsleep = absl::Milliseconds(3);

// One side of a handover.
class Side {
 public:
  virtual ~Side() = default;
  // Waits for the lock in the background.
  virtual void BeginLock() = 0;
  // When the lock() has returned.
  virtual Clock::time_point EndLock() = 0;
  // Returns the moment before the call.
  virtual Clock::time_point Unlock() = 0;
};

class JavaSide : public Side {
 public:
  JavaSide(const std::string& url, std::string kind)
      : java_(jvm_, url, {.default_size = true}), kind_(std::move(kind)) {}
  void BeginLock() override { pending_ = java_.Send("1", "lock", kind_, kName); }
  Clock::time_point EndLock() override { return Checked(pending_.Get()).ended; }
  Clock::time_point Unlock() override {
    return Checked(java_.Send("1", "unlock", kind_, kName).Get()).began;
  }

 private:
  static JavaReply Checked(JavaReply reply) {
    if (!reply.ok) Fatal("Java: " + reply.value);
    return reply;
  }

  JavaPeer jvm_;
  JavaClient java_;
  const std::string kind_;
  support::PendingReply pending_;
};

// lock() and unlock() are called on one thread, which holds the lock.
class CppSide : public Side {
 public:
  CppSide(const std::string& url, const std::string& kind) {
    absl::StatusOr<Client> client = Client::Connect(url);
    if (!client.ok()) Fatal(client.status().ToString());
    if (kind == "fair") {
      lock_ = std::make_unique<redisson::FairLock>(*client, kName);
    } else if (kind == "write") {
      lock_ = std::make_unique<redisson::ReadWriteLock>(*client, kName);
    } else {
      lock_ = std::make_unique<redisson::Lock>(*client, kName);
    }
  }
  void BeginLock() override {
    unlock_ = {};
    std::future<void> asked = unlock_.get_future();
    std::promise<Clock::time_point> locked;
    locked_ = locked.get_future();
    thread_ = std::async(std::launch::async,
                         [this, asked = std::move(asked), locked = std::move(locked)]() mutable {
                           lock_->lock();
                           locked.set_value(Clock::now());
                           asked.wait();
                           const Clock::time_point before = Clock::now();
                           lock_->unlock();
                           return before;
                         });
  }
  Clock::time_point EndLock() override { return locked_.get(); }
  Clock::time_point Unlock() override {
    unlock_.set_value();
    return thread_.get();
  }

 private:
  std::unique_ptr<RedisLockBase> lock_;
  std::promise<void> unlock_;
  std::future<Clock::time_point> locked_;
  std::future<Clock::time_point> thread_;
};

// Awaits that so many wait for the lock.
void AwaitWaiters(RedisServer& server, const std::string& kind, int64_t count) {
  const auto waits = [&] {
    if (kind == "fair") {
      return server.Integer({"LLEN", absl::StrCat("redisson_lock_queue:{", kName, "}")}) == count;
    }
    const std::string prefix = kind == "write" ? "redisson_rwlock" : "redisson_lock__channel";
    const std::string channel = absl::StrCat(prefix, ":{", kName, "}");
    return server.Do({"PUBSUB", "NUMSUB", channel}).elements.at(1).integer == count;
  };
  if (!support::Await(waits)) Fatal(absl::StrCat(kind, ": not ", count, " waiters"));
}

double HandoverMicros(RedisServer& server, const std::string& kind, Side& holder, Side& waiter) {
  holder.BeginLock();
  holder.EndLock();
  AwaitWaiters(server, kind, 0);
  waiter.BeginLock();
  AwaitWaiters(server, kind, 1);
  support::Sleep(kFallAsleep);
  const Clock::time_point unlocked = holder.Unlock();
  const Clock::time_point locked = waiter.EndLock();
  waiter.Unlock();
  return std::chrono::duration<double, std::micro>(locked - unlocked).count();
}

double Quantile(std::vector<double>& samples, double part) {
  const auto index = static_cast<std::ptrdiff_t>(part * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), samples.begin() + index, samples.end());
  return samples[static_cast<size_t>(index)];
}

// Returns true if the bar is met.
bool Measure(RedisServer& server, const std::string& kind, int count) {
  JavaSide java(server.url(), kind);
  JavaSide other_java(server.url(), kind);
  CppSide cpp(server.url(), kind);
  CppSide other_cpp(server.url(), kind);
  struct Way {
    const char* name;
    Side& holder;
    Side& waiter;
    std::vector<double> samples = {};
  };
  std::array<Way, 4> ways = {Way{"Java to Java", java, other_java}, Way{"Java to C++", java, cpp},
                             Way{"C++ to Java", cpp, java}, Way{"C++ to C++", cpp, other_cpp}};
  for (int i = -kWarm; i < count; ++i) {
    for (Way& way : ways) {
      const double micros = HandoverMicros(server, kind, way.holder, way.waiter);
      if (i >= 0) way.samples.push_back(micros);
    }
  }
  bool met = true;
  const double redissons = Quantile(ways[0].samples, 0.5);
  const double redissons_worst = Quantile(ways[0].samples, 0.99);
  for (Way& way : ways) {
    const double median = Quantile(way.samples, 0.5);
    const double worst = Quantile(way.samples, 0.99);
    std::printf("%-6s %-13s %8.0f us %8.0f us %8.2f %8.2f\n", kind.c_str(), way.name, median, worst,
                median / redissons, worst / redissons_worst);
    met = met && median <= kBar * redissons;
  }
  std::fflush(stdout);
  return met;
}

int Main(const std::vector<absl::string_view>& flags) {
  int count = 500;
  bool check = false;
  for (absl::string_view flag : flags) {
    if (flag == "--check") {
      check = true;
    } else if (!absl::ConsumePrefix(&flag, "--samples=") || !absl::SimpleAtoi(flag, &count) ||
               count < 1) {
      std::fputs("usage: redisson_handover [--samples=N] [--check]\n", stderr);
      return 2;
    }
  }
  if (const std::string missing = JavaPeer::Missing(); !missing.empty()) {
    std::fprintf(stderr, "%s\n", missing.c_str());
    return 1;
  }
  const auto server = RedisServer::Start();
  std::printf("%-6s %-13s %11s %11s %8s %8s\n", "lock", "handover", "median", "p99", "ratio",
              "of p99");
  bool met = true;
  for (const char* kind : {"lock", "fair", "write"}) met &= Measure(*server, kind, count);
  if (check && !met) std::fprintf(stderr, "a median is above %.1f times Redisson's\n", kBar);
  return check && !met ? 1 : 0;
}

}  // namespace
}  // namespace redlatch::bench

int main(int argc, char** argv) { return redlatch::bench::Main({argv + 1, argv + argc}); }
