#ifndef REDLATCH_SRC_REDIS_URL_SENTINELS_H_
#define REDLATCH_SRC_REDIS_URL_SENTINELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "src/base/mutex.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Who watches over a primary, and how to speak to them. What one connection of a URL learns of
// further sentinels is known to the others. Thread-safe.
class Sentinels {
 public:
  static constexpr uint16_t kPort = 26379;

  struct Options {
    std::vector<HostAndPort> hosts;  // as the URL names them
    std::string primary;             // what they call it
    std::string user;
    std::string password;
    bool tls = true;  // they speak TLS, where the servers do
  };

  explicit Sentinels(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }

  // Those of the URL first.
  std::vector<HostAndPort> Known() const;
  // Whom a sentinel has named besides itself; replaces what an earlier one said, since sentinels
  // come and go.
  void Learn(std::vector<HostAndPort> others);

 private:
  static constexpr size_t kMost = 32;  // learned; a quorum is a few

  const Options options_;
  mutable base::Mutex mu_;
  std::vector<HostAndPort> learned_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_SENTINELS_H_
