// What the tests of the latch have in common. They run over every way to reach a server that the
// locks' do.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_LATCH_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_API_LATCH_FIXTURE_H_

#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {

class LatchConformance : public Conformance {
 protected:
  // What comes sooner was not left to a heartbeat.
  static inline const absl::Duration kSoon = absl::Milliseconds(300);

  static std::unique_ptr<CountDownLatch> NewLatch(const Client& client, int64_t count,
                                                  std::string_view name = kName) {
    return std::make_unique<CountDownLatch>(client, name, count);
  }
  static std::unique_ptr<CountDownLatch> NewLatch(const Client& client, int64_t count,
                                                  LatchOptions options) {
    return std::make_unique<CountDownLatch>(client, kName, count, options);
  }

  // Wait(), where the server is well: a machine that runs it late is no answer.
  static absl::Status WaitFor(CountDownLatch& latch, absl::Duration wait) {
    absl::Status status = latch.Wait({.wait = wait});
    for (int i = 0; i < 100 && absl::IsUnavailable(status); ++i) {
      status = latch.Wait({.wait = wait});
    }
    return status;
  }
  // One that only looks.
  static absl::Status Look(CountDownLatch& latch) { return WaitFor(latch, absl::ZeroDuration()); }
  // try_wait(), likewise.
  static bool TryWait(CountDownLatch& latch) {
    for (int i = 0; i < 100; ++i) {
      try {
        return latch.try_wait();
      } catch (const std::system_error& error) {
        if (error.code() != MakeErrorCode(kUnreachable)) throw;
      }
    }
    return latch.try_wait();
  }
  static absl::Status PatientWait(CountDownLatch& latch) {
    return latch.Wait({.wait = 2 * kPatience});
  }
  // -1 where it cannot be told.
  static int64_t CountOf(CountDownLatch& latch) { return latch.Count().value_or(-1); }

  bool IsThere(std::string_view name = kName) { return IsHeld(name); }
  int64_t Pttl(const std::string& key) { return server().Integer({"PTTL", key}); }

  // How often the server has executed a command, scripts' calls included.
  int64_t CallsOf(std::string_view command) {
    const bool sharded = GetParam().deployment.cluster && command == "publish";
    const std::string line =
        server().Info(absl::StrCat(sharded ? "cmdstat_s" : "cmdstat_", std::string(command)));
    return line.empty() ? 0 : std::atoll(line.substr(line.find('=') + 1).c_str());
  }

 private:
  // Ends after all clients and latches of a test. A latch stays when it is open; nothing else does.
  class Sweeper {
   public:
    explicit Sweeper(LatchConformance& test) : test_(test) {}
    ~Sweeper() {
      EXPECT_TRUE(Await([this] {
        return test_.server().Command({"KEYS", "*.queue"}).elements.empty() &&
               test_.server().Command({"KEYS", "*.waiters"}).elements.empty();
      })) << "somebody is still queued";
      (void)test_.KeysLeft();  // each has a TTL
      test_.server().Command({"FLUSHALL"});
    }
    Sweeper(const Sweeper&) = delete;
    Sweeper& operator=(const Sweeper&) = delete;

   private:
    LatchConformance& test_;
  };
  const Sweeper sweeper_{*this};
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_LATCH_FIXTURE_H_
