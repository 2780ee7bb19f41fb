// What nearly every test with a real server uses.
#ifndef REDLATCH_TESTS_SUPPORT_LIVE_TESTING_H_
#define REDLATCH_TESTS_SUPPORT_LIVE_TESTING_H_

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <random>
#include <sstream>
#include <stop_token>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/election.h"
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
#include "tests/support/lock_keys.h"
#include "tests/support/outcomes.h"
#include "tests/support/punctuality.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/resources.h"
#include "tests/support/server_groups.h"
#include "tests/support/subprocess.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_scale.h"
#include "tests/support/testing.h"

namespace redlatch::support {

inline Client Connect(const std::string& url, const ClientOptions& options = {}) {
  absl::StatusOr<Client> client = Client::Connect(url, options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

}  // namespace redlatch::support

namespace redlatch {

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

// As much of a file as can be read: a process may end while its file in /proc is read.
inline std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Threads that the destructor joins.
class Crew {
 public:
  void Start(std::function<void()> work) { threads_.emplace_back(std::move(work)); }
  void Start(int threads, const std::function<void(int)>& work) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back(work, i);
  }
  void Join() { threads_.clear(); }

 private:
  std::vector<std::jthread> threads_;
};

// True if the token fires within ten seconds.
inline bool Fires(const std::stop_token& lost) {
  base::Parker parker;
  const std::stop_callback wake(lost, [&] { parker.Set(1); });
  const base::Instant deadline = base::Now() + absl::Seconds(10);
  while (!lost.stop_requested() && base::Now() < deadline) parker.ParkUntil(deadline);
  return lost.stop_requested();
}

// Matches an error with that code whose message matches.
template <class Message>
auto IsError(absl::StatusCode code, const Message& message) {
  return AllOf(
      ::testing::Property(&absl::Status::code, code),
      ::testing::ResultOf([](const absl::Status& status) { return std::string(status.message()); },
                          message));
}

// Returns the value. If there is an error, the test fails, and it returns an empty value.
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
