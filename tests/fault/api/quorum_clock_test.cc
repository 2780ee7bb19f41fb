// The clocks of a quorum's servers differ by seconds, and each majority is another one.
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "tests/support/await.h"
#include "tests/support/quorum_group.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace redlatch {
namespace {

constexpr char kClockName[] = "orders:42";
constexpr std::array<int64_t, 5> kSecondsAhead = {-30, 0, 20, -3, 5};

class QuorumClock : public ::testing::Test {
 protected:
  std::vector<support::RedisServerOptions> EachWithItsClock() {
    std::vector<support::RedisServerOptions> all;
    for (const int64_t ahead : kSecondsAhead) {
      const std::string path = absl::StrCat(directory_.path(), "/", all.size());
      const int64_t shift_us = ahead * 1'000'000;
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(&shift_us), sizeof shift_us);
      all.push_back(
          {.environment = {"LD_PRELOAD=" REDLATCH_SHIFTED_CLOCK, "REDLATCH_CLOCK_SHIFT=" + path}});
    }
    return all;
  }
  // The next token, which is larger than the last.
  void Take(RedLock& lock) {
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(10)});
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_LT(last_, lease->fencing_token());
    last_ = lease->fencing_token();
    ASSERT_TRUE(lease->Release().ok());
  }

  const support::TempDir directory_;
  support::QuorumGroup servers_{EachWithItsClock()};
  FencingToken last_;
};

TEST_F(QuorumClock, MayDifferBySecondsAndTokensGrowWithEachMajority) {
  const Client one = *Client::Connect(servers_.url());
  const Client other = *Client::Connect(servers_.url());
  RedLock mine(one, kClockName);
  RedLock theirs(other, kClockName);
  for (size_t a = 0; a < servers_.size(); ++a) {
    for (size_t b = a + 1; b < servers_.size(); ++b) {
      servers_[a].Stop();
      servers_[b].Stop();
      for (int i = 0; i < 5; ++i) {
        Take(mine);
        Take(theirs);
      }
      servers_[a].Continue();
      servers_[b].Continue();
      EXPECT_TRUE(support::Await([&] { return servers_.Having(kClockName) == 0; }));
    }
  }
}

// A lease ends by the time that passes, whatever the clocks say.
TEST_F(QuorumClock, MayDifferBySecondsAndALeaseIsAsLongAsItIs) {
  const Client one = *Client::Connect(servers_.url());
  const Client other = *Client::Connect(servers_.url());
  RedLock mine(one, kClockName);
  RedLock theirs(other, kClockName);
  const absl::StatusOr<Lease> lease = mine.Acquire({.lease = absl::Seconds(1)});
  ASSERT_TRUE(lease.ok()) << lease.status();
  const absl::StatusOr<Lease> next = theirs.Acquire({.wait = absl::Seconds(10)});
  EXPECT_FALSE(lease->valid());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_LT(lease->fencing_token(), next->fencing_token());
}

}  // namespace
}  // namespace redlatch
