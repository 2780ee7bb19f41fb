#include "src/redis/link/scripts.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/url/url.h"
#include "tests/support/fake_server.h"

namespace redlatch::redis {
namespace {

TEST(Scripts, SendsTheTextOfEachUnknownScriptOfABatch) {
  support::FakeServer server(support::FakeServer::Polite);  // it knows no script by its hash
  SharedConnection connection(*ParseUrl(server.url()));
  const LuaScript script{.name = "test/script", .body = "return 1", .sha1 = "e0e1f9fabfc9d4800c87"};
  const std::vector<ScriptCall> calls(3, ScriptCall{.script = &script, .keys = {}, .args = {}});
  std::vector<absl::StatusOr<Reply>> replies(calls.size());
  Scripts(connection).RunBatch(calls, base::Now() + absl::Seconds(10), absl::MakeSpan(replies));
  for (const auto& reply : replies) {
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->integer, 1);
  }
}

}  // namespace
}  // namespace redlatch::redis
