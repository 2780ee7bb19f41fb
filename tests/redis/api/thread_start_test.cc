// The system cannot start a thread. A call that needs one fails, says so, and works later.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "tests/support/live_testing.h"

namespace {
std::atomic<bool> no_threads{false};
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*code)(void*), void* argument) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return no_threads ? EAGAIN : real(thread, attributes, code, argument);
}

namespace redlatch {
namespace {

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

struct ThreadStart : ::testing::Test {
  void TearDown() override { no_threads = false; }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url());
  SimpleLock simple_{client_, "simple"};
  ReentrantLock reentrant_{client_, "reentrant"};
  ReentrantReadWriteLock read_write_{client_, "read_write"};
  Semaphore semaphore_{client_, "semaphore", 1};
  CountDownLatch latch_{client_, "latch", 1};
  MultiLock multi_{client_, {"one", "two"}};
};

TEST_F(ThreadStart, FailureFailsEveryAcquisition) {
  Client other = Connect(server_->url());
  SimpleLock theirs(other, "simple");
  ASSERT_TRUE(theirs.Acquire().ok());  // now its threads exist
  no_threads = true;
  EXPECT_EQ(simple_.Acquire().status().code(), kExhausted);
  EXPECT_EQ(simple_.TryAcquire().status().code(), kExhausted);
  EXPECT_EQ(simple_.Acquire({.lease = absl::Seconds(5)}).status().code(), kExhausted);
  EXPECT_EQ(reentrant_.Acquire().status().code(), kExhausted);
  EXPECT_EQ(read_write_.Acquire().status().code(), kExhausted);
  EXPECT_EQ(read_write_.AcquireRead().status().code(), kExhausted);
  EXPECT_EQ(semaphore_.Acquire().status().code(), kExhausted);
  EXPECT_EQ(multi_.Acquire().status().code(), kExhausted);
  EXPECT_EQ(latch_.Wait().code(), kExhausted);
  try {
    simple_.lock();
    ADD_FAILURE() << "it was locked";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), MakeErrorCode(kExhausted)) << error.what();
  }
  EXPECT_TRUE(theirs.TryAcquire().ok());
  no_threads = false;
  EXPECT_TRUE(simple_.Acquire().ok());
  EXPECT_TRUE(read_write_.AcquireRead().ok());
  EXPECT_TRUE(semaphore_.Acquire().ok());
  EXPECT_TRUE(multi_.Acquire().ok());
  latch_.count_down();
  EXPECT_TRUE(latch_.Wait().ok());
}

TEST_F(ThreadStart, FailureReachesEveryCallback) {
  support::Outcomes<absl::StatusOr<Lease>> leases;
  support::Outcomes<absl::StatusOr<Permit>> permits;
  support::Outcomes<absl::Status> statuses;
  no_threads = true;
  simple_.AcquireAsync({}, leases.Callback());
  read_write_.AcquireReadAsync({}, leases.Callback());
  multi_.AcquireAsync({}, leases.Callback());
  semaphore_.AcquireAsync(1, {}, permits.Callback());
  latch_.WaitAsync({}, statuses.Callback());
  Lease().ReleaseAsync(statuses.Callback());
  ASSERT_EQ(leases.size(), 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(leases.Take(i).status().code(), kExhausted) << i;
  EXPECT_EQ(permits.Take().status().code(), kExhausted);
  EXPECT_EQ(statuses.Take(0).code(), kExhausted);
  EXPECT_TRUE(statuses.Take(1).ok());
  no_threads = false;
  simple_.AcquireAsync({}, leases.Callback());
  EXPECT_TRUE(leases.Take(3).ok());
}

TEST_F(ThreadStart, FailureMakesReleaseSynchronous) {
  auto lease = Must(simple_.Acquire());
  support::Outcomes<absl::Status> released;
  no_threads = true;
  lease.ReleaseAsync(released.Callback());
  ASSERT_EQ(released.size(), 1);
  EXPECT_TRUE(released.Take().ok());
  EXPECT_TRUE(simple_.TryAcquire().ok());
}

TEST_F(ThreadStart, FailureFailsHostLookups) {
  no_threads = true;
  const std::string url = "redis://localhost:" + std::to_string(server_->port());
  EXPECT_EQ(Client::Connect(url).status().code(), kExhausted);
}

}  // namespace
}  // namespace redlatch
