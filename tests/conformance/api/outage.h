// A server that hangs, is down or is not there yet.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_OUTAGE_H_
#define REDLATCH_TESTS_CONFORMANCE_API_OUTAGE_H_

#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {

enum class How : uint8_t { kHangs, kIsDown };

// The server hangs, or is gone, in this scope.
class Outage {
 public:
  Outage(Servers& server, How how) : server_(server), how_(how) {
    how == How::kHangs ? server.Stop() : server.Kill();
  }
  ~Outage() { how_ == How::kHangs ? server_.Continue() : server_.Restart(); }
  Outage(const Outage&) = delete;
  Outage& operator=(const Outage&) = delete;

 private:
  Servers& server_;
  const How how_;
};

// Of the clients of these tests.
inline constexpr absl::Duration kTimeout = absl::Milliseconds(200);

// A fixture of the kind of Base, with a server of its own.
template <class Base>
class WithOutages : public Base {
 protected:
  explicit WithOutages(support::RedisServerOptions options = {}) {
    this->UseOwnServer(std::move(options));
  }
  Client NewClient(ClientOptions options = {}) {
    return Base::NewClient("command_timeout=200ms&connect_timeout=200ms", std::move(options));
  }
};

// A call, and how long it may wait; one that may not has the time of a command.
struct TimedCall {
  absl::Duration wait;
  std::function<absl::StatusCode()> call;
};

// Each call says that the server is unreachable: not before its time is over, and no later.
inline void ExpectUnreachable(const std::vector<TimedCall>& calls) {
  const auto ask_in_time = [&] {
    redis::Punctuality punctuality;
    for (const TimedCall& each : calls) {
      const base::Instant deadline = base::Now() + each.wait;
      EXPECT_EQ(each.call(), kUnreachable);
      EXPECT_GE(base::Now(), deadline);
      punctuality.Note(deadline);
    }
    return punctuality.Within(kGrace);
  };
  // A cold program is late for the pages that it has to fetch first.
  (void)ask_in_time();
  EXPECT_TRUE(ask_in_time());
}

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_OUTAGE_H_
