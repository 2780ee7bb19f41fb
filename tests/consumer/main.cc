// What a user's program does first, built against redlatch as a user would.
#include <redlatch/version.h>

#include <cstdio>

#if __has_include(<redlatch/client.h>)
#include <redlatch/client.h>
#include <redlatch/conformance.h>
#include <redlatch/redis_lock_base.h>

#include <memory>
#include <string_view>
#include <utility>

// A lock of the user's own, of redlatch's pieces.
class OwnLock final : public redlatch::RedisLockBase {
 public:
  OwnLock(redlatch::Client client, std::string_view name, redlatch::LockOptions options)
      : RedisLockBase(std::move(client), name, std::move(options)) {}

 private:
  redlatch::LockScripts Scripts() const override {
    return {.acquire = {.name = "own/acquire", .body = "-- include: simple/acquire\n"},
            .release = {.name = "own/release", .body = "-- include: simple/release\n"},
            .renew = {.name = "own/renew", .body = "-- include: simple/renew\n"},
            .cancel = {.name = "own/cancel", .body = "-- include: simple/cancel\n"},
            .inspect = {.name = "own/inspect", .body = "-- include: simple/inspect\n"},
            .force_release = {.name = "own/force", .body = "-- include: simple/force_release\n"}};
  }
  redlatch::LockTraits Traits() const override { return {.kind = "own"}; }
};

static bool OwnLockConforms() {
  const auto make = [](const redlatch::Client& client, std::string_view name,
                       redlatch::LockOptions options) {
    return std::make_unique<OwnLock>(client, name, std::move(options));
  };
  const absl::Status kept = redlatch::CheckConformance({.make = make, .url = "embedded:"});
  std::printf("%s\n", kept.ToString().c_str());
  return kept.ok();
}

static bool RefusesToConnectToNothing() {
  const absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("redis://127.0.0.1:1");
  std::printf("%s\n", client.status().ToString().c_str());
  return absl::IsUnavailable(client.status());
}
#else
static bool RefusesToConnectToNothing() { return true; }
static bool OwnLockConforms() { return true; }
#endif

int main() {
  char headers[32];
  std::snprintf(headers, sizeof headers, "%d.%d.%d", REDLATCH_VERSION_MAJOR, REDLATCH_VERSION_MINOR,
                REDLATCH_VERSION_PATCH);
  if (redlatch::Version() != headers || redlatch::Version() != REDLATCH_VERSION_STRING) return 1;
  return RefusesToConnectToNothing() && OwnLockConforms() ? 0 : 1;
}
