// The cost of sentinels that are dead, slow or wrong: connecting through three healthy ones and
// through others, turn by turn.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "benchmarks/turns.h"
#include "redlatch/client.h"
#include "tests/support/fake_server.h"
#include "tests/support/resources.h"
#include "tests/support/server_groups.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::bench {
namespace {

using support::SentinelGroup;

std::string At(int port) { return absl::StrCat("127.0.0.1:", port); }

// Three sentinels of a group, and others that may replace them.
struct Sentinels {
  std::unique_ptr<SentinelGroup> group = SentinelGroup::Start();
  support::ReservedPort dead;
  support::FakeSentinel behind{[this] { return group->port(1); }, /*epoch=*/0};
  support::FakeSentinel wrong{[this] { return dead.number(); }, /*epoch=*/0};
  support::TcpProxy slow{{.port = group->sentinel(2).port()}};

  Sentinels() { slow.Delay(support::Direction::kToClient, absl::Seconds(5)); }
  std::string real(size_t i) const { return At(group->sentinel(i).port()); }
};

Sentinels& All() {
  static Sentinels all;
  return all;
}

void Connect(const std::string& url, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    if (!Client::Connect(url).ok()) abort();
  }
}

template <class... Hosts>
void BM_Sentinel_Connect(benchmark::State& state, Hosts... hosts) {
  Sentinels& all = All();
  const std::string url = absl::StrCat("redis-sentinel://", absl::StrJoin({hosts(all)...}, ","),
                                       "/", SentinelGroup::kPrimary, "?connect_timeout=20s");
  Compare(
      state, 5, [&](int rounds) { Connect(all.group->url(), rounds); },
      [&](int rounds) { Connect(url, rounds); });
}

constexpr auto kFirst = [](Sentinels& all) { return all.real(0); };
constexpr auto kSecond = [](Sentinels& all) { return all.real(1); };
constexpr auto kThird = [](Sentinels& all) { return all.real(2); };
constexpr auto kDead = [](Sentinels& all) { return At(all.dead.number()); };
constexpr auto kNamesAReplica = [](Sentinels& all) { return all.behind.address(); };
constexpr auto kNamesNobody = [](Sentinels& all) { return all.wrong.address(); };
constexpr auto kSlow = [](Sentinels& all) { return At(all.slow.port()); };

BENCHMARK_CAPTURE(BM_Sentinel_Connect, well, kFirst, kSecond, kThird)->Iterations(20);
BENCHMARK_CAPTURE(BM_Sentinel_Connect, dead, kDead, kSecond, kThird)->Iterations(20);
BENCHMARK_CAPTURE(BM_Sentinel_Connect, names_a_replica, kNamesAReplica, kSecond, kThird)
    ->Iterations(20);
BENCHMARK_CAPTURE(BM_Sentinel_Connect, names_nobody, kNamesNobody, kSecond, kThird)->Iterations(20);
BENCHMARK_CAPTURE(BM_Sentinel_Connect, slow, kFirst, kSecond, kSlow)->Iterations(20);
BENCHMARK_CAPTURE(BM_Sentinel_Connect, dead_wrong_and_slow, kDead, kNamesAReplica, kSlow)
    ->Iterations(20);

}  // namespace
}  // namespace redlatch::bench
