#include "src/lock/observations.h"

#include "redlatch/client.h"
#include "src/lock/client_core.h"
#include "tests/support/await.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

TEST(LeaderListener, IsNotToldOfOvertakenChange) {
  std::atomic<int> posted{0};
  std::function<void()> completion;
  const absl::StatusOr<Client> client =
      Client::Connect("redis://127.0.0.1:1",
                      {.connect = ConnectPolicy::kLazy, .post = [&](std::function<void()> work) {
                         completion = std::move(work);
                         ++posted;
                       }});
  ASSERT_TRUE(client.ok()) << client.status();
  EventDriver& driver = client->core()->event_driver();
  std::vector<std::string> told;
  const auto listener = std::make_shared<LeaderListener>(
      [&](const std::optional<Leader>& leader) { told.push_back(leader->value); });
  listener->Tell(driver, Leader{.value = "newer"}, 2);
  listener->Tell(driver, Leader{.value = "older"}, 1);
  ASSERT_TRUE(support::Await([&] { return posted == 1; }));
  completion();
  EXPECT_THAT(told, ElementsAre("newer"));
}

}  // namespace
}  // namespace redlatch::internal
