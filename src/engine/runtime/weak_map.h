#ifndef REDLATCH_SRC_ENGINE_RUNTIME_WEAK_MAP_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_WEAK_MAP_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "src/base/mutex.h"

namespace redlatch::engine {

// What all objects of one name share on a client, for as long as somebody has it. Thread-safe.
template <class T>
class WeakMap {
 public:
  std::shared_ptr<T> Of(std::string_view name, absl::FunctionRef<std::shared_ptr<T>()> make) {
    const base::MutexLock lock(mu_);
    std::weak_ptr<T>& known = known_[std::string(name)];
    std::shared_ptr<T> shared = known.lock();
    if (shared == nullptr) known = shared = make();
    return shared;
  }
  // By its destructor.
  void Forget(const std::string& name) {
    const base::MutexLock lock(mu_);
    const auto known = known_.find(name);
    if (known != known_.end() && known->second.expired()) known_.erase(known);
  }

 private:
  base::Mutex mu_;
  std::map<std::string, std::weak_ptr<T>, std::less<>> known_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_WEAK_MAP_H_
