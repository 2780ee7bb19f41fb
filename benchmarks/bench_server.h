#ifndef REDLATCH_BENCHMARKS_BENCH_SERVER_H_
#define REDLATCH_BENCHMARKS_BENCH_SERVER_H_

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>

namespace redlatch::bench {

// The redis-server that all benchmarks of one run share: started for them on loopback TCP, ended
// with the process.
uint16_t ServerPort();
std::string ServerUrl();

// The baseline's connection: what a program without redlatch would use. Ends the run where the
// server does not answer.
struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using RawConnection = std::unique_ptr<redisContext, FreeContext>;
RawConnection ConnectRaw();

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_BENCH_SERVER_H_
