#ifndef REDLATCH_SRC_LOCK_WEAK_MAP_H_
#define REDLATCH_SRC_LOCK_WEAK_MAP_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "src/base/mutex.h"

namespace redlatch::internal {

// Objects that all users of a name share for as long as one of them exists. Thread-safe.
template <class T>
class WeakMap {
 public:
  std::shared_ptr<T> Of(std::string_view name, absl::FunctionRef<std::shared_ptr<T>()> make) {
    const base::MutexLock lock(mu_);
    if (known_.size() >= most_) {
      std::erase_if(known_, [](const auto& each) { return each.second.expired(); });
      most_ = std::max(2 * known_.size(), kFew);
    }
    std::weak_ptr<T>& known = known_[std::string(name)];
    std::shared_ptr<T> shared = known.lock();
    if (shared == nullptr) known = shared = make();
    return shared;
  }
  // The number of remembered names: at most twice the live ones, or kFew.
  size_t size() {
    const base::MutexLock lock(mu_);
    return known_.size();
  }

 private:
  static constexpr size_t kFew = 16;

  base::Mutex mu_;
  size_t most_ ABSL_GUARDED_BY(mu_) = kFew;
  std::map<std::string, std::weak_ptr<T>, std::less<>> known_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_WEAK_MAP_H_
