// One holder at a time: among threads, clients and processes, whatever face of the lock they use.

#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

class Exclusion : public Conformance {
 public:
  using Conformance::Connected;
  using Conformance::OptionsOf;
};

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

TEST_P(Exclusion, ALockTakenByOneObjectIsReleasedByAnotherOfItsName) {
  const Client client = NewClient();
  const auto one = NewLock(client);
  const auto same = NewLock(client);
  one->lock();
  Crew().Start([&] { EXPECT_FALSE(same->try_lock()); });
  EXPECT_EQ(same->hold_count(), 1);
  EXPECT_TRUE(same->current().valid());
  same->unlock();
  EXPECT_EQ(one->hold_count(), 0);
  EXPECT_OK(Try(NewClient()));
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

INSTANTIATE_CONFORMANCE(Exclusion, LockCases());

}  // namespace
}  // namespace redlatch::conformance
