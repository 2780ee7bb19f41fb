#include "src/cli/look/lock_remains.h"

#include <string_view>

#include "src/cli/look/lock_keys.h"
#include "src/engine/protocol/key_set.h"

namespace redlatch::cli {

redis::Command DeleteLocks(const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    keys.push_back(name);
    const auto add = [&](std::string_view suffix) {
      keys.push_back(engine::AuxiliaryKey(name, suffix));
    };
    for (const std::string_view suffix :
         {engine::kFenceSuffix, engine::kReadersSuffix, kWritersSuffix, kPermitsSuffix,
          kForcedSuffix, kCountedSuffix, kHoldsSuffix, kWriteHoldsSuffix}) {
      add(suffix);
    }
    for (const std::string_view kind : kKinds) {
      add(QueueSuffix(kind));
      add(WaitersSuffix(kind));
    }
  }
  std::vector<std::string_view> words = {"DEL"};
  words.insert(words.end(), keys.begin(), keys.end());
  return redis::Command(words);
}

}  // namespace redlatch::cli
