// How a quorum subscribes at nodes that are slow to answer.
#include <mutex>

#include "absl/types/span.h"
#include "src/quorum/quorum.h"
#include "src/redis/deployment/deployment.h"
#include "tests/support/await.h"
#include "tests/support/testing.h"

namespace redlatch::quorum {
namespace {

using redis::Deployment;
using redis::Reply;

// Records what happens at all nodes.
struct Nowhere {
  std::atomic<bool> hangs{true};
  std::mutex mu;
  std::map<std::string, int> listens;  // by key

  int ListensTo(const std::string& key) {
    const std::lock_guard lock(mu);
    return listens[key];
  }
};

// A node that is down: Listen() takes as long as the test wants, and fails.
class DownNode final : public Deployment {
 public:
  explicit DownNode(Nowhere& nowhere) : nowhere_(nowhere) {}

  std::string server(std::string_view) const override { return name_; }
  std::string reign(std::string_view) override { return {}; }
  std::string run_id(std::string_view) override { return {}; }
  absl::Duration grants_alone_for() const override { return absl::ZeroDuration(); }
  absl::Status Connect(base::Instant, std::vector<std::string>&) override { return Down(); }
  absl::StatusOr<Reply> Call(std::string_view, const redis::Command&, base::Instant) override {
    return Down();
  }
  std::vector<std::string> Get(absl::Span<const std::string> keys, base::Instant) override {
    return std::vector<std::string>(keys.size());
  }
  absl::StatusOr<Reply> Run(const redis::ScriptCall&, base::Instant, redis::StillWanted) override {
    return Down();
  }
  void RunBatch(absl::Span<const redis::ScriptCall>, base::Instant,
                absl::Span<absl::StatusOr<Reply>> results) override {
    std::fill(results.begin(), results.end(), Down());
  }
  absl::StatusOr<base::Acks> RunAcked(absl::Span<const redis::ScriptCall>, const base::AcksWanted&,
                                      absl::Duration, base::Instant,
                                      absl::Span<absl::StatusOr<Reply>>) override {
    return Down();
  }
  absl::Status Send(std::string_view, const redis::Command&, Done) override { return Down(); }
  bool Drain(std::string_view, base::Instant) override { return true; }
  bool DrainAll(base::Instant) override { return true; }
  bool MayPost(std::string_view, const LuaScript&) override { return false; }
  absl::Status Post(const redis::ScriptCall&, redis::Exchange&) override { return Down(); }
  redis::Transport::Polled BeginPoll(std::string_view) override { return {}; }
  std::string slot_tag(std::string_view key) const override { return std::string(key); }
  bool listening(std::string_view) const override { return false; }
  absl::Status Listen(std::string_view key, base::Instant, const std::stop_token&) override {
    {
      const std::lock_guard lock(nowhere_.mu);
      ++nowhere_.listens[std::string(key)];
    }
    EXPECT_TRUE(support::Await([this] { return !nowhere_.hangs; }));
    return Down();
  }
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return parker.ParkUntil(deadline);
  }
  bool wants_to_know(std::string_view) const override { return false; }
  void NoteHearing(std::string_view, bool, base::Instant) override {}
  void Doubt(std::string_view, base::Instant, std::optional<base::Instant>) override {}
  Realigned Realign() override { return {}; }
  Stats stats() const override { return {}; }
  void Stop() override {}

 private:
  static absl::Status Down() { return absl::UnavailableError("it is down"); }

  const std::string name_ = "redis://nowhere";
  Nowhere& nowhere_;
};

TEST(QuorumListen, CallsForOneChannelShareAnAttempt) {
  constexpr size_t kNodes = 3;
  Nowhere nowhere;
  Quorum quorum({.name = "redlock:nowhere",
                 .nodes = kNodes,
                 .make = [&](size_t, auto) { return std::make_unique<DownNode>(nowhere); }},
                {.on_message = [](std::string_view) {},
                 .on_reconnected = [] {},
                 .on_hearing = [](bool, std::string_view) {}});
  for (int call = 0; call < 1000; ++call) {
    EXPECT_TRUE(absl::IsUnavailable(quorum.Listen("many", base::Now(), {})));
  }
  EXPECT_TRUE(absl::IsUnavailable(quorum.Listen("last", base::Now(), {})));
  nowhere.hangs = false;
  EXPECT_TRUE(support::Await([&] { return nowhere.ListensTo("last") == kNodes; }));
  EXPECT_LE(nowhere.ListensTo("many"), 2 * static_cast<int>(kNodes));
  // A waiting call gets the reason as soon as all have failed.
  const absl::Status status = quorum.Listen("many", base::Instant::Infinite(), {});
  EXPECT_EQ(status, absl::UnavailableError("it is down"));
}

}  // namespace
}  // namespace redlatch::quorum
