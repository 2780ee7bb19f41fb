#include "src/cli/lock_remains.h"

#include <string_view>

#include "src/cli/lock_keys.h"

namespace redlatch::cli {

redis::Command DeleteLocks(const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    keys.push_back(name);
    for (const char* const suffix :
         {"queue", "waiters", "fence", "readers", "write_wait", "permits", "counted"}) {
      keys.push_back(Auxiliary(name, suffix));
    }
  }
  std::vector<std::string_view> words = {"DEL"};
  words.insert(words.end(), keys.begin(), keys.end());
  return redis::Command(words);
}

}  // namespace redlatch::cli
