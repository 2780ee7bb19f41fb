#include "src/base/error_address.h"

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

std::string WithAddressOf(std::string message, size_t from = 0) {
  AddAddress(message, from);
  return message;
}

TEST(ErrorAddress, EndsKnownMessageWithAddressOfItsSection) {
  EXPECT_EQ(WithAddressOf("redis://a:6379 did not answer in time"),
            "redis://a:6379 did not answer in time [https://redlatch.dev/e/no-answer]");
  EXPECT_EQ(WithAddressOf("someone else holds it; waited 5s"), "someone else holds it; waited 5s");
  EXPECT_EQ(WithAddressOf(""), "");
}

TEST(ErrorAddress, CauseDecidesBeforeWhatItLeadsTo) {
  EXPECT_EQ(AnchorOf("the release is not confirmed yet; it is being repeated in the background: "
                     "redis://a:6379 answered: NOPERM this user has no permissions"),
            "noperm");
  EXPECT_EQ(AnchorOf("1 of 3 servers answered, and 2 are needed: redis://a did not answer in time"),
            "no-quorum");
}

TEST(ErrorAddress, TextBeforeFromDoesNotDecide) {
  const std::string title = "lock \"NOPERM\": ";
  EXPECT_EQ(WithAddressOf(title + "the hold has ended", title.size()),
            title + "the hold has ended [https://redlatch.dev/e/lost]");
  EXPECT_EQ(WithAddressOf(title, title.size()), title);
}

TEST(ErrorAddress, AddressInsideTextMovesToItsEnd) {
  const std::string inner = WithAddressOf("lost it: its lease expired");
  EXPECT_EQ(WithAddressOf("the work was stopped, as " + inner + "; its command has ended"),
            "the work was stopped, as lost it: its lease expired; its command has ended "
            "[https://redlatch.dev/e/lease-expired]");
  EXPECT_EQ(WithAddressOf(inner), inner);
}

TEST(ErrorAddress, MessageOfSeveralHasTheFirstAddress) {
  const std::string one = WithAddressOf("LOADING"), two = WithAddressOf("READONLY");
  EXPECT_EQ(WithAddressOf(one + "; " + two), "LOADING; READONLY [https://redlatch.dev/e/loading]");
}

TEST(ErrorAddress, AddressStandsBeforeLineToCopy) {
  const std::string address = " [https://redlatch.dev/e/noperm]";
  const std::string advice = " (grant it: ACL SETUSER app +eval)";
  const std::string whole = WithAddressOf("NOPERM no permissions" + advice);
  EXPECT_EQ(whole, "NOPERM no permissions" + address + advice);
  EXPECT_EQ(WithAddressOf(whole), whole);
  const std::string rule = "; this lock's: ACL SETUSER app ~x";
  EXPECT_EQ(WithAddressOf("NOPERM no key" + rule), "NOPERM no key" + address + rule);
  const std::string title = "lock \"(ACL SETUSER\": ";
  EXPECT_EQ(WithAddressOf(title + "NOPERM no key" + rule, title.size()),
            title + "NOPERM no key" + address + rule);
}

TEST(ErrorAddress, OnlyErrorsGetAddresses) {
  const absl::Status busy = absl::DeadlineExceededError("READONLY");
  EXPECT_EQ(WithAddress(busy), busy);
  const absl::Status stopped = absl::CancelledError("READONLY");
  EXPECT_EQ(WithAddress(stopped), stopped);
  EXPECT_EQ(WithAddress(absl::OkStatus()), absl::OkStatus());
  EXPECT_EQ(WithAddress(absl::UnavailableError("READONLY")),
            absl::UnavailableError("READONLY [https://redlatch.dev/e/readonly]"));
}

}  // namespace
}  // namespace redlatch::base
