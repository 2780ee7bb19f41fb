// The cost of TLS: each loop over a plain connection and over TLS, to the same server, turn by
// turn.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "benchmarks/turns.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/simple_lock.h"
#include "tests/support/authority.h"
#include "tests/support/redis_server.h"

namespace redlatch::bench {
namespace {

support::RedisServer& TlsServer() {
  static support::Authority authority;
  static const std::unique_ptr<support::RedisServer> server = support::RedisServer::Start(
      {.tls = support::ServerTls{.cert = authority.Certify(), .ca = authority.file()}});
  return *server;
}

const Client& Plain() {
  static const Client client = *Client::Connect(TlsServer().url());
  return client;
}

const Client& Tls() {
  static const Client client = *Client::Connect(TlsServer().tls_url());
  return client;
}

template <class Lock>
void BM_Tls_Uncontended(benchmark::State& state) {
  Lock without(Plain(), "tls_uncontended:plain");
  Lock with(Tls(), "tls_uncontended:tls");
  Compare(
      state, 20, [&](int rounds) { Pairs(without, rounds); },
      [&](int rounds) { Pairs(with, rounds); });
}
BENCHMARK(BM_Tls_Uncontended<SimpleLock>)->UseRealTime()->Iterations(500);
BENCHMARK(BM_Tls_Uncontended<ReentrantReadWriteLock>)->UseRealTime()->Iterations(500);

}  // namespace
}  // namespace redlatch::bench
