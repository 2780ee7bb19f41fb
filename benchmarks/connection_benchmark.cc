// One round trip: PING over each thread's own blocking hiredis connection, and PING over one
// Connection for all threads.
#include <benchmark/benchmark.h>
#include <hiredis/hiredis.h>

#include <memory>

#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "src/base/clock.h"
#include "src/redis/link/connection.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::bench {
namespace {

void BM_RawHiredis_Ping(benchmark::State& state) {
  const RawConnection connection = ConnectRaw();
  for (auto _ : state) {
    auto* reply = static_cast<redisReply*>(redisCommand(connection.get(), "PING"));
    if (reply == nullptr || reply->type != REDIS_REPLY_STATUS) {
      state.SkipWithError("PING failed");
      break;
    }
    freeReplyObject(reply);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_RawHiredis_Ping)->UseRealTime();
BENCHMARK(BM_RawHiredis_Ping)->UseRealTime()->Threads(64);

redis::Connection& SharedChannel() {
  static redis::Connection* const connection = new redis::Connection(*redis::ParseUrl(ServerUrl()));
  return *connection;
}

void BM_Channel_Ping(benchmark::State& state) {
  redis::Connection& connection = SharedChannel();
  for (auto _ : state) {
    const auto reply = connection.Call(redis::Command{"PING"}, base::Now() + absl::Seconds(1));
    if (!reply.ok() || reply->type != redis::Reply::Type::kStatus) {
      state.SkipWithError("PING failed");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Channel_Ping)->UseRealTime();
BENCHMARK(BM_Channel_Ping)->UseRealTime()->Threads(64);

}  // namespace
}  // namespace redlatch::bench
