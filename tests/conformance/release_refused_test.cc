// A server that permits to take a lock, and not to release it.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/conformance/conformance.h"
#include "tests/conformance/recorder.h"
#include "tests/conformance/stats_matcher.h"

namespace redlatch::conformance {
namespace {

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
    std::string url = server().url();
    return ClientAt(url.insert(url.find("//") + 2, "app:x@"), {}, std::move(options));
  }
  void ExpectCountedOnce(const Client& client) {
    const LockStats stats = StatsOf(client, kName);
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
  lock->lock();
  Permit("-evalsha");
  ::testing::internal::CaptureStderr();
  lock->unlock();
  std::string said;
  EXPECT_TRUE(Await([&] {
    said += ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    return said.find("the server refused to release it") != std::string::npos;
  })) << said;
  ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("evalsha"), std::string::npos) << said;
  ExpectCountedOnce(client);
}

INSTANTIATE_FOR_KINDS(ReleaseRefused);

}  // namespace
}  // namespace redlatch::conformance
