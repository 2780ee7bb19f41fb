// What nearly every test with a real server uses.
#ifndef REDLATCH_TESTS_SUPPORT_LIVE_TESTING_H_
#define REDLATCH_TESTS_SUPPORT_LIVE_TESTING_H_

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lease.h"
#include "redlatch/multi_lock.h"
#include "redlatch/observer.h"
#include "redlatch/permit.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/unique_fd.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/cluster_group.h"
#include "tests/support/connect.h"
#include "tests/support/lock_keys.h"
#include "tests/support/outcomes.h"
#include "tests/support/process_stats.h"
#include "tests/support/punctuality.h"
#include "tests/support/quorum_group.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/subprocess.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_scale.h"

namespace redlatch {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using support::Arrival;
using support::Await;
using support::ClusterGroup;
using support::Connect;
using support::Direction;
using support::QuorumGroup;
using support::RedisServer;
using support::Scope;
using support::Sleep;
using support::TcpProxy;
using support::TimeOf;

// What was to be had; if it was not, the test fails, and goes on with nothing.
template <class Held>
Held Must(absl::StatusOr<Held> held) {
  EXPECT_TRUE(held.ok()) << held.status();
  return held.ok() ? *std::move(held) : Held();
}

using Leases = support::Outcomes<absl::StatusOr<Lease>>;
using Permits = support::Outcomes<absl::StatusOr<Permit>>;
using Statuses = support::Outcomes<absl::Status>;

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SUPPORT_LIVE_TESTING_H_
