// Who goes first, readers or writers, if the lock is fair to phases.
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"
#include "src/base/mutex.h"
#include "tests/conformance/api/read_write/fixture.h"

namespace redlatch::conformance {
namespace {

// Writes down who gets in, in that order.
class Order {
 public:
  void Note(std::string who) {
    const base::MutexLock lock(mu_);
    order_.push_back(std::move(who));
  }
  std::vector<std::string> Get() const {
    const base::MutexLock lock(mu_);
    return order_;
  }

 private:
  mutable base::Mutex mu_;
  std::vector<std::string> order_ ABSL_GUARDED_BY(mu_);
};

using Names = std::vector<std::string>;

class ReadWritePolicy : public ReadWriteConformance {
 protected:
  // Each in a thread of its own, which notes the name when it is in, and then goes.
  void StartReader(Crew& crew, Lock& lock, const std::string& name) {
    crew.Start([this, &lock, name] {
      const auto lease = lock.AcquireRead({.wait = kPatience});
      ASSERT_OK(lease);
      order_.Note(name);
    });
  }
  void StartWriter(Crew& crew, Lock& lock, const std::string& name) {
    crew.Start([this, &lock, name] {
      const auto lease = lock.AcquireWrite({.wait = kPatience});
      ASSERT_OK(lease);
      order_.Note(name);
    });
  }

  Order order_;
};

TEST_P(ReadWritePolicy, PhaseFairReadersThatWaitedThroughAWriteGoBeforeTheNext) {
  const auto mine = NewReadWrite(NewClient(), Policy::kPhaseFair);
  const auto second = NewReadWrite(NewClient(), Policy::kPhaseFair);
  const auto readers = NewReadWrite(NewClient(), Policy::kPhaseFair);
  std::optional<Lease> writing = *mine->AcquireWrite();
  Crew crew;
  StartWriter(crew, *second, "writer");
  ASSERT_TRUE(AwaitWaiting(1));
  StartReader(crew, *readers, "reader");
  ASSERT_TRUE(AwaitWaiting(2));
  EXPECT_OK(writing->Release());
  crew.Join();
  EXPECT_EQ(order_.Get(), (Names{"reader", "writer"}));
}

TEST_P(ReadWritePolicy, PhaseFairReadersAreNotStarvedByAStreamOfWriters) {
  std::atomic<bool> over{false};
  std::atomic<int> writes{0};
  Crew writers;
  const Client clients[] = {NewClient(), NewClient(), NewClient()};
  for (const Client& client : clients) {
    writers.Start([&] {
      const auto lock = NewReadWrite(client, Policy::kPhaseFair);
      while (!over) {
        const auto lease = lock->AcquireWrite({.wait = kPatience});
        EXPECT_OK(lease);
        ++writes;
      }
    });
  }
  const auto reader = NewReadWrite(NewClient(), Policy::kPhaseFair);
  EXPECT_TRUE(Await([&] { return writes > 10; }));
  for (int i = 0; i < 20; ++i) EXPECT_OK(reader->AcquireRead({.wait = kPatience}));
  over = true;
}

INSTANTIATE_FOR_READ_WRITE(ReadWritePolicy);

}  // namespace
}  // namespace redlatch::conformance
