#ifndef REDLATCH_TESTS_SIM_REDIS_PUB_SUB_H_
#define REDLATCH_TESTS_SIM_REDIS_PUB_SUB_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/sim/redis/string_map.h"

namespace redlatch::sim {

// Which connections have subscribed to which channels.
class PubSub {
 public:
  bool Add(std::string_view channel, uint64_t connection) {
    std::vector<uint64_t>& all = channels_[channel];
    const auto place = std::lower_bound(all.begin(), all.end(), connection);
    if (place != all.end() && *place == connection) return false;
    all.insert(place, connection);
    return true;
  }
  bool Remove(std::string_view channel, uint64_t connection) {
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return false;
    const bool removed = std::erase(found->second, connection) > 0;
    if (found->second.empty()) channels_.erase(found);
    return removed;
  }
  // In the order of their ids, which is the order in which a message is delivered.
  std::vector<uint64_t> Subscribers(std::string_view channel) const {
    const auto found = channels_.find(channel);
    return found == channels_.end() ? std::vector<uint64_t>() : found->second;
  }
  int64_t Count(std::string_view channel) const {
    const auto found = channels_.find(channel);
    return found == channels_.end() ? 0 : static_cast<int64_t>(found->second.size());
  }

 private:
  StringMap<std::vector<uint64_t>> channels_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_PUB_SUB_H_
