// What a connection does to its process and its children: fork, exec, signals.
#include <signal.h>

#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

using support::Child;
using support::LinePipe;

constexpr absl::Duration kChildsTime = absl::Seconds(10);

class SharedConnectionForkTest : public ChannelFixture {
 protected:
  std::unique_ptr<SharedConnection> connection_ = Connected(Direct());
};

// A child that lives on holds a copy of the descriptor: closing ours alone would end nothing, and
// what the kernel still has to send would arrive.
class ChildLivesOnTest : public SharedConnectionForkTest {
 protected:
  // Forks where `connection` is connected.
  std::unique_ptr<Child> Fork() {
    return Child::Fork([](LinePipe& parent) {
      parent.ReadLine(absl::InfiniteDuration());
      return 0;
    });
  }
  bool AwaitOpen(int connections) {
    return proxy_.Await([=](const support::ProxyStats& stats) { return stats.open == connections; },
                        kChildsTime / 2);
  }
};

TEST_F(ChildLivesOnTest, AConnectionThatIsGivenUpEnds) {
  SharedConnectionOptions options;
  options.stall_timeout = absl::Milliseconds(1);
  const auto connection = Connected(Proxied(options));
  const auto child = Fork();
  proxy_.Hold(Direction::kToClient, Scope::kExisting);
  EXPECT_FALSE(connection->Call({"PING"}, In(absl::Milliseconds(50))).ok());
  EXPECT_EQ(Echo(*connection, "anew"), "anew");
  EXPECT_EQ(connection->stats().connects, 2);
  proxy_.ReleaseHeld();
  EXPECT_TRUE(AwaitOpen(1));
}

TEST_F(ChildLivesOnTest, WhatWasNotSentOverAConnectionThatIsGivenUpNeverArrives) {
  SharedConnectionOptions options;
  options.stall_timeout = absl::Milliseconds(1);
  SharedConnection connection(UrlOf(server_->url()), options);
  ASSERT_TRUE(connection.Connect(In(kPatience)).ok());
  const auto child = Fork();
  // More than the server's side takes while it stands still; its last byte stays in our kernel.
  server_->Stop();
  const std::string big(size_t{8} << 20, 'b');
  EXPECT_FALSE(connection.Call({"SET", "big", big}, In(absl::Milliseconds(200))).ok());
  server_->Continue();
  EXPECT_EQ(Echo(connection, "anew"), "anew");
  EXPECT_EQ(server_->Text({"EXISTS", "big"}), "0");
  EXPECT_TRUE(server_->AwaitInfo("connected_clients", "3")) << server_->Info("connected_clients");
}

// What "ls" finds open when it is run from here.
int DescriptorsOfAnExecedChild() {
  FILE* list = popen("ls /proc/self/fd", "r");
  int count = 0;
  for (int c = 0; (c = std::fgetc(list)) != EOF;) count += c == '\n';
  pclose(list);
  return count;
}

TEST_F(SharedConnectionForkTest, AnExecedChildInheritsNoDescriptor) {
  connection_.reset();
  const int before = DescriptorsOfAnExecedChild();
  connection_ = Connected(Direct());
  const SharedConnection over_unix(UrlOf(server_->unix_url()));
  EXPECT_EQ(DescriptorsOfAnExecedChild(), before);
}

TEST_F(SharedConnectionForkTest, WritingToAConnectionThatTheServerClosedRaisesNoSignal) {
  ASSERT_NE(signal(SIGPIPE, SIG_DFL), SIG_ERR);  // it would end this process
  for (int i = 0; i < 5; ++i) {
    server_->Kill();
    // The first is answered with a reset, the next finds the pipe broken.
    for (int k = 0; k < 3; ++k) (void)connection_->Send({"PING"});
    server_->Restart();
    EXPECT_TRUE(Await([&] { return Echo(*connection_, "still here") == "still here"; }));
  }
}

}  // namespace
}  // namespace redlatch::redis
