// What goes wrong in the soak, drawn from a seed.
#ifndef REDLATCH_TESTS_FAULT_SOAK_NEMESIS_H_
#define REDLATCH_TESTS_FAULT_SOAK_NEMESIS_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "src/base/clock.h"
#include "tests/fault/soak/crew.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/history_check/history_event.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::soak {

// What is taken by force: one of so many, by its number.
struct Forceable {
  int locks = kLocks;
  std::function<std::string(int lock)> name = NameOf;
  std::function<absl::Status(const Client&, int lock)> force = [](const Client& client, int lock) {
    return MakeLock(client, lock)->ForceRelease();
  };
};

class Nemesis {
 public:
  Nemesis(uint64_t seed, support::RedisServer& server, Crew& crew, absl::Duration longest_lease,
          Forceable forceable = {})
      : forceable_(std::move(forceable)),
        dice_(seed),
        server_(server),
        crew_(crew),
        longest_lease_(longest_lease),
        client_(*Client::Connect(server.url())) {}

  // Returns when all that was broken is whole again.
  void Rage(absl::Duration time) {
    const base::Instant end = base::Now() + time;
    while (base::Now() < end) {
      Strike();
      Pass(dice_.Between(absl::Milliseconds(10), absl::Milliseconds(200)));
      Mend(base::Now());
    }
    Mend(base::Instant::Infinite());
  }

  const std::string& log() const { return log_; }

 private:
  struct Wound {
    std::string where;
    base::Instant until;
    std::function<void()> mend;
  };

  void Log(std::string_view what) {
    log_ += absl::StrCat(base::Now().nanos() / 1000, " ", std::string(what), "\n");
  }

  bool Whole(std::string_view where) const {
    return std::none_of(wounds_.begin(), wounds_.end(),
                        [&](const Wound& wound) { return wound.where == where; });
  }

  void Mend(base::Instant now) {
    for (size_t i = 0; i < wounds_.size();) {
      if (now < wounds_[i].until) {
        ++i;
        continue;
      }
      const Wound wound = std::move(wounds_[i]);
      wounds_.erase(wounds_.begin() + static_cast<std::ptrdiff_t>(i));
      wound.mend();
      Log(absl::StrCat("mended: ", wound.where));
    }
  }

  void Strike() {
    const int kind = dice_.Below(20);
    if (kind < 3) return StrikeMember();
    if (kind < 13) return StrikeNetwork();
    if (!Whole("server")) return;
    if (kind < 15) return StrikeServer();
    if (kind == 15) return Command({"SCRIPT", "FLUSH"});
    if (kind == 16) return Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    if (kind == 17) return Command({"CLIENT", "KILL", "TYPE", "pubsub"});
    if (kind == 18) Force(dice_.Below(forceable_.locks));
  }

  void StrikeMember() {
    const int victim = dice_.Below(crew_.size());
    const std::string where = absl::StrCat("member ", victim);
    if (!Whole(where)) return;
    if (dice_.OneIn(2)) {
      Log(absl::StrCat("SIGKILL ", where));
      return crew_.Replace(victim);
    }
    Log(absl::StrCat("SIGSTOP ", where));
    crew_.member(victim).Stop();
    wounds_.push_back(
        {where, Until(longest_lease_ * 1.5), [this, victim] { crew_.member(victim).Continue(); }});
  }

  void StrikeServer() {
    if (dice_.OneIn(2)) {
      Log("server: SIGKILL");
      server_.Kill();
      wounds_.push_back({"server", Until(absl::Milliseconds(500)), [this] { server_.Restart(); }});
    } else {
      Log("server: SIGSTOP");
      server_.Stop();
      wounds_.push_back({"server", Until(longest_lease_ * 1.2), [this] { server_.Continue(); }});
    }
  }

  void StrikeNetwork() {
    using support::Direction;
    const int victim = dice_.Below(crew_.proxies());
    const std::string where = absl::StrCat("proxy ", victim);
    if (!Whole(where)) return;
    support::TcpProxy& proxy = crew_.proxy(victim);
    const Direction direction = dice_.OneIn(2) ? Direction::kToServer : Direction::kToClient;
    const std::string_view words = direction == Direction::kToServer ? " to server" : " to client";
    std::string what;
    switch (dice_.Below(8)) {
      case 0:
        what = "delay";
        proxy.Delay(direction, dice_.Between(absl::Milliseconds(1), absl::Milliseconds(400)));
        break;
      case 1:
        what = "hold";
        proxy.Hold(direction);
        break;
      case 2:
        what = "hold what is";
        proxy.Hold(direction, support::Scope::kExisting);
        break;
      case 3:
        what = "drop replies";
        proxy.DropReplies(1 + dice_.Below(4));
        break;
      case 4:
        what = "drop";
        proxy.Drop(direction, support::Scope::kExisting);
        break;
      case 5:
        what = "cut";
        proxy.CutAfter(direction, dice_.Below(300));
        break;
      case 6:
        Log(absl::StrCat("reset all: ", where));
        return proxy.ResetAll();
      default:
        what = "half close";
        proxy.HalfClose(direction);
        break;
    }
    Log(absl::StrCat(what, std::string(words), ": ", where));
    wounds_.push_back({where, Until(longest_lease_), [&proxy] { proxy.Heal(); }});
  }

  void Command(const std::vector<std::string>& words) {
    Log(absl::StrJoin(words, " "));
    server_.Command(words);
  }

  void Force(int lock) {
    Log(absl::StrCat("force ", lock));
    const uint32_t call =
        crew_.notes().Begin({.what = history::What::kForce, .objects = forceable_.name(lock)});
    const absl::Status status = forceable_.force(client_, lock);
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    // What was not answered may be executed somewhat later.
    const base::Instant over =
        base::Now() + (status.ok() ? absl::ZeroDuration() : absl::Seconds(2));
    crew_.notes().Note(call, {.time = over.nanos(), .what = history::What::kOk});
  }

  base::Instant Until(absl::Duration longest) {
    return base::Now() + dice_.Between(absl::Milliseconds(1), longest);
  }

  const Forceable forceable_;
  Dice dice_;
  support::RedisServer& server_;
  Crew& crew_;
  const absl::Duration longest_lease_;
  const Client client_;
  std::vector<Wound> wounds_;
  std::string log_;
};

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_NEMESIS_H_
