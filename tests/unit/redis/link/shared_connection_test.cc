#include "src/redis/link/shared_connection.h"

#include "src/redis/url/url.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

TEST(SharedConnection, IsGivenUpIfTheServerStalls) {
  support::FakeServer server([](const support::FakeServer::Asked& asked) {
    if (asked.command[0] == "HANG") return std::optional<std::string>("");
    return support::FakeServer::Polite(asked);
  });
  SharedConnection connection(*ParseUrl(server.url()), {.stall_timeout = absl::Milliseconds(20)});
  ASSERT_TRUE(connection.Call(Command({"PING"}), base::Now() + absl::Seconds(10)).ok());
  EXPECT_EQ(server.connections(), 1);
  EXPECT_FALSE(connection.Call(Command({"HANG"}), base::Now() + absl::Milliseconds(50)).ok());
  EXPECT_TRUE(connection.Call(Command({"PING"}), base::Now() + absl::Seconds(10)).ok());
  EXPECT_EQ(server.connections(), 2);
}

}  // namespace
}  // namespace redlatch::redis
