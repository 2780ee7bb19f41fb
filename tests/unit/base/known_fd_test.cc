#include "src/base/known_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "src/base/clock.h"
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

TEST(KnownFd, IsTrustedForAMomentAfterItWasVerified) {
  KnownFd fd(NewSocket(), Kind::kSocket);
  const Instant now = Now();
  EXPECT_TRUE(fd.VerifyAgain(now));
  close(fd.get());
  EXPECT_TRUE(fd.VerifyAgain(now + absl::Milliseconds(9)));
  EXPECT_FALSE(fd.VerifyAgain(now + absl::Milliseconds(11)));
  EXPECT_EQ(fd.get(), -1);
}

TEST(KnownFd, IsNotTrustedOnceAnotherWasFoundToBeGone) {
  KnownFd fd(NewSocket(), Kind::kSocket);
  KnownFd other(NewEvent(), Kind::kEvent);
  const Instant now = Now();
  EXPECT_TRUE(fd.VerifyAgain(now));
  close(fd.get());
  close(other.get());
  EXPECT_FALSE(other.Verify());
  EXPECT_FALSE(fd.VerifyAgain(now));
}

// Two ends of a connection.
struct Pair {
  UniqueFd here;
  UniqueFd there;
};

Pair UnixPair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Somewhere to connect to over TCP.
class Listener {
 public:
  explicit Listener(int backlog) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    EXPECT_EQ(bind(fd_.get(), at(), size), 0);
    EXPECT_EQ(listen(fd_.get(), backlog), 0);
    EXPECT_EQ(getsockname(fd_.get(), at(), &size), 0);
  }
  // connect()'s result.
  int Connect(const UniqueFd& from) { return connect(from.get(), at(), sizeof address_); }
  UniqueFd Accept() const { return UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  sockaddr* at() { return reinterpret_cast<sockaddr*>(&address_); }

  const UniqueFd fd_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address_ = {};
};

Pair TcpPair() {
  Listener listener(/*backlog=*/1);
  UniqueFd here(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(listener.Connect(here), 0);
  return {std::move(here), listener.Accept()};
}

Pair PipePair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  return {UniqueFd(ends[1]), UniqueFd(ends[0])};
}

// What arrives there within a moment, at most.
std::string Arrived(const UniqueFd& there, int moment_ms = 50) {
  pollfd arrival = {.fd = there.get(), .events = POLLIN, .revents = 0};
  if (poll(&arrival, 1, moment_ms) != 1) return "";
  char buffer[64];
  const ssize_t got = read(there.get(), buffer, sizeof buffer);
  return got < 0 ? "" : std::string(buffer, static_cast<size_t>(got));
}
constexpr int kPatienceMs = 10'000;

class KnownFdSend : public ::testing::TestWithParam<Pair (*)()> {};

TEST_P(KnownFdSend, ReachesTheOtherEnd) {
  Pair pair = GetParam()();
  KnownFd fd(pair.here.Release(), Kind::kSocket);
  EXPECT_EQ(fd.Send("first", MSG_NOSIGNAL), 5);
  EXPECT_EQ(Arrived(pair.there, kPatienceMs), "first");
  EXPECT_EQ(fd.Send("second", MSG_NOSIGNAL), 6);
  EXPECT_EQ(Arrived(pair.there, kPatienceMs), "second");
}

TEST_P(KnownFdSend, ReachesNobodyElse) {
  for (Pair (*const other)() : {UnixPair, TcpPair, PipePair}) {
    Pair pair = GetParam()();
    KnownFd fd(pair.here.Release(), Kind::kSocket);
    const Pair theirs = other();
    ASSERT_EQ(dup2(theirs.here.get(), fd.get()), fd.get());
    const UniqueFd number(fd.get());
    EXPECT_EQ(fd.Send("text", MSG_NOSIGNAL), -1);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(fd.get(), -1);
    EXPECT_EQ(Arrived(theirs.there), "");
    EXPECT_EQ(Arrived(pair.there), "");
    EXPECT_TRUE(IsOpen(number.get()));
  }
}

TEST_P(KnownFdSend, ReachesNoneThatIsClosed) {
  Pair pair = GetParam()();
  KnownFd fd(pair.here.Release(), Kind::kSocket);
  close(fd.get());
  EXPECT_EQ(fd.Send("text", MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(fd.get(), -1);
}

INSTANTIATE_TEST_SUITE_P(OfAnyKind, KnownFdSend, ::testing::Values(UnixPair, TcpPair));

TEST(KnownFd, OfTwoWithOneNumberTheLaterOneSends) {
  Pair old = TcpPair();
  KnownFd first(old.here.Release(), Kind::kSocket);
  Pair fresh = TcpPair();
  ASSERT_EQ(dup2(fresh.here.get(), first.get()), first.get());
  KnownFd second(first.get(), Kind::kSocket);
  EXPECT_EQ(first.Send("first", MSG_NOSIGNAL), -1);
  EXPECT_EQ(second.Send("second", MSG_NOSIGNAL), 6);
  EXPECT_EQ(Arrived(fresh.there, kPatienceMs), "second");
}

TEST(KnownFd, TheKernelChecksWhatIsSentOverTcp) {
  Pair pair = TcpPair();
  KnownFd fd(pair.here.Release(), Kind::kSocket);
  const int number = fd.get();
  ASSERT_EQ(fcntl(number, F_SETSIG, 0), 0);  // nobody looks at the mark
  EXPECT_EQ(fd.Send("text", MSG_NOSIGNAL), 4);
  EXPECT_FALSE(fd.Verify());
  close(number);
}

TEST(KnownFd, SendsNothingToASocketThatIsBeingConnected) {
  Pair pair = TcpPair();
  KnownFd fd(pair.here.Release(), Kind::kSocket);
  Listener listener(/*backlog=*/0);
  std::vector<UniqueFd> others;  // until the backlog is full, and nothing answers there
  do {
    others.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_NE(others.back().get(), -1);
    static_cast<void>(listener.Connect(others.back()));
    pollfd made = {.fd = others.back().get(), .events = POLLOUT, .revents = 0};
    if (poll(&made, 1, 100) == 0) break;
  } while (others.size() < 100);
  ASSERT_LT(others.size(), 100U);
  ASSERT_EQ(dup2(others.back().get(), fd.get()), fd.get());
  const UniqueFd number(fd.get());
  EXPECT_EQ(fd.Send("text", MSG_NOSIGNAL | MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(fd.get(), -1);
}

void Confine(absl::Span<sock_filter> program) {
  const sock_fprog filter = {.len = static_cast<uint16_t>(program.size()),
                             .filter = program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    _exit(2);
  }
}

void RefuseMarks() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETSIG, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  Confine(absl::MakeSpan(program));
}

void RefuseMessages() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  Confine(absl::MakeSpan(program));
}

// In processes of their own, which never get rid of the filter.
TEST(KnownFdDeathTest, WorksWhereASandboxRefusesMarks) {
  EXPECT_EXIT(
      {
        RefuseMarks();
        KnownFd fd(NewSocket(), Kind::kSocket);
        _exit(fd.Verify() && KnownFd::Names(fd.get(), Kind::kSocket) ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(KnownFdDeathTest, SendsWhereASandboxRefusesMessages) {
  EXPECT_EXIT(
      {
        Pair pair = TcpPair();
        KnownFd fd(pair.here.Release(), Kind::kSocket);
        RefuseMessages();
        const bool sent = fd.Send("text", MSG_NOSIGNAL) == 4;
        _exit(sent && Arrived(pair.there, kPatienceMs) == "text" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace redlatch::base
