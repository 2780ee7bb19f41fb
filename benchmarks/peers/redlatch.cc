// redlatch in the comparison: see contender.h. --turn-us=N and --cache-ms=N set LockOptions.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmarks/peers/contender.h"
#include "redlatch/client.h"
#include "redlatch/lock_options.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"

namespace redlatch::bench {
namespace {

class Ours {
 public:
  virtual ~Ours() = default;
  virtual bool Lock(bool reads) = 0;
  virtual bool Unlock(bool reads) = 0;
};

template <class Mutex>
class OurMutex final : public Ours {
 public:
  template <class... Args>
  explicit OurMutex(Args&&... args) : lock_(std::forward<Args>(args)...) {}
  bool Lock(bool) override {
    lock_.lock();
    return true;
  }
  bool Unlock(bool) override {
    lock_.unlock();
    return true;
  }

 private:
  Mutex lock_;
};

class OurReadWriteLock final : public Ours {
 public:
  OurReadWriteLock(const Client& client, const std::string& name, const LockOptions& options)
      : lock_(client, name, options) {}
  bool Lock(bool reads) override {
    reads ? lock_.lock_shared() : lock_.lock();
    return true;
  }
  bool Unlock(bool reads) override {
    reads ? lock_.unlock_shared() : lock_.unlock();
    return true;
  }

 private:
  ReentrantReadWriteLock lock_;
};

class OurSemaphore final : public Ours {
 public:
  OurSemaphore(const Client& client, const std::string& name, int permits,
               const LockOptions& options)
      : semaphore_(client, name, permits, {.turn = options.turn}) {}
  bool Lock(bool) override {
    semaphore_.acquire();
    return true;
  }
  bool Unlock(bool) override {
    semaphore_.release();
    return true;
  }

 private:
  Semaphore semaphore_;
};

}  // namespace
}  // namespace redlatch::bench

int main(int argc, char** argv) {
  using namespace redlatch::bench;  // NOLINT(google-build-using-namespace)
  Contender contender(argc, argv);
  std::vector<redlatch::Client> clients;
  for (const std::string& url : contender.urls()) {
    absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(url);
    if (!client.ok()) Contender::Fail(client.status().ToString());
    clients.push_back(*std::move(client));
  }
  redlatch::LockOptions options;
  options.lease = absl::Milliseconds(contender.Number("lease-ms", 30000));
  if (const long turn_us = contender.Number("turn-us", -1); turn_us >= 0) {
    options.turn = absl::Microseconds(turn_us);
  }
  options.cache_for = absl::Milliseconds(contender.Number("cache-ms", 0));
  const std::string kind = contender.kind();
  const bool reentry = contender.Number("reentry", 0) != 0;
  return contender.Run([&](const std::string& name) -> std::unique_ptr<Ours> {
    if (kind == "quorum") {
      return std::make_unique<OurMutex<redlatch::RedLock>>(
          clients, name, redlatch::RedLockOptions{.turn = options.turn});
    }
    if (kind == "read_write") {
      return std::make_unique<OurReadWriteLock>(clients[0], name, options);
    }
    if (kind == "semaphore") {
      return std::make_unique<OurSemaphore>(
          clients[0], name, static_cast<int>(contender.Number("permits", 4)), options);
    }
    if (reentry) {
      return std::make_unique<OurMutex<redlatch::ReentrantLock>>(clients[0], name, options);
    }
    return std::make_unique<OurMutex<redlatch::SimpleLock>>(clients[0], name, options);
  });
}
