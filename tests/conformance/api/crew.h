// Threads, and what they must not touch two at a time.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_CREW_H_
#define REDLATCH_TESTS_CONFORMANCE_API_CREW_H_

#include "tests/support/live_testing.h"
#include "tests/support/testing.h"

namespace redlatch::conformance {

// What only the holder of a lock may touch. Two at a time, an update that is lost, and a token that
// does not grow all show; so does a hold that is not valid.
class Protected {
 public:
  void Touch(const Hold& hold) {
    EXPECT_FALSE(inside_.exchange(true)) << "two holders at a time";
    EXPECT_TRUE(hold.valid());
    EXPECT_GT(hold.fencing_token().value(), token_.load());
    token_ = hold.fencing_token().value();
    const int64_t seen = touches_;
    if (seen % 4 == 0) std::this_thread::yield();
    touches_ = seen + 1;
    inside_ = false;
  }
  int64_t touches() const { return touches_; }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<uint64_t> token_{0};
  std::atomic<int64_t> touches_{0};
};

// Threads that are joined when this goes.
class Crew {
 public:
  Crew() = default;
  ~Crew() { Join(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void Start(std::function<void()> work) { threads_.emplace_back(std::move(work)); }
  void Start(int threads, const std::function<void(int)>& work) {
    for (int i = 0; i < threads; ++i) Start([work, i] { work(i); });
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_CREW_H_
