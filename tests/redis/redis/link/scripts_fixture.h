// What the tests of the script runner share.
#ifndef REDLATCH_TESTS_REDIS_REDIS_LINK_SCRIPTS_FIXTURE_H_
#define REDLATCH_TESTS_REDIS_REDIS_LINK_SCRIPTS_FIXTURE_H_

#include "src/redis/link/scripts.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/url/url.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {

// A script of a test's own. Not copied: its source points into it.
class OwnScript {
 public:
  // Asks `server` for its SHA-1, and lets it forget the script again.
  OwnScript(RedisServer& server, std::string body)
      : body_(std::move(body)), sha1_(server.Text({"SCRIPT", "LOAD", body_})) {
    server.Command({"SCRIPT", "FLUSH"});
    server.Command({"CONFIG", "RESETSTAT"});
  }
  OwnScript(const OwnScript&) = delete;
  OwnScript& operator=(const OwnScript&) = delete;

  ScriptCall Call(absl::Span<const std::string_view> keys = {},
                  absl::Span<const std::string_view> args = {}) const {
    return {.script = &source_, .keys = keys, .args = args};
  }
  const std::string& sha1() const { return sha1_; }

 private:
  const std::string body_;
  const std::string sha1_;
  const LuaScript source_{.name = "test/script", .body = body_, .sha1 = sha1_};
};

class ScriptsFixture : public ::testing::Test {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  static constexpr std::string_view kCounter[] = {"counter"};
  static constexpr char kCount[] = "return redis.call('INCR', KEYS[1])";

  static base::Instant In(absl::Duration time) { return base::Now() + time; }
  static base::Instant Soon() { return In(kPatience); }
  static std::string Text(const absl::StatusOr<Reply>& reply) {
    return reply.ok() ? reply->DebugString() : reply.status().ToString();
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  SharedConnection connection_{*ParseUrl(server_->url())};
  Scripts scripts_{connection_};
};

}  // namespace redlatch::redis

#endif  // REDLATCH_TESTS_REDIS_REDIS_LINK_SCRIPTS_FIXTURE_H_
