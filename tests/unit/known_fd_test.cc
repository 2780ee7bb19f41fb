#include "src/base/known_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "src/base/unique_fd.h"

namespace redlatch::base {
namespace {

using Kind = KnownFd::Kind;

int NewSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }
int NewEvent() { return eventfd(0, EFD_CLOEXEC); }
bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(KnownFd, IsItsOwnAndIsClosedWithIt) {
  int number = -1;
  {
    KnownFd fd(NewSocket(), Kind::kSocket);
    number = fd.get();
    EXPECT_TRUE(fd.Verify());
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(KnownFd, NothingIsNobodys) {
  KnownFd fd(Kind::kSocket);
  EXPECT_FALSE(fd.Verify());
  fd.Take(-1);
  EXPECT_EQ(fd.get(), -1);
  EXPECT_FALSE(fd.Verify());
}

TEST(KnownFd, AClosedOneIsLetGoOf) {
  KnownFd fd(NewSocket(), Kind::kSocket);
  close(fd.get());
  EXPECT_FALSE(fd.Verify());
  EXPECT_EQ(fd.get(), -1);
}

// Somebody else's descriptors that were given its number.
class KnownFdImpostor : public ::testing::TestWithParam<int (*)()> {};

TEST_P(KnownFdImpostor, IsLeftAlone) {
  std::optional<KnownFd> fd(std::in_place, NewEvent(), Kind::kEvent);
  const int number = fd->get();
  const UniqueFd other(GetParam()());
  ASSERT_EQ(dup2(other.get(), number), number);
  fd.reset();
  EXPECT_TRUE(IsOpen(number));
  close(number);
}

INSTANTIATE_TEST_SUITE_P(OfAnyKind, KnownFdImpostor, ::testing::Values(NewSocket, NewEvent, [] {
                           return open("/dev/null", O_RDWR | O_CLOEXEC);
                         }));

TEST(KnownFd, OfTwoWithOneNumberTheLaterOneHasIt) {
  std::optional<KnownFd> first(std::in_place, NewEvent(), Kind::kEvent);
  const int number = first->get();
  close(number);
  KnownFd second(NewEvent(), Kind::kEvent);  // the lowest that is free
  ASSERT_EQ(second.get(), number);
  first.reset();
  EXPECT_TRUE(second.Verify());
  EXPECT_TRUE(IsOpen(number));
}

TEST(KnownFd, ACopyOfItElsewhereIsNotIt) {
  std::optional<KnownFd> fd(std::in_place, NewSocket(), Kind::kSocket);
  const UniqueFd copy(dup(fd->get()));
  fd.reset();
  EXPECT_TRUE(IsOpen(copy.get()));
}

TEST(KnownFd, KindsAreToldApart) {
  const KnownFd socket(NewSocket(), Kind::kSocket);
  const KnownFd event(NewEvent(), Kind::kEvent);
  EXPECT_TRUE(KnownFd::Names(socket.get(), Kind::kSocket));
  EXPECT_FALSE(KnownFd::Names(socket.get(), Kind::kEvent));
  EXPECT_TRUE(KnownFd::Names(event.get(), Kind::kEvent));
  EXPECT_FALSE(KnownFd::Names(STDERR_FILENO, Kind::kEvent));
  EXPECT_FALSE(KnownFd::Names(-1, Kind::kEvent));
}

}  // namespace
}  // namespace redlatch::base
