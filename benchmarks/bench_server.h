#ifndef REDLATCH_BENCHMARKS_BENCH_SERVER_H_
#define REDLATCH_BENCHMARKS_BENCH_SERVER_H_

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace redlatch::bench {

// The redis-server that all benchmarks of one run share: started for them on loopback TCP, ended
// with the process.
uint16_t ServerPort();
std::string ServerUrl();

// In a process of a race (process_race.h): the server is the one that listens there already.
void AdoptServer(uint16_t port);

// What the server has executed of commands of these names, by its own count. Not in a race's
// process.
struct CommandStats {
  int64_t calls = 0;
  int64_t microseconds = 0;
};
CommandStats StatsOf(const std::vector<std::string>& commands);

// The baseline's connection: what a program without redlatch would use. Ends the run where the
// server does not answer.
struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using RawConnection = std::unique_ptr<redisContext, FreeContext>;
RawConnection ConnectRaw();

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_BENCH_SERVER_H_
