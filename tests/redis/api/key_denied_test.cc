// A user with access to some keys only. The keys of a lock are known at its first use, that of a
// quarantine at once; the error then says how to grant all of them.

#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/read_write_lock.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

struct KeyDenied : ::testing::Test {
  Client Connect(const std::string& options = "") { return support::Connect(Url(options)); }
  std::string Url(const std::string& options) const {
    return absl::StrCat("redis://app:pw@127.0.0.1:", server_->port(), "/", options);
  }
  // Following the message is enough.
  void GrantWhatErrorSays(const absl::Status& denied) {
    EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied) << denied;
    const std::string message(denied.message());
    const size_t begin = message.find("ACL SETUSER app ");
    ASSERT_NE(begin, std::string::npos) << message;
    const std::vector<std::string> command =
        absl::StrSplit(message.substr(begin, message.find(')', begin) - begin), ' ');
    ASSERT_EQ(server_->Text(command), "OK") << message;
  }
  void Forget() { ASSERT_EQ(server_->Text({"ACL", "SETUSER", "app", "resetkeys"}), "OK"); }

  const std::unique_ptr<RedisServer> server_ =
      RedisServer::Start({.acl = {"user app on >pw &* +@all"}});
};

template <class Lock>
class LockKeyDenied : public KeyDenied {};
using Locks = ::testing::Types<SimpleLock, ReentrantLock, ReentrantReadWriteLock, redisson::Lock,
                               redisson::FairLock, redisson::ReadWriteLock>;
TYPED_TEST_SUITE(LockKeyDenied, Locks);

TYPED_TEST(LockKeyDenied, ErrorSaysHowToGrantKeys) {
  const bool redissons = !std::is_same_v<TypeParam, SimpleLock> &&
                         !std::is_same_v<TypeParam, ReentrantLock> &&
                         !std::is_same_v<TypeParam, ReentrantReadWriteLock>;
  for (const char* options : {"", "?quarantine=60s"}) {
    if (redissons && *options != '\0') break;  // refused
    if (*options != '\0') {
      this->GrantWhatErrorSays(redlatch::Client::Connect(this->Url(options)).status());
    }
    const Client client = this->Connect(options);
    for (const char* name : {"orders:1", "{orders}:1", "a*[b c]?\\d", "{x}{y}"}) {
      SCOPED_TRACE(absl::StrCat(options, " ", name));
      TypeParam lock(client, name);
      this->GrantWhatErrorSays(lock.TryAcquire().status());
      absl::StatusOr<Lease> lease = lock.TryAcquire();
      // A new server may wait out its quarantine first.
      EXPECT_THAT(std::string(lease.status().message()), Not(HasSubstr("ACL"))) << lease.status();
      if (*options == '\0') {
        ASSERT_TRUE(lease.ok()) << lease.status();
        EXPECT_TRUE(lease->Release().ok());
      }
      this->Forget();
    }
  }
}

TEST_F(KeyDenied, ErrorSaysHowToGrantKeys) {
  const Client client = Connect();
  ReentrantReadWriteLock read_write(client, "prices");
  GrantWhatErrorSays(read_write.AcquireRead({.wait = absl::ZeroDuration()}).status());
  EXPECT_TRUE(read_write.AcquireRead({.wait = absl::ZeroDuration()}).ok());
  Semaphore semaphore(client, "encoders", 2);
  GrantWhatErrorSays(semaphore.TryAcquire().status());
  EXPECT_TRUE(semaphore.TryAcquire().ok());
  CountDownLatch latch(client, "started", 1);
  GrantWhatErrorSays(latch.CountDown());
  EXPECT_TRUE(latch.CountDown().ok());
}

// The prefix is part of each key.
TEST_F(KeyDenied, RuleIncludesKeyPrefix) {
  const Client client = support::Connect(absl::StrCat("redis://app:pw@127.0.0.1:", server_->port()),
                                         {.key_prefix = "shop:"});
  SimpleLock lock(client, "orders");
  const absl::Status denied = lock.TryAcquire().status();
  EXPECT_THAT(std::string(denied.message()), HasSubstr("lock \"orders\" ("));
  EXPECT_THAT(std::string(denied.message()),
              HasSubstr("ACL SETUSER app ~shop:orders ~redlatch:2:{shop:orders}:* "
                        "~redlatch:rw:{shop:orders}:* ~redlatch:client:*"));
  GrantWhatErrorSays(denied);
  EXPECT_TRUE(lock.TryAcquire().ok());
}

}  // namespace
}  // namespace redlatch
