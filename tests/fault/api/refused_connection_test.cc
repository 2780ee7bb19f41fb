// A server that refuses connections for a while. The command was never sent, so nothing is decided.
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kRefusedTimeout = absl::Seconds(10);  // a lease is 30 s

struct RefusedConnection : ::testing::Test {
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
  const Client client_ = Connect(proxy_.url());
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
    auto lease = Must(lock_.Acquire({.wait = kRefusedTimeout}));
    Refuse(each.refuse);
    const absl::Status released = lease.Release();
    EXPECT_THAT(released, IsError(absl::StatusCode::kUnavailable, HasSubstr(each.says)));
    Do(each.welcome);
    EXPECT_TRUE(others_.Acquire({.wait = kRefusedTimeout}).ok());
  }
  lock_.lock();
  Refuse(evicts_);
  lock_.unlock();
  Do(keeps_);
  EXPECT_TRUE(others_.Acquire({.wait = kRefusedTimeout}).ok());
}

}  // namespace
}  // namespace redlatch
