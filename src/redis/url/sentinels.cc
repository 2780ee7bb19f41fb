#include "src/redis/url/sentinels.h"

#include <algorithm>
#include <utility>

namespace redlatch::redis {

std::vector<HostAndPort> Sentinels::Known() const {
  std::vector<HostAndPort> known = options_.hosts;
  const base::MutexLock lock(mu_);
  for (const HostAndPort& each : learned_) {
    if (std::find(known.begin(), known.end(), each) == known.end()) known.push_back(each);
  }
  return known;
}

void Sentinels::Learn(std::vector<HostAndPort> others) {
  if (others.empty()) return;
  if (others.size() > kMost) others.resize(kMost);
  const base::MutexLock lock(mu_);
  learned_ = std::move(others);
}

}  // namespace redlatch::redis
