// redis-plus-plus in the comparison: see contender.h. It is compiled if redis-plus-plus is
// installed.
//
// By default it uses RedMutex, as its documents recommend, which decides how long it sleeps between
// tries. With --retry-delay-us=N it uses the RedLock below it, which leaves that to its user.
#include <sw/redis++/patterns/redlock.h>
#include <sw/redis++/redis++.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "contender.h"

namespace {

using redlatch::bench::Contender;
using Microseconds = std::chrono::microseconds;

constexpr std::chrono::milliseconds kTtl = std::chrono::seconds(3);  // RedMutex's own

using Servers = std::vector<std::shared_ptr<sw::redis::Redis>>;

Servers Connect(const Contender& contender) {
  Servers servers;
  sw::redis::ConnectionPoolOptions pool;
  // otherwise threads wait for each other
  pool.size = static_cast<size_t>(contender.Number("threads", 1));
  for (const std::string& url : contender.urls()) {
    servers.push_back(
        std::make_shared<sw::redis::Redis>(sw::redis::Uri(url).connection_options(), pool));
    servers.back()->ping();
  }
  return servers;
}

class Lockable {
 public:
  virtual ~Lockable() = default;
  virtual bool Lock(bool reads) = 0;
  virtual bool Unlock(bool reads) = 0;
};

class Mutex final : public Lockable {
 public:
  // It is never destroyed: the thread that extends it may hold the last reference, and would join
  // itself.
  Mutex(const Servers& servers, const std::string& name)
      : mutex_(*new sw::redis::RedMutex(servers.begin(), servers.end(), name)) {}
  bool Lock(bool) override {
    mutex_.lock();
    return true;
  }
  bool Unlock(bool) override {
    mutex_.unlock();
    return true;
  }

 private:
  sw::redis::RedMutex& mutex_;
};

// It sleeps up to twice `delay` between tries, so that colliding callers do not collide again.
class Tries final : public Lockable {
 public:
  Tries(const Servers& servers, const std::string& name, Microseconds delay)
      : mutex_(servers.begin(), servers.end(), name), sleep_(0, 2 * delay.count()) {}
  bool Lock(bool) override {
    while (!lock_.try_lock(kTtl)) std::this_thread::sleep_for(Microseconds(sleep_(random_)));
    return true;
  }
  bool Unlock(bool) override {
    lock_.unlock();
    return true;
  }

 private:
  sw::redis::RedLockMutex mutex_;
  sw::redis::RedLock<sw::redis::RedLockMutex> lock_{mutex_, std::defer_lock};
  std::mt19937 random_{std::random_device{}()};
  std::uniform_int_distribution<Microseconds::rep> sleep_;
};

}  // namespace

int main(int argc, char** argv) {
  Contender contender(argc, argv);
  try {
    const Servers servers = Connect(contender);
    const long delay = contender.Number("retry-delay-us", 0);
    return contender.Run([&](const std::string& name) -> std::unique_ptr<Lockable> {
      if (delay > 0) return std::make_unique<Tries>(servers, name, Microseconds(delay));
      return std::make_unique<Mutex>(servers, name);
    });
  } catch (const std::exception& error) {
    Contender::Fail(error.what());
  }
}
