// A server that permits to take a lock, and not to release it.
#include <sys/mman.h>

#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"
#include "tests/conformance/api/stats_matcher.h"

namespace redlatch::conformance {
namespace {

// What other threads write to stderr while it lives. Can be read without a gap, unlike
// GoogleTest's.
class Stderr {
 public:
  // A process writes one line per second at most, and the test before this one may have written it.
  Stderr() {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    dup2(file_.get(), STDERR_FILENO);
  }
  ~Stderr() { dup2(before_.get(), STDERR_FILENO); }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;

  std::string text() const {
    std::string text(4096, '\0');
    const ssize_t got = pread(file_.get(), text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  const base::UniqueFd before_{dup(STDERR_FILENO)};
  const base::UniqueFd file_{memfd_create("stderr", MFD_CLOEXEC)};
};

class ReleaseRefused : public Conformance {
 protected:
  ReleaseRefused() {
    UseOwnServer();
    Permit("+@all");
  }

  void Permit(const std::string& rule) {
    server().Command({"ACL", "SETUSER", "app", "on", ">x", "~*", "&*", rule});
  }
  Client NewAppClient(ClientOptions options = {}) {
    return ClientAt(server().UrlOfUser("app:x"), {}, std::move(options));
  }
  void ExpectCountedOnce(const Client& client) {
    const LockStats stats = StatsOf(client, Called());
    EXPECT_EQ(stats.acquired, 1);
    EXPECT_EQ(stats.released, 0);
    EXPECT_EQ(stats.releases_failed, 1);
    EXPECT_EQ(stats.releasing, 0);
  }
};

TEST_P(ReleaseRefused, IsToldToTheObserverOnceAndCountedOnce) {
  const auto heard = std::make_shared<Recorder>();
  const Client client = NewAppClient({.observer = heard});
  const auto lock = NewLock(client);
  lock->lock();
  const FencingToken token = lock->current().fencing_token();
  Permit("-evalsha");
  lock->unlock();
  EXPECT_TRUE(heard->Await("release failed"));
  const Recorder::Event failed = heard->All("release failed").at(0);
  EXPECT_EQ(failed.token, token);
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_GT(failed.remaining, kLease / 2);
  EXPECT_LE(failed.remaining, kLease);
  EXPECT_EQ(heard->Count("release failed"), 1);
  ExpectCountedOnce(client);
}

TEST_P(ReleaseRefused, IsToldOnStderrWhereThereIsNoObserver) {
  const Client client = NewAppClient();
  const auto lock = NewLock(client);
  const Stderr said;
  lock->lock();
  Permit("-evalsha");
  lock->unlock();
  EXPECT_TRUE(Await([&] {
    return said.text().find("the server refused to release it") != std::string::npos;
  })) << said.text();
  EXPECT_NE(said.text().find("evalsha"), std::string::npos) << said.text();
  ExpectCountedOnce(client);
}

INSTANTIATE_CONFORMANCE(ReleaseRefused, OverTcp(LockCases()));

}  // namespace
}  // namespace redlatch::conformance
