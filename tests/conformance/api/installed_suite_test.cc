// The suite for users, redlatch/conformance.h: every class passes it, and broken classes fail.
#include <stdexcept>

#include "redlatch/conformance.h"
#include "redlatch/lua_script.h"
#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

class InstalledSuite : public Conformance {};
INSTANTIATE_CONFORMANCE(InstalledSuite, OverTcp(LockCases()));

TEST_P(InstalledSuite, PassesForEveryKind) {
  const absl::Status passed = CheckConformance(
      {.make = [](const Client& client, std::string_view name,
                  LockOptions options) { return GetParam().kind.make(client, name, options); },
       .url = url(),
       .lease = kLease,
       .tokens = GetParam().kind.has_tokens(),
       .queue = GetParam().kind.has_queue()});
  EXPECT_TRUE(passed.ok()) << passed;
}

// Grants every request.
class OpenDoor final : public RedisLockBase {
 public:
  OpenDoor(Client client, std::string_view name, LockOptions options)
      : RedisLockBase(std::move(client), name, std::move(options)) {}

 private:
  LockScripts Scripts() const override {
    return {.acquire = {.name = "open/acquire",
                        .body = "local t = redis.call('TIME')\n"
                                "return string.format('granted %.0f ', t[1] * 1e6 + t[2]) .. "
                                "ARGV[2] .. ' 0'\n"},
            .release = {.name = "open/release", .body = "return 'released'\n"},
            .renew = {.name = "open/renew", .body = "return 'held'\n"},
            .cancel = {.name = "open/cancel", .body = "return 'left'\n"},
            .inspect = {.name = "open/inspect", .body = "-- include: simple/inspect\n"},
            .force_release = {.name = "open/force", .body = "-- include: simple/force_release\n"}};
  }
  LockTraits Traits() const override { return {.kind = "open"}; }
};

template <class Lock>
absl::Status Check() {
  const auto server = support::RedisServer::Start();
  const auto make = [](const Client& client, std::string_view name, LockOptions options) {
    return std::make_unique<Lock>(client, name, std::move(options));
  };
  return CheckConformance({.make = make, .url = server->url()});
}

TEST(InstalledSuiteItself, FailsForLockThatDoesNotExclude) {
  const absl::Status passed = Check<OpenDoor>();
  EXPECT_TRUE(absl::IsInternal(passed)) << passed;
}

TEST(InstalledSuiteItself, FailsForLockThatThrows) {
  const auto server = support::RedisServer::Start();
  // The check that uses lock() gets an invalid lease.
  const auto make = [](const Client& client, std::string_view name, LockOptions options) {
    if (name.ends_with("threads")) options.lease = absl::ZeroDuration();
    return std::make_unique<SimpleLock>(client, name, std::move(options));
  };
  const absl::Status passed = CheckConformance({.make = make, .url = server->url()});
  EXPECT_TRUE(absl::IsInternal(passed)) << passed;
  EXPECT_THAT(passed.message(), ::testing::HasSubstr("lock() threw"));
}

}  // namespace
}  // namespace redlatch::conformance
