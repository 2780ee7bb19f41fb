// Which names a bench uses, and which server has them.
#ifndef REDLATCH_SRC_CLI_BENCH_PLACES_H_
#define REDLATCH_SRC_CLI_BENCH_PLACES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/redis_lock_base.h"
#include "src/cli/bench/run.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::cli {

// One for each thread, in one shard after the other as far as the names may be anywhere.
std::vector<std::string> OwnNames(const BenchPlan& plan);
std::string SharedName(const BenchPlan& plan);
std::string HandOverName(const BenchPlan& plan);

// Of the server that has the key; of a quorum the first one.
redis::Url UrlOf(const BenchPlan& plan, std::string_view key);

// What is measured: a RedLock of a quorum, else a SimpleLock.
std::unique_ptr<RedisLockBase> LockOf(const BenchPlan& plan, const Client& client,
                                      const std::string& name, absl::Duration lease);

// How plain Redis says something to those who listen, and where.
class Talk {
 public:
  explicit Talk(const BenchPlan& plan);

  redis::Command Subscribe(int thread) const;
  redis::Command Publish(int thread) const;
  const redis::Url& url() const { return url_; }

 private:
  std::string ChannelOf(int thread) const;

  const bool sharded_;
  const std::string channel_;
  const redis::Url url_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_PLACES_H_
