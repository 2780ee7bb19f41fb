#include "src/base/status.h"

#include "absl/strings/cord.h"
#include "src/redis/wire/errors.h"
#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

TEST(StatusTest, AnUnsharedCopyIsEqual) {
  absl::Status status = absl::UnavailableError("the server is down");
  status.SetPayload("redlatch.example", absl::Cord("payload"));
  EXPECT_EQ(Unshared(status), status);
  EXPECT_EQ(Unshared(absl::OkStatus()), absl::OkStatus());
  EXPECT_TRUE(redis::MayHaveExecuted(Unshared(redis::MarkMayHaveExecuted(status))));
}

TEST(StatusTest, AnUnsharedCopyHasATextOfItsOwn) {
  const absl::Status status = absl::UnavailableError("the server is down");
  EXPECT_NE(Unshared(status).message().data(), status.message().data());
}

}  // namespace
}  // namespace redlatch::base
