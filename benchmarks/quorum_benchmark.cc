// The cost of a quorum of five servers: lock and unlock of a RedLock and of a lock on one server,
// turn by turn; the cost of a plain SET and DEL at all five; and a RedLock with two of the five
// dead, hung, or late by a second, beside five healthy ones.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmarks/turns.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/server_groups.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::bench {
namespace {

using support::QuorumGroup;
using support::RedisServer;
using support::TcpProxy;

// Longer than it takes to find out that a server hangs.
constexpr absl::Duration kSettled = absl::Seconds(2);

Client Connect(const std::string& url) {
  absl::StatusOr<Client> client = Client::Connect(url);
  if (!client.ok()) abort();
  return *std::move(client);
}

QuorumGroup& Well() {
  static auto* const group = new QuorumGroup();
  return *group;
}

void BM_Quorum_Pair(benchmark::State& state) {
  const auto server = RedisServer::Start();
  SimpleLock plain(Connect(server->url()), "lock");
  RedLock quorum(Connect(Well().url()), "lock");
  Compare(
      state, 20, [&](int rounds) { Pairs(plain, rounds); },
      [&](int rounds) { Pairs(quorum, rounds); });
}
BENCHMARK(BM_Quorum_Pair)->UseRealTime()->Iterations(500);

// SET key id NX PX 30000 and DEL key at all servers over plain sockets, which wait only for a
// majority's replies: the machine's part of a RedLock's pair.
class LeastQuorum {
 public:
  explicit LeastQuorum(QuorumGroup& servers) {
    for (size_t i = 0; i < servers.size(); ++i) {
      connections_.push_back(support::RawConnection::ToPort(servers[i].port()));
      sockets_.push_back({.fd = connections_.back().descriptor(), .events = POLLIN, .revents = 0});
    }
    owed_.resize(sockets_.size());
  }
  void lock() {
    Ask("*6\r\n$3\r\nSET\r\n$5\r\nleast\r\n$2\r\nid\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n");
  }
  void unlock() { Ask("*2\r\n$3\r\nDEL\r\n$5\r\nleast\r\n"); }

 private:
  void Ask(std::string_view command) {
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (send(sockets_[i].fd, command.data(), command.size(), 0) < 0) abort();
      ++owed_[i];
    }
    while (std::count(owed_.begin(), owed_.end(), 0) <= static_cast<int>(owed_.size() / 2)) {
      poll(sockets_.data(), sockets_.size(), -1);
      for (size_t i = 0; i < sockets_.size(); ++i) {
        if (sockets_[i].revents == 0) continue;
        std::array<char, 256> text = {};
        const ssize_t size = recv(sockets_[i].fd, text.data(), text.size(), 0);
        if (size <= 0) abort();
        owed_[i] -= static_cast<int>(std::count(text.begin(), text.begin() + size, '\n'));
      }
    }
  }

  std::vector<support::RawConnection> connections_;
  std::vector<pollfd> sockets_;
  std::vector<int> owed_;  // replies
};

void BM_Quorum_LeastPair(benchmark::State& state) {
  const auto server = RedisServer::Start();
  SimpleLock plain(Connect(server->url()), "lock");
  LeastQuorum quorum(Well());
  Compare(
      state, 20, [&](int rounds) { Pairs(plain, rounds); },
      [&](int rounds) { Pairs(quorum, rounds); });
}
BENCHMARK(BM_Quorum_LeastPair)->UseRealTime()->Iterations(500);

// Beside five healthy servers, in the same turns.
void CompareWithWell(benchmark::State& state, RedLock& lock) {
  RedLock well(Connect(Well().url()), "lock");
  const base::Instant settled = base::Now() + kSettled;
  while (base::Now() < settled) Pairs(lock, 20);
  Compare(
      state, 20, [&](int rounds) { Pairs(well, rounds); },
      [&](int rounds) { Pairs(lock, rounds); });
}

void BM_Quorum_TwoDead(benchmark::State& state) {
  QuorumGroup servers;
  RedLock lock(Connect(servers.url()), "lock");
  Pairs(lock, 20);
  servers[0].Kill();
  servers[3].Kill();
  CompareWithWell(state, lock);
}
BENCHMARK(BM_Quorum_TwoDead)->UseRealTime()->Iterations(500);

void BM_Quorum_TwoHanging(benchmark::State& state) {
  QuorumGroup servers;
  RedLock lock(Connect(servers.url()), "lock");
  Pairs(lock, 20);
  servers[0].Stop();
  servers[3].Stop();
  CompareWithWell(state, lock);
  servers[0].Continue();
  servers[3].Continue();
}
BENCHMARK(BM_Quorum_TwoHanging)->UseRealTime()->Iterations(500);

void BM_Quorum_TwoSlow(benchmark::State& state) {
  QuorumGroup servers;
  TcpProxy first({.port = servers[0].port()});
  TcpProxy second({.port = servers[3].port()});
  RedLock lock(Connect(absl::StrCat("redlock:", first.url(), ",", servers[1].url(), ",",
                                    servers[2].url(), ",", second.url(), ",", servers[4].url())),
               "lock");
  Pairs(lock, 20);
  first.Delay(support::Direction::kToClient, absl::Seconds(1));
  second.Delay(support::Direction::kToClient, absl::Seconds(1));
  CompareWithWell(state, lock);
}
BENCHMARK(BM_Quorum_TwoSlow)->UseRealTime()->Iterations(500);

}  // namespace
}  // namespace redlatch::bench
