// A node of a quorum that does what a test says.
#ifndef REDLATCH_TESTS_UNIT_QUORUM_FAKE_NODE_H_
#define REDLATCH_TESTS_UNIT_QUORUM_FAKE_NODE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::quorum {

struct FakeNodeEvents {
  // Each returns kUnavailable if the node is down.
  std::function<absl::Status()> connect = [] { return absl::UnavailableError("it is down"); };
  std::function<absl::Status(std::string_view key)> listen = [](std::string_view) {
    return absl::UnavailableError("it is down");
  };
  std::function<absl::StatusOr<redis::Reply>(const redis::ScriptCall&)> run =
      [](const redis::ScriptCall&) { return absl::UnavailableError("it is down"); };
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
    in_flight.results[0] = on_.run(call);
    std::exchange(in_flight.done, nullptr)();
    return absl::OkStatus();
  }
  void BeginPoll(std::vector<redis::Transport::Polled>&) override {}
  redis::Subscription subscription(std::string_view) const override { return {}; }
  absl::Status Subscribe(std::string_view key, base::Instant, const std::stop_token&) override {
    return on_.listen(key);
  }
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return parker.ParkUntil(deadline);
  }
  void NoteSign(std::string_view, redis::SubscriptionSign, base::Instant) override {}
  Realigned Realign() override { return {}; }
  void Stop() override {}

 private:
  const FakeNodeEvents on_;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_TESTS_UNIT_QUORUM_FAKE_NODE_H_
