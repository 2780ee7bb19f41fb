// A server that refuses the client for a while when it connects. The command was never sent, so
// nothing is decided.
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kRefusedPatience = absl::Seconds(10);  // a lease is 30 s

class RiskEvents : public Observer {
 public:
  void OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status&) override {
    ++at_risk;
  }
  void OnRecovered(std::string_view, FencingToken) override { ++recovered; }
  void OnLost(const LostLease&) override { ++lost; }

  std::atomic<int> at_risk = 0;
  std::atomic<int> recovered = 0;
  std::atomic<int> lost = 0;
};

class RefusedConnection : public ::testing::Test {
 protected:
  using Commands = std::vector<std::vector<std::string>>;

  void Do(const Commands& commands) {
    for (const auto& each : commands) server_->Do(each);
  }
  void Refuse(const Commands& by) {
    Do(by);
    proxy_.ResetAll();
  }

  const Commands evicts_ = {{"CONFIG", "SET", "maxmemory", "100mb"},
                            {"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}};
  const Commands keeps_ = {{"CONFIG", "SET", "maxmemory-policy", "noeviction"}};
  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  TcpProxy proxy_{{.port = server_->port()}};
  const std::shared_ptr<RiskEvents> events_ = std::make_shared<RiskEvents>();
  const Client client_ = Connect(proxy_.url(), {.observer = events_});
  SimpleLock lock_{client_, "lock", {.lease = absl::Seconds(30)}};
  SimpleLock others_{Connect(server_->url()), "lock"};
};

TEST_F(RefusedConnection, MakesNoReleaseFinal) {
  struct Case {
    const char* says;
    Commands refuse, welcome;
  };
  const Case cases[] = {
      {"NOAUTH",
       {{"CONFIG", "SET", "requirepass", "secret"}},
       {{"CONFIG", "SET", "requirepass", ""}}},
      {"permi",
       {{"ACL", "SETUSER", "default", "-eval", "-evalsha"}},
       {{"ACL", "SETUSER", "default", "+eval", "+evalsha"}}},
      {"max", {{"CONFIG", "SET", "maxclients", "1"}}, {{"CONFIG", "SET", "maxclients", "10000"}}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.says);
    auto lease = Must(lock_.Acquire({.wait = kRefusedPatience}));
    Refuse(each.refuse);
    const absl::Status released = lease.Release();
    EXPECT_THAT(released, IsError(absl::StatusCode::kUnavailable, HasSubstr(each.says)));
    Do(each.welcome);
    EXPECT_TRUE(others_.Acquire({.wait = kRefusedPatience}).ok());
  }
  lock_.lock();
  Refuse(evicts_);
  lock_.unlock();
  Do(keeps_);
  EXPECT_TRUE(others_.Acquire({.wait = kRefusedPatience}).ok());
}

TEST_F(RefusedConnection, EndsNoLiveHold) {
  SimpleLock brief(client_, "brief", {.lease = absl::Seconds(6)});
  auto lease = Must(brief.Acquire());
  Refuse(evicts_);
  ASSERT_TRUE(Await([&] { return events_->at_risk > 0; }, kRefusedPatience));
  EXPECT_TRUE(lease.valid());
  Do(keeps_);
  EXPECT_TRUE(Await([&] { return events_->recovered > 0; }, kRefusedPatience));
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(events_->lost, 0);
  EXPECT_TRUE(lease.Release().ok());
}

}  // namespace
}  // namespace redlatch
