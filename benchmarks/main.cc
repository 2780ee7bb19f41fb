#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "benchmarks/bench_server.h"
#include "tests/support/redis_server.h"

namespace redlatch::bench {
namespace {

support::RedisServer& Server() {
  static const std::unique_ptr<support::RedisServer> server = support::RedisServer::Start();
  return *server;
}

}  // namespace

uint16_t ServerPort() { return static_cast<uint16_t>(Server().port()); }

std::string ServerUrl() { return Server().url(); }

RawConnection ConnectRaw() {
  RawConnection connection(redisConnect("127.0.0.1", ServerPort()));
  if (connection == nullptr || connection->err != 0) {
    std::fprintf(stderr, "cannot connect to the benchmarks' own server: %s\n",
                 connection == nullptr ? "out of memory" : connection->errstr);
    std::exit(1);
  }
  return connection;
}

}  // namespace redlatch::bench

BENCHMARK_MAIN();
