// Nodes of a quorum that do what a test says.
#ifndef REDLATCH_TESTS_UNIT_QUORUM_FAKE_NODE_H_
#define REDLATCH_TESTS_UNIT_QUORUM_FAKE_NODE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lua/scripts.h"
#include "src/quorum/quorum.h"
#include "src/redis/server_group/server_group.h"
#include "tests/support/testing.h"

namespace redlatch::quorum {

struct FakeNodeEvents {
  // Each returns kUnavailable if the node is down.
  std::function<absl::Status()> connect = [] { return absl::UnavailableError("it is down"); };
  std::function<absl::Status(std::string_view key)> listen = [](std::string_view) {
    return absl::UnavailableError("it is down");
  };
  std::function<absl::StatusOr<redis::Reply>(const redis::ScriptCall&)> run =
      [](const redis::ScriptCall&) { return absl::UnavailableError("it is down"); };
  // True: the test ends that call itself.
  std::function<bool(const redis::ScriptCall&, redis::InFlight&)> keeps =
      [](const redis::ScriptCall&, redis::InFlight&) { return false; };
  bool has_slots = false;  // channels are one for each key
};

class FakeNode final : public redis::ServerGroup {
 public:
  explicit FakeNode(FakeNodeEvents events)
      : ServerGroup(/*runner=*/nullptr, /*sharded=*/events.has_slots), on_(std::move(events)) {}

  redis::ServerFacts facts(std::string_view) const override { return {.name = "redis://nowhere"}; }
  absl::Status Connect(base::Instant, std::vector<std::string>&) override { return on_.connect(); }
  void Run(absl::Span<const redis::ScriptCall>, base::Instant,
           absl::Span<absl::StatusOr<redis::Reply>> results, redis::StillWanted) override {
    const absl::Status status = on_.connect();
    for (auto& result : results) {
      result = status.ok() ? absl::StatusOr<redis::Reply>(redis::Reply()) : status;
    }
  }
  bool Drain(base::Instant) override { return true; }
  absl::Status Post(const redis::ScriptCall& call, redis::InFlight& in_flight) override {
    if (absl::Status status = on_.connect(); !status.ok()) return status;
    if (on_.keeps(call, in_flight)) return absl::OkStatus();
    in_flight.results[0] = on_.run(call);
    std::exchange(in_flight.done, nullptr)();
    return absl::OkStatus();
  }
  void AppendConnections(std::vector<std::shared_ptr<redis::Connection>>&) override {}
  redis::Subscription subscription(std::string_view) const override { return {}; }
  absl::Status Subscribe(std::string_view key, base::Instant) override { return on_.listen(key); }
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return parker.ParkUntil(deadline);
  }
  void Stop() override {}

 private:
  const FakeNodeEvents on_;
};

// A lock whose grant 7 a quorum of such nodes decides about.
struct FakeQuorumTest : ::testing::Test {
  FakeQuorumTest() {
    type_.scripts = {.acquire = lua::kQuorumAcquire,
                     .release = lua::kQuorumRelease,
                     .renew = lua::kQuorumRenew,
                     .cancel = lua::kQuorumCancel};
    type_.keys = internal::KeyNames("quorum", {"quorum.turn"});
  }

  template <class What>
  Result Run(internal::QuorumRunner& quorum, What what) const {
    const Request request{.what = std::move(what), .grant = 7, .lease = absl::Seconds(30)};
    Result result;
    const internal::RequestRunner::Item item{.subject = subject_, .request = request};
    quorum.RunBatch(absl::MakeConstSpan(&item, 1), base::Now() + absl::Seconds(10),
                    absl::MakeSpan(&result, 1));
    return result;
  }

  const internal::Identity identity_{.client = "0123456789abcdef0123456789abcdef"};
  const std::string grant_ = identity_.client + ":7";
  const internal::KeySet keys_{"two words"};
  internal::LockType type_;
  const Subject subject_{.identity = identity_,
                         .keys = keys_,
                         .type = type_,
                         .owner = identity_.client,
                         .claim = absl::Seconds(2)};
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_TESTS_UNIT_QUORUM_FAKE_NODE_H_
