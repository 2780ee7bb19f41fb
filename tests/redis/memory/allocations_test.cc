// How often an uncontended lock allocates memory once it is warm: by operator new, or by malloc()
// as OpenSSL does.

// A sanitizer replaces malloc().
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define REDLATCH_COUNTS_ALLOCATIONS 0
#else
#define REDLATCH_COUNTS_ALLOCATIONS 1
#endif

#include "tests/support/live_testing.h"

namespace {
std::atomic<uint64_t> allocations{0};  // of all threads
}

#if REDLATCH_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);

void* malloc(size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, size);
}
}
#endif

namespace redlatch {
namespace {

struct Allocations : ::testing::Test {
  void SetUp() override {
    if (!REDLATCH_COUNTS_ALLOCATIONS) GTEST_SKIP() << "allocations are not counted here";
  }

  static double Of(const std::function<void()>& pair) {
    const int pairs = support::Scaled(10'000);
    for (int i = 0; i < 100; ++i) pair();
    const uint64_t before = allocations;
    for (int i = 0; i < pairs; ++i) pair();
    const double each = static_cast<double>(allocations - before) / pairs;
    RecordProperty("allocations", std::to_string(each));
    return each;
  }

  static constexpr double kStray = 0.05;  // by background threads

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url());
  SimpleLock simple_{client_, "orders:42"};
  ReentrantLock reentrant_{client_, "a lock with a longer name, as they have in larger programs"};
  ReentrantReadWriteLock read_write_{client_, "prices"};
  Semaphore semaphore_{client_, "encoders", 4};
};

TEST_F(Allocations, AreAtMostTwoPerPair) {
  EXPECT_LE(Of([&] { simple_.lock(), simple_.unlock(); }), 2 + kStray);
  EXPECT_LE(Of([&] { reentrant_.lock(), reentrant_.unlock(); }), 2 + kStray);
  EXPECT_LE(Of([&] { read_write_.lock(), read_write_.unlock(); }), 2 + kStray);
  EXPECT_LE(Of([&] { read_write_.lock_shared(), read_write_.unlock_shared(); }), 2 + kStray);
}

TEST_F(Allocations, AreTwoPerSuccessfulTry) {
  EXPECT_LE(Of([&] {
              if (simple_.try_lock()) simple_.unlock();
            }),
            2 + kStray);
}

TEST_F(Allocations, AreOneMorePerLease) {
  EXPECT_LE(Of([&] { (void)simple_.Acquire()->Release(); }), 3 + kStray);
  EXPECT_LE(Of([&] { (void)reentrant_.Acquire()->Release(); }), 3 + kStray);
}

TEST_F(Allocations, AreNonePerReentry) {
  reentrant_.lock();
  EXPECT_LE(Of([&] { reentrant_.lock(), reentrant_.unlock(); }), kStray);
  reentrant_.unlock();
}

TEST_F(Allocations, AreFewPerPermit) {
  EXPECT_LE(Of([&] { semaphore_.acquire(), semaphore_.release(); }), 5 + kStray);
}

}  // namespace
}  // namespace redlatch
