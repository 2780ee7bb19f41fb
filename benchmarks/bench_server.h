#ifndef REDLATCH_BENCHMARKS_BENCH_SERVER_H_
#define REDLATCH_BENCHMARKS_BENCH_SERVER_H_

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace redlatch::bench {

// All benchmarks of one run share this redis-server. It is started for them on loopback TCP, and
// ends with the process.
uint16_t ServerPort();
std::string ServerUrl();

// In a process of a race (process_race.h): use the server that already listens there.
void AdoptServer(uint16_t port);

// How often and how long the server executed these commands, by its own count. Not for a race's
// process.
struct CommandStats {
  int64_t calls = 0;
  int64_t microseconds = 0;
};
CommandStats StatsOf(const std::vector<std::string>& commands);

// The baseline's connection, as a program without redlatch would use. The run ends if the server
// does not answer.
struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using RawConnection = std::unique_ptr<redisContext, FreeContext>;
RawConnection ConnectRaw();

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_BENCH_SERVER_H_
