// The suite for users, redlatch/conformance.h: every class passes it, and broken ones do not.
#include <stdexcept>

#include "redlatch/conformance.h"
#include "redlatch/lua_script.h"
#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

class InstalledSuite : public Conformance {};
INSTANTIATE_CONFORMANCE(InstalledSuite, OverTcp(LockCases()));

TEST_P(InstalledSuite, PassesForEveryKind) {
  const absl::Status kept = CheckConformance(
      {.make = [](const Client& client, std::string_view name,
                  LockOptions options) { return GetParam().kind.make(client, name, options); },
       .url = url(),
       .lease = kLease});
  EXPECT_TRUE(kept.ok()) << kept;
}

// Grants everything.
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

TEST(InstalledSuiteItself, FailsForALockThatDoesNotExclude) {
  const absl::Status kept = Check<OpenDoor>();
  EXPECT_TRUE(absl::IsInternal(kept)) << kept;
}

// A simple lock whose lock() fails.
class ThrowingLock final : public RedisLockBase {
 public:
  ThrowingLock(Client client, std::string_view name, LockOptions options)
      : RedisLockBase(std::move(client), name, std::move(options)) {}
  void lock() override { throw std::runtime_error("no lock today"); }

 private:
  LockScripts Scripts() const override {
    return {
        .acquire = {.name = "thrower/acquire", .body = "-- include: simple/acquire\n"},
        .release = {.name = "thrower/release", .body = "-- include: simple/release\n"},
        .renew = {.name = "thrower/renew", .body = "-- include: simple/renew\n"},
        .cancel = {.name = "thrower/cancel", .body = "-- include: simple/cancel\n"},
        .inspect = {.name = "thrower/inspect", .body = "-- include: simple/inspect\n"},
        .force_release = {.name = "thrower/force", .body = "-- include: simple/force_release\n"}};
  }
  LockTraits Traits() const override { return {.kind = "thrower"}; }
};

TEST(InstalledSuiteItself, FailsForALockThatThrows) {
  const absl::Status kept = Check<ThrowingLock>();
  EXPECT_TRUE(absl::IsInternal(kept)) << kept;
  EXPECT_THAT(kept.message(), ::testing::HasSubstr("no lock today"));
}

}  // namespace
}  // namespace redlatch::conformance
