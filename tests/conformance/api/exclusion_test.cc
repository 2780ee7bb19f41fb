// One holder at a time: among threads, clients and processes, whatever face of the lock they use.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/unique_fd.h"
#include "tests/conformance/api/conformance.h"
#include "tests/support/child_entry.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

using ::testing::ElementsAre;

class Exclusion : public Conformance {
 public:
  using Conformance::Connected;
  using Conformance::OptionsOf;

 protected:
  // Threads that share a client's lock object, or have one each.
  void Contend(const std::vector<Client>& clients, int threads, int rounds) {
    Protected shared;
    Crew crew;
    std::vector<std::unique_ptr<RedisLockBase>> locks;
    for (const Client& client : clients) locks.push_back(NewLock(client));
    for (const auto& lock : locks) {
      crew.Start(threads, [&](int) {
        for (int i = 0; i < rounds; ++i) {
          const std::scoped_lock guard(*lock);
          shared.Touch(lock->current());
        }
      });
    }
    crew.Join();
    EXPECT_EQ(shared.touches(), static_cast<int64_t>(clients.size()) * threads * rounds);
  }
};

TEST_P(Exclusion, HoldsAmongThreadsOfOneClient) { Contend({NewClient()}, 8, support::Scaled(200)); }

TEST_P(Exclusion, HoldsAmongClients) {
  Contend({NewClient(), NewClient(), NewClient(), NewClient()}, 1, support::Scaled(100));
}

TEST_P(Exclusion, HoldsAmongThreadsOfSeveralClients) {
  Contend({NewClient(), NewClient(), NewClient()}, 4, support::Scaled(50));
}

TEST_P(Exclusion, HoldsBetweenTheFaces) {
  const Client clients[] = {NewClient(), NewClient()};
  constexpr int kKinds = 4;
  const int rounds = support::Scaled(40);
  Protected shared;
  Crew crew;
  for (const Client& client : clients) {
    crew.Start(kKinds, [&](int face) {
      const auto lock = NewLock(client);
      for (int i = 0; i < rounds; ++i) {
        if (face == 0) {
          const std::scoped_lock guard(*lock);
          shared.Touch(lock->current());
        } else if (face == 1) {
          const auto lease = lock->Acquire();
          ASSERT_OK(lease);
          shared.Touch(*lease);
        } else if (face == 2) {
          auto lease = lock->Acquire({.lease = kLease});
          ASSERT_OK(lease);
          shared.Touch(*lease);
          EXPECT_OK(lease->Release());
        } else {
          while (!lock->try_lock_for(std::chrono::milliseconds(20))) continue;
          shared.Touch(lock->current());
          lock->unlock();
        }
      }
    });
  }
  crew.Join();
  EXPECT_EQ(shared.touches(), 2 * kKinds * rounds);
}

TEST_P(Exclusion, HoldsAmongThoseWhoOnlyTry) {
  const Client clients[] = {NewClient(), NewClient()};
  const int rounds = support::Scaled(30);
  Protected shared;
  Crew crew;
  for (const Client& client : clients) {
    crew.Start(2, [&](int) {
      const auto lock = NewLock(client);
      for (int i = 0; i < rounds;) {
        const auto lease = Try(*lock);
        if (!lease.ok()) {
          ASSERT_EQ(CodeOf(lease), kBusy) << lease.status();
          continue;
        }
        shared.Touch(*lease);
        ++i;
      }
    });
  }
  crew.Join();
  EXPECT_EQ(shared.touches(), 4 * rounds);
}

// A counter in a file, as a program would keep one that knows of no other: read, then written.
class CounterFile {
 public:
  explicit CounterFile(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  int Read() const {
    char text[32] = "";
    return pread(file_.get(), text, sizeof text - 1, 0) > 0 ? std::atoi(text) : 0;
  }
  void Add() {
    const std::string text = absl::StrCat(Read() + 1, "\n");
    EXPECT_EQ(pwrite(file_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }

 private:
  const base::UniqueFd file_;
};

REDLATCH_CHILD(ConformanceCounter) {
  const Case which = CaseNamed(args.at(0));
  const Client client = Exclusion::Connected(args.at(1), which);
  const auto lock = which.kind.make(client, kName, Exclusion::OptionsOf(which));
  CounterFile counter(args.at(2));
  parent.WriteLine("ready");
  parent.ReadLine();
  for (int i = std::atoi(args.at(3).c_str()); i > 0; --i) {
    const std::scoped_lock guard(*lock);
    counter.Add();
  }
  return 0;
}

TEST_P(Exclusion, HoldsAmongProcesses) {
  constexpr int kProcesses = 3;
  const int rounds = support::Scaled(60);
  const support::TempDir directory;
  const std::string path = directory.path() + "/counter";
  std::vector<std::unique_ptr<support::Child>> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(support::SpawnChild(
        "ConformanceCounter", {GetParam().name(), url(), path, std::to_string(rounds)}));
  }
  for (const auto& child : children) ASSERT_EQ(child->pipe().ReadLine(), "ready");
  for (const auto& child : children) child->pipe().WriteLine("go");
  for (const auto& child : children) EXPECT_TRUE(child->Wait().success());
  EXPECT_EQ(CounterFile(path).Read(), kProcesses * rounds);
}

TEST_P(Exclusion, LockObjectsOfOneNameOnOneClientAreTheSameLock) {
  const Client client = NewClient();
  const auto one = NewLock(client);
  const auto same = NewLock(client);
  const auto lease = one->Acquire();
  ASSERT_OK(lease);
  Crew().Start([&] {
    EXPECT_EQ(CodeOf(Try(*same)), kBusy);
    EXPECT_FALSE(same->try_lock());
  });
}

TEST_P(Exclusion, ALockTakenByOneObjectIsReleasedByAnotherOfItsName) {
  const Client client = NewClient();
  const auto one = NewLock(client);
  const auto same = NewLock(client);
  one->lock();
  EXPECT_EQ(same->hold_count(), 1);
  EXPECT_TRUE(same->current().valid());
  same->unlock();
  EXPECT_EQ(one->hold_count(), 0);
  EXPECT_OK(Try(NewClient()));
}

TEST_P(Exclusion, LocksOfDifferentNamesAreIndependent) {
  const Client client = NewClient();
  const auto one = NewLock(client, "one");
  const auto other = NewLock(client, "other");
  const auto first = one->Acquire();
  ASSERT_OK(first);
  EXPECT_OK(Try(*other));
  EXPECT_OK(Try(NewClient(), "other"));
}

TEST_P(Exclusion, AKeyPrefixSeparatesClientsAndIsPartOfTheKey) {
  const auto lock = NewLock(NewClient());
  const auto lease = lock->Acquire();
  ASSERT_OK(lease);
  EXPECT_EQ(lock->name(), Called());
  EXPECT_OK(Try(ClientAt(UrlOfAnyUser(), {}, {.key_prefix = "elsewhere:"})));
  const std::string key = Key();
  const Client client = NewClient({}, {.key_prefix = key.substr(0, 2)});
  // The other names of a MultiLock would not be the same.
  const auto same = GetParam().kind.name == "multi"
                        ? std::make_unique<SimpleLock>(client, key.substr(2), Options())
                        : NewLock(client, key.substr(2));
  EXPECT_EQ(CodeOf(Try(*same)), kBusy);
}

TEST_P(Exclusion, ClientsGetTheLockInTheOrderInWhichTheyQueued) {
  constexpr int kWaiters = 5;
  auto lease = NewLock(NewClient())->Acquire();
  ASSERT_OK(lease);
  base::Mutex mu;
  std::vector<int> order;
  Protected shared;
  Crew crew;
  for (int i = 0; i < kWaiters; ++i) {
    crew.Start([&, i] {
      const auto mine = NewLock(NewClient())->Acquire({.wait = kPatience});
      ASSERT_OK(mine);
      shared.Touch(*mine);
      const base::MutexLock lock(mu);
      order.push_back(i);
    });
    ASSERT_TRUE(AwaitQueued(i + 1));
  }
  EXPECT_OK(lease->Release());
  crew.Join();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST_P(Exclusion, AReleaseHandsTheLockToWhoWaitsAndNobodyBarges) {
  const auto lock = NewLock(NewClient());
  auto lease = lock->Acquire();
  ASSERT_OK(lease);
  std::atomic<bool> done{false};
  Crew crew;
  crew.Start([&] {
    const auto mine = NewLock(NewClient())->Acquire({.wait = kPatience});
    EXPECT_OK(mine);
    EXPECT_TRUE(Await([&] { return done.load(); }));
  });
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_OK(lease->Release());
  EXPECT_EQ(CodeOf(Try(*lock)), kBusy);
  EXPECT_EQ(CodeOf(Try(NewClient())), kBusy);
  done = true;
}

TEST_P(Exclusion, TokensGrowOverClientsAndTimeAlsoWhereEveryKeyWasLost) {
  const Client clients[] = {NewClient(), NewClient()};
  Protected shared;
  for (int i = 0; i < 6; ++i) {
    const auto lock = NewLock(clients[i % 2]);
    {
      const auto lease = lock->Acquire({.wait = kPatience});
      ASSERT_OK(lease);
      shared.Touch(*lease);
    }
    if (i % 3 == 2) server().Command({"FLUSHALL"});
  }
}

INSTANTIATE_EVERYWHERE(Exclusion);

}  // namespace
}  // namespace redlatch::conformance
