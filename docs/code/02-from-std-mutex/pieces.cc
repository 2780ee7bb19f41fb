// The pieces of 02-from-std-mutex.md, and a program that runs them.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "docs/code/expect.h"

// [member]
#include <fstream>
#include <mutex>
#include <string>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

class Ledger {
 public:
  explicit Ledger(const redlatch::Client& client) : mu_(client, "ledger") {}

  void Add(const std::string& line) {
    std::scoped_lock guard(mu_);
    std::ofstream("ledger.txt", std::ios::app) << line << '\n';
  }

 private:
  redlatch::SimpleLock mu_;  // was: std::mutex mu_;
};
// [/member]

// [throws]
#include <cstdio>
#include <mutex>
#include <system_error>

#include "redlatch/simple_lock.h"
#include "redlatch/status.h"

bool Save(redlatch::SimpleLock& lock) {
  try {
    std::scoped_lock guard(lock);
    // ...
    return true;
  } catch (const std::system_error& error) {
    if (error.code() != redlatch::MakeErrorCode(absl::StatusCode::kUnavailable)) throw;
    std::puts("no server for ten seconds; try again later");
    return false;
  }
}
// [/throws]

// [keep]
#include "redlatch/simple_lock.h"

// Taken again without asking the server, until another process wants it.
redlatch::SimpleLock Mostly(const redlatch::Client& client) {
  return {client, "journal", {.lease = absl::Seconds(5), .cache_for = absl::Seconds(2)}};
}
// [/keep]

// [lost]
#include <mutex>

#include "absl/status/status.h"
#include "redlatch/simple_lock.h"

absl::Status AddAll(redlatch::SimpleLock& lock) {
  std::scoped_lock guard(lock);
  const redlatch::Hold hold = lock.current();
  for (int i = 0; i < 1000; ++i) {
    if (!hold.valid()) return absl::AbortedError("someone else may hold the lock by now");
    // ... add one more
  }
  return absl::OkStatus();
}
// [/lost]

// [several]
#include <mutex>

#include "redlatch/simple_lock.h"

void Transfer(redlatch::SimpleLock& from, redlatch::SimpleLock& to, std::mutex& here) {
  std::scoped_lock all(from, to, here);  // in any order, without deadlock
  // ...
}
// [/several]

// [together]
#include <mutex>
#include <string>

#include "redlatch/multi_lock.h"

void Move(const redlatch::Client& client, const std::string& from, const std::string& to) {
  redlatch::MultiLock both(client, {"{accounts}:" + from, "{accounts}:" + to});
  std::scoped_lock guard(both);  // one round trip
  // ...
}
// [/together]

// [condition]
#include <condition_variable>
#include <mutex>

#include "redlatch/simple_lock.h"

struct Mailbox {
  explicit Mailbox(const redlatch::Client& client) : mu(client, "mailbox") {}
  redlatch::SimpleLock mu;
  std::condition_variable_any changed;  // wakes threads of this process only
  int letters = 0;
};

void TakeLetter(Mailbox& box) {
  std::unique_lock guard(box.mu);
  box.changed.wait(guard, [&] { return box.letters > 0; });
  --box.letters;
}
// [/condition]

// [recursion]
#include <mutex>

#include "redlatch/reentrant_lock.h"

void Audit(redlatch::ReentrantLock& lock) {
  std::scoped_lock inner(lock);  // immediate, if this thread already holds it
  // ...
}

void Close(redlatch::ReentrantLock& lock) {
  std::scoped_lock outer(lock);
  Audit(lock);
}
// [/recursion]

// [global]
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

// Connects at the first lock(), not before.
redlatch::SimpleLock& TheLock() {
  static const redlatch::Client client =
      *redlatch::Client::Connect("embedded:", {.connect = redlatch::ConnectPolicy::kLazy});
  static redlatch::SimpleLock lock(client, "the lock");
  return lock;
}
// [/global]

namespace {

redlatch::Client Unreachable() {
  return *redlatch::Client::Connect(
      "unix:///nowhere/redis.sock?command_timeout=100ms",
      {.connect = redlatch::ConnectPolicy::kLazy, .unreachable_after = absl::Milliseconds(100)});
}

// Returns what `work` returns in a child.
template <class Work>
int InChild(const Work& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class Call>
std::error_code CodeOf(const Call& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

}  // namespace

// Output: no server for ten seconds; try again later
int main() {
  const redlatch::Client client = Connected();
  Ledger(client).Add("bread 2.50");

  redlatch::SimpleLock a(client, "a");
  redlatch::SimpleLock nowhere(Unreachable(), "a");
  Expect(Save(a));
  Expect(!Save(nowhere));
  Expect(CodeOf([&] { nowhere.try_lock(); }) ==
         redlatch::MakeErrorCode(absl::StatusCode::kUnavailable));

  ExpectOk(AddAll(a));

  // False if another thread or process holds it. If this thread does: false, or an exception.
  a.lock();
  {
    redlatch::SimpleLock of_another(Connected(), "a");
    Expect(!of_another.try_lock());
    std::jthread thread([&] { Expect(!a.try_lock()); });
  }
  Expect(!a.try_lock());
  Expect(CodeOf([&] { a.lock(); }) == std::errc::resource_deadlock_would_occur);
  a.unlock();

  redlatch::SimpleLock b(client, "b");
  std::mutex c;
  {
    std::jthread there([&] { Transfer(a, b, c); });
    std::jthread back([&] { Transfer(b, a, c); });
  }

  {
    std::jthread there([&] { Move(client, "1", "2"); });
    std::jthread back([&] { Move(client, "2", "1"); });
  }

  Mailbox box(client);
  {
    std::jthread taker([&] { TakeLetter(box); });
    std::scoped_lock guard(box.mu);
    ++box.letters;
    box.changed.notify_all();
  }
  Expect(box.letters == 0);

  {
    redlatch::SimpleLock mostly = Mostly(client);
    mostly.lock();
    mostly.unlock();
    redlatch::SimpleLock of_another(Connected(), "journal");
    Expect(!of_another.try_lock());  // this recalls it
    Expect(of_another.try_lock_for(std::chrono::seconds(15)));
    of_another.unlock();
  }

  redlatch::ReentrantLock books(client, "books");
  Close(books);
  Expect(books.hold_count() == 0);

  TheLock().lock();
  TheLock().unlock();

  // A child cannot use the client that it inherits, and does the parent's no harm.
  a.lock();
  const auto lock_in_child = [&] {
    const auto refused = redlatch::MakeErrorCode(absl::StatusCode::kFailedPrecondition);
    return CodeOf([&] { b.lock(); }) == refused ? 0 : 1;
  };
  Expect(InChild(lock_in_child) == 0);
  Expect(a.current().valid());
  a.unlock();

  // An object that is destroyed while it is locked releases the lock, long before the lease ends.
  {
    redlatch::SimpleLock short_lived(client, "d");
    short_lived.lock();
  }
  redlatch::SimpleLock again(Connected(), "d");
  Expect(again.try_lock_for(std::chrono::seconds(15)));
  again.unlock();
}
