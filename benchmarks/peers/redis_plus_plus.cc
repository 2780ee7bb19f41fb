// redis-plus-plus in a race of run.py, which compiles this if redis-plus-plus is installed.
//
// As its documents recommend, RedMutex, which decides by itself how long it sleeps between tries.
// With --retry-delay-us=N the RedLock below it, which leaves that to its user.
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
using redlatch::bench::kContendedLock;
using Microseconds = std::chrono::microseconds;

constexpr std::chrono::milliseconds kTtl = std::chrono::seconds(3);  // RedMutex's own

using Servers = std::vector<std::shared_ptr<sw::redis::Redis>>;

Servers Connect(const Contender& contender) {
  Servers servers;
  for (const std::string& url : contender.urls()) {
    servers.push_back(std::make_shared<sw::redis::Redis>(url));
    servers.back()->ping();
  }
  return servers;
}

int RaceMutex(const Contender& contender, const Servers& servers) {
  // Never destroyed: the thread that extends it may come to hold the last reference, and then joins
  // itself.
  auto& mutex = *new sw::redis::RedMutex(servers.begin(), servers.end(), kContendedLock);
  return contender.Race(
      [&] {
        mutex.lock();
        return true;
      },
      [&] { mutex.unlock(); });
}

// Between tries it sleeps up to twice `delay`, so that those who collided do not collide again.
int RaceTries(const Contender& contender, const Servers& servers, Microseconds delay) {
  sw::redis::RedLockMutex mutex(servers.begin(), servers.end(), kContendedLock);
  sw::redis::RedLock<sw::redis::RedLockMutex> lock(mutex, std::defer_lock);
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<Microseconds::rep> sleep(0, 2 * delay.count());
  return contender.Race(
      [&] {
        while (!lock.try_lock(kTtl)) std::this_thread::sleep_for(Microseconds(sleep(random)));
        return true;
      },
      [&] { lock.unlock(); });
}

}  // namespace

int main(int argc, char** argv) {
  const Contender contender(argc, argv);
  try {
    const Servers servers = Connect(contender);
    const std::string delay = contender.Option("retry-delay-us", "");
    return delay.empty() ? RaceMutex(contender, servers)
                         : RaceTries(contender, servers, Microseconds(std::stoll(delay)));
  } catch (const std::exception& error) {
    Contender::Fail(error.what());
  }
}
