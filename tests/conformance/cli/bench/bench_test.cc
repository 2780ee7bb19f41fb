// `redlatch bench`, beside a real server.

#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

class RedlatchBenchTest : public RedlatchCommandTest {
 protected:
  void ExpectNothingLeft() const {
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
    EXPECT_THAT(server_->Command({"PUBSUB", "CHANNELS"}).elements, IsEmpty());
  }

  int64_t Pings() const { return server_->Calls({"ping"}); }

  // Starts a benchmark, and waits until it measures.
  std::unique_ptr<support::Child> StartAndAwaitLoad(const Words& words) const {
    const int64_t before = Pings();
    auto bench = StartRedlatch(Join({"bench", "--time", "10m"}, words));
    EXPECT_TRUE(support::Await([&] { return Pings() >= before + 100; }, absl::Seconds(30)));
    return bench;
  }
};

// Checks that the figures are consistent, on any machine, and prints those that are not.
constexpr char kConsistent[] = R"py(
import json, sys
figures = json.load(sys.stdin)
wrong = []
def check(what, fine):
    if not fine: wrong.append(what)
for name in ('round_trip', 'hand_over'):
    for side in ('redlatch', 'plain'):
        times = figures[name][side]
        what = name + ' ' + side
        check(what, 0 < times['p50_us'] <= times['worst_us'] and times['samples'] > 0)
        check(what + ' p99', (times['p99_us'] is None) == (times['samples'] < 100))
        if times['p99_us']: check(what + ' order', times['p50_us'] <= times['p99_us'] <= times['worst_us'])
for name in ('one_thread', 'own_locks', 'one_lock'):
    for side in ('redlatch', 'plain'):
        check(name + ' ' + side, figures['locks_per_s_' + name][side] > 0)
check('lease', figures['lease_at_least_s'] * 1e6 >= 20 * figures['round_trip']['redlatch']['worst_us'])
check('interrupted', figures['interrupted'] is False)
check('threads', figures['threads'] == 8)
print('wrong: ' + ', '.join(wrong))
)py";

TEST_F(RedlatchBenchTest, FiguresAreConsistentAndNothingIsLeft) {
  const auto bench = StartRedlatch({"bench", "--time", "4s", "--json"});
  const std::string output = OutputOf(*bench);
  EXPECT_EQ(CodeOf(*bench), 0) << Errors();
  const auto python = support::Child::Exec({"python3", "-c", kConsistent});
  python->pipe().WriteLine(output);
  python->pipe().CloseWrite();
  EXPECT_EQ(python->pipe().ReadLine(), "wrong: ") << output;
  ExpectNothingLeft();
  EXPECT_THAT(Errors(), HasSubstr("for about 4 s " + server_->url() + " will be kept busy"));
}

TEST_F(RedlatchBenchTest, PrintsATableAndItsMeaning) {
  const auto bench = StartRedlatch({"bench", "--time=1"});
  const std::string output = OutputOf(*bench);
  EXPECT_EQ(CodeOf(*bench), 0) << Errors();
  EXPECT_THAT(output, HasSubstr("redlatch   plain Redis\n"));
  EXPECT_THAT(output, HasSubstr("Leases should be at least"));
}

TEST_F(RedlatchBenchTest, EndsCleanlyWhenItIsInterrupted) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto bench = StartAndAwaitLoad({"--json"});
    bench->Signal(signal);
    const std::string output = OutputOf(*bench);
    EXPECT_EQ(CodeOf(*bench, absl::Seconds(20)), 128 + signal);
    EXPECT_THAT(output, HasSubstr("\"interrupted\":true"));
    // A figure that was not measured is null.
    EXPECT_THAT(output, HasSubstr("\"locks_per_s_one_lock\":{\"redlatch\":null"));
    ExpectNothingLeft();
  }
}

TEST_F(RedlatchBenchTest, EndsIfTheServerEnds) {
  const auto bench = StartAndAwaitLoad({});
  server_->Kill();
  EXPECT_EQ(CodeOf(*bench), 121);
  EXPECT_THAT(OutputOf(*bench), IsEmpty());
  EXPECT_THAT(Errors(), HasSubstr(server_->url()));
}

TEST_F(RedlatchBenchTest, ConnectsOnceIfServerIsUnreachable) {
  support::TcpProxy proxy({.port = server_->port()});
  proxy.Drop(support::Direction::kToClient);
  const auto bench = StartRedlatch({"bench", "--server", proxy.url()});
  EXPECT_EQ(CodeOf(*bench), 121);
  EXPECT_EQ(proxy.stats().accepted, 1);
}

TEST_F(RedlatchBenchTest, ReportsARefusalOfTheServer) {
  server_->Command({"CONFIG", "SET", "maxmemory", "100mb"});
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  const auto bench = StartRedlatch({"bench"});
  EXPECT_EQ(CodeOf(*bench), 123);
  EXPECT_THAT(Errors(), HasSubstr("maxmemory-policy"));
}

}  // namespace
}  // namespace redlatch
