#include "benchmarks/bench_server.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/redis_server.h"

namespace redlatch::bench {
namespace {

uint16_t adopted_port = 0;

support::RedisServer& Server() {
  static const std::unique_ptr<support::RedisServer> server = support::RedisServer::Start();
  return *server;
}

}  // namespace

void AdoptServer(uint16_t port) { adopted_port = port; }

uint16_t ServerPort() {
  return adopted_port != 0 ? adopted_port : static_cast<uint16_t>(Server().port());
}

std::string ServerUrl() { return absl::StrCat("redis://127.0.0.1:", ServerPort()); }

CommandStats StatsOf(const std::vector<std::string>& commands) {
  CommandStats sum;
  for (const std::string& command : commands) {
    // "calls=12,usec=34,...", or nothing if it was never called.
    const std::string stats = Server().Info("cmdstat_" + command);
    const std::vector<std::string> fields = absl::StrSplit(stats, absl::ByAnyChar("=,"));
    int64_t calls = 0;
    int64_t microseconds = 0;
    if (fields.size() > 3 && absl::SimpleAtoi(fields[1], &calls) &&
        absl::SimpleAtoi(fields[3], &microseconds)) {
      sum.calls += calls;
      sum.microseconds += microseconds;
    }
  }
  return sum;
}

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
